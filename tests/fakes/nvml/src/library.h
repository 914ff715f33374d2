/* What every function of the double goes through: the mapped state, handles, counted calls, forced errors and hangs. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "nvml_abi.h"
#include "seqlock.h"
#include "state.h"

enum function {
#define FUNCTION(name) FN_##name,
#include "functions.def"
#undef FUNCTION
    FUNCTION_COUNT
};

#define TRY(call)                            \
    do {                                     \
        nvmlReturn_t try_result = (call);    \
        if (try_result != NVML_SUCCESS)      \
            return try_result;               \
    } while (0)

#define REQUIRE(condition)                      \
    do {                                        \
        if (!(condition))                       \
            return NVML_ERROR_INVALID_ARGUMENT; \
    } while (0)

/* Begins a call about no device: counts it, blocks or fails as told. `*state` is the mapped block. */
nvmlReturn_t system_call(enum function function, struct state **state);

/* Begins a call about a device, which must be there. */
nvmlReturn_t device_call(enum function function, nvmlDevice_t handle, struct device **device);

/* The same, with a consistent copy of what most calls ask about. */
nvmlReturn_t identity_call(enum function function, nvmlDevice_t handle, struct identity *identity);
nvmlReturn_t telemetry_call(enum function function, nvmlDevice_t handle, struct telemetry *telemetry);

/* What is forced upon a function at one device; for functions that only find the device in the course of the call. */
nvmlReturn_t device_obey(enum function function, struct state *state, struct device *device);

/* Handles are slot numbers in disguise: they stay valid, and mean the same GPU, while others come and go. */
nvmlDevice_t handle_of(const struct state *state, const struct device *device);

/* Consistent copies of parts of a device. */
uint32_t presence_of(struct device *device);
void identity_of(struct device *device, struct identity *identity);
void telemetry_of(struct device *device, struct telemetry *telemetry);

/* Whether the GPU is partitioned: then there is no utilization of the whole. */
bool mig_enabled(struct device *device);

/* Number of the first sample that a ring still holds. To be used inside a read of the seqlock. */
uint64_t oldest_sample(const struct ring *ring);

/* Copies a string into a caller's buffer, or answers INSUFFICIENT_SIZE. */
nvmlReturn_t copy_string(const char *text, char *buffer, unsigned int length);

#endif
