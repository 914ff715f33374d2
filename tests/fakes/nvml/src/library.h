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

#define NVML_EXPORT __attribute__((visibility("default")))

/* What NVML puts into the `version` of a versioned structure. */
#define STRUCT_VERSION(type, version) ((unsigned int)(sizeof(type) | ((version) << 24)))

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

/* What a handle means: a GPU, or one of its MIG instances. */
struct target {
    struct state *state;
    struct device *device;
    int place;                /* of the instance, -1: the whole GPU */
    struct instance instance; /* a consistent copy; meaningless for a whole GPU */
};

/* Begins a call that takes both kinds of handles. A handle to an instance that is gone is invalid. */
nvmlReturn_t target_call(enum function function, nvmlDevice_t handle, struct target *target);

/* Begins a call about a whole device, which must be there; NOT_SUPPORTED for MIG instances. */
nvmlReturn_t device_call(enum function function, nvmlDevice_t handle, struct device **device);

/* The same, with a consistent copy of what most calls ask about. */
nvmlReturn_t identity_call(enum function function, nvmlDevice_t handle, struct identity *identity);
nvmlReturn_t telemetry_call(enum function function, nvmlDevice_t handle, struct telemetry *telemetry);

/* What is forced upon a function at one device; for functions that only find the device in the course of the call. */
nvmlReturn_t device_obey(enum function function, struct state *state, struct device *device);

/* Handles are slot numbers in disguise: they stay valid, and mean the same GPU, while others come and go. Those of MIG
 * instances also hold the place and its generation. */
nvmlDevice_t handle_of(const struct state *state, const struct device *device);
nvmlDevice_t instance_handle_of(const struct state *state, const struct device *device, int place,
                                uint32_t generation);

/* Place among the devices, from 0. */
uint32_t slot_of(const struct state *state, const struct device *device);

/* Consistent copies of parts of a device. */
uint32_t presence_of(struct device *device);
void identity_of(struct device *device, struct identity *identity);
void telemetry_of(struct device *device, struct telemetry *telemetry);
void instance_of(struct device *device, int place, struct instance *instance);

/* The driver, at this moment. */
struct system system_of(struct state *state);

/* Major version of the driver: what it can do hangs on it. */
unsigned int driver_version(struct state *state); /* its first number */
unsigned int driver_number(struct state *state); /* 1000 * its first number + its second */

/* The mapped block, in a call that has begun; and whether the library has not been shut down since. */
struct state *mapped_state(void);
bool initialized(void);

/* Whether the GPU is partitioned: then there is no utilization of the whole. */
bool mig_enabled(struct device *device);

/* Number of the first sample that a ring still holds. To be used inside a read of the seqlock. */
uint64_t oldest_sample(const struct ring *ring);

/* Copies a string into a caller's buffer, or answers INSUFFICIENT_SIZE. */
nvmlReturn_t copy_string(const char *text, char *buffer, unsigned int length);

#endif
