/* The writer's side, loaded by the Python driver (a library of its own: the driver's process need not load NVML).
 * It is in C because Python has no memory barriers. */
#include "seqlock.h"

__attribute__((visibility("default"))) void publish(void *sequence, void *to, const void *from, uint64_t size) {
    seqlock_write(sequence, to, from, size);
}
