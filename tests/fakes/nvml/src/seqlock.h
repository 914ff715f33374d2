/* A sequence lock over one block of the state.
 *
 * Why it is enough: a block has one writer at a time (the driver holds a lock around every publication), and a
 * publication is one memcpy between two steps of the block's sequence number. A reader that finds the number even and
 * unchanged around its own copy has therefore copied nothing that was being written; otherwise it copies again. Readers
 * write nothing, so any number of processes may map the state, die or be stopped anywhere, and neither the writer nor
 * another reader waits for them. What must be consistent with each other (a sample and the utilization rates, memory
 * and processes of a GPU) lies in the same block; no call of NVML reads two devices.
 */
#ifndef SEQLOCK_H
#define SEQLOCK_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t seqlock_read_begin(_Atomic uint64_t *sequence) {
    uint64_t begin;
    while ((begin = atomic_load_explicit(sequence, memory_order_acquire)) & 1)
        sched_yield(); /* a publication takes microseconds */
    return begin;
}

/* Whether what was copied since `begin` must be copied again. */
static inline bool seqlock_read_retry(_Atomic uint64_t *sequence, uint64_t begin) {
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(sequence, memory_order_relaxed) != begin;
}

static inline void seqlock_write(_Atomic uint64_t *sequence, void *to, const void *from, size_t size) {
    uint64_t begin = atomic_load_explicit(sequence, memory_order_relaxed);
    /* A driver that was killed in the middle left an odd number behind; its successor writes everything anew. */
    begin &= ~UINT64_C(1);
    atomic_store_explicit(sequence, begin + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy(to, from, size);
    atomic_store_explicit(sequence, begin + 2, memory_order_release);
}

#endif
