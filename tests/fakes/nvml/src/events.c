/* Events: what happens to GPUs, waited for in sets. */
#include "library.h"

#include <stdlib.h>
#include <time.h>

/* Between looks for an event, at first and at last: a driver would cost nothing while it waits. */
enum { POLL_MS = 5, LAST_POLL_MS = 40 };

/* For each GPU what was registered for, and the number of the first event that this set has not seen. */
struct nvmlEventSet_st {
    uint64_t types[MAX_DEVICES];
    uint64_t next[MAX_DEVICES];
};

static uint64_t events_written(struct state *state) {
    uint64_t begin, written;
    do {
        begin = seqlock_read_begin(&state->events.sequence);
        written = state->events.written;
    } while (seqlock_read_retry(&state->events.sequence, begin));
    return written;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    struct state *state;
    TRY(system_call(FN_nvmlEventSetCreate, &state));
    REQUIRE(set != NULL);
    *set = calloc(1, sizeof **set);
    return *set == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    struct state *state;
    TRY(system_call(FN_nvmlEventSetFree, &state));
    REQUIRE(set != NULL);
    free(set);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t handle, unsigned long long *types) {
    struct identity identity;
    TRY(identity_call(FN_nvmlDeviceGetSupportedEventTypes, handle, &identity));
    REQUIRE(types != NULL);
    *types = identity.event_types;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long types, nvmlEventSet_t set) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceRegisterEvents, handle, &device));
    REQUIRE(set != NULL);
    struct identity identity;
    identity_of(device, &identity);
    if (types & ~identity.event_types)
        return NVML_ERROR_NOT_SUPPORTED;
    struct state *state = mapped_state();
    uint32_t slot = slot_of(state, device);
    if (set->types[slot] == 0)
        set->next[slot] = events_written(state);
    set->types[slot] |= types;
    return NVML_SUCCESS;
}

/* The oldest event of this set; false where there is none. */
static bool take_event(struct state *state, nvmlEventSet_t set, struct event *event) {
    struct event_log *log = &state->events;
    uint64_t begin, number;
    bool found;
    do {
        begin = seqlock_read_begin(&log->sequence);
        found = false;
        number = log->written > MAX_EVENTS ? log->written - MAX_EVENTS : 0;
        for (; !found && number < log->written; number++) {
            *event = log->events[number % MAX_EVENTS];
            found = event->slot < MAX_DEVICES && number >= set->next[event->slot] &&
                    (set->types[event->slot] & event->type) != 0;
        }
    } while (seqlock_read_retry(&log->sequence, begin));
    if (found)
        set->next[event->slot] = number;
    return found;
}

static bool lost_one(struct state *state, nvmlEventSet_t set) {
    for (uint32_t slot = 0; slot < MAX_DEVICES; slot++)
        if (set->types[slot] != 0 && presence_of(&state->devices[slot]) != PRESENCE_PRESENT)
            return true;
    return false;
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What happened is told before a GPU that is lost is complained about: an XID 79 is the last that is heard of it. */
NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms) {
    struct state *state;
    TRY(system_call(FN_nvmlEventSetWait, &state));
    REQUIRE(set != NULL && data != NULL);
    uint64_t deadline = now_ms() + timeout_ms;
    for (long pause = POLL_MS;; pause = pause < LAST_POLL_MS ? 2 * pause : LAST_POLL_MS) {
        struct event event;
        if (take_event(state, set, &event)) {
            *data = (nvmlEventData_t){
                .device = handle_of(state, &state->devices[event.slot]),
                .eventType = event.type,
                .eventData = event.data,
                .gpuInstanceId = event.gpu_instance,
                .computeInstanceId = event.compute_instance,
            };
            return NVML_SUCCESS;
        }
        if (lost_one(state, set))
            return NVML_ERROR_GPU_IS_LOST;
        if (now_ms() >= deadline)
            return NVML_ERROR_TIMEOUT;
        if (!initialized())
            return NVML_ERROR_UNINITIALIZED;
        nanosleep(&(struct timespec){.tv_nsec = pause * 1000000}, NULL);
    }
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms) {
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
