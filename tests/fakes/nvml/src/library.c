/* Initialisation and the way into every call. The mapping is the only mutable state of the library. */
#include "library.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

_Static_assert((int)FUNCTION_COUNT <= (int)MAX_FUNCTIONS, "more functions than controls");

static struct {
    pthread_mutex_t lock;
    _Atomic unsigned int users; /* calls of nvmlInit less those of nvmlShutdown */
    struct state *_Atomic state;
    dev_t filesystem;
    ino_t file;
} mapping = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Maps the file that NVML_DOUBLE_STATE names. Without one there is no driver on this machine. A former mapping is
 * kept: another thread may be inside a call, and there is one per state file that a process ever opened. */
static nvmlReturn_t map_state(void) {
    const char *path = getenv("NVML_DOUBLE_STATE");
    if (path == NULL)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    struct stat status;
    if (fstat(fd, &status) != 0 || (size_t)status.st_size != sizeof(struct state)) {
        fprintf(stderr, "NVML double: %s is not a state of this library (rebuild it, or write the state anew)\n", path);
        close(fd);
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    struct state *current = atomic_load(&mapping.state);
    if (current != NULL && status.st_dev == mapping.filesystem && status.st_ino == mapping.file) {
        close(fd);
        return NVML_SUCCESS;
    }
    struct state *state = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (state == MAP_FAILED || state->magic != STATE_MAGIC || state->size != sizeof(struct state))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    mapping.filesystem = status.st_dev;
    mapping.file = status.st_ino;
    atomic_store(&mapping.state, state);
    return NVML_SUCCESS;
}

static bool hanging(struct control *any, struct control *one) {
    return atomic_load(&any->hang) != 0 || atomic_load(&one->hang) != 0;
}

static long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* Short times are spent awake, as a driver's calls spend them: a sleep would take some 50 us more. */
static void delay(struct control *control) {
    uint32_t delay_us = atomic_load(&control->delay_us);
    if (delay_us >= 1000)
        nanosleep(&(struct timespec){.tv_nsec = (long)delay_us * 1000}, NULL);
    else if (delay_us > 0)
        for (long long end = now_us() + delay_us; now_us() < end;)
            ;
}

static nvmlReturn_t forced(struct control *control) {
    uint32_t result = atomic_load(&control->result);
    if (result == NVML_SUCCESS)
        return NVML_SUCCESS;
    int32_t remaining = atomic_load(&control->remaining);
    while (remaining > 0 && !atomic_compare_exchange_weak(&control->remaining, &remaining, remaining - 1))
        ;
    return remaining == 0 ? NVML_SUCCESS : (nvmlReturn_t)result;
}

/* Blocks and waits as told, then answers the forced result of a function in one row of the controls. */
static nvmlReturn_t obey(struct control *row, enum function function) {
    struct control *any = &row[FN_ANY], *one = &row[function];
    if (hanging(any, one)) {
        atomic_fetch_add(&one->hung, 1);
        /* A real call hangs in the kernel: no signal handler of the client runs before it returns, only SIGKILL ends
         * it. So sleep again after every signal. */
        while (hanging(any, one))
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    delay(any);
    delay(one);
    TRY(forced(any));
    return forced(one);
}

nvmlReturn_t system_call(enum function function, struct state **state) {
    *state = atomic_load(&mapping.state);
    if (*state == NULL || atomic_load(&mapping.users) == 0)
        return NVML_ERROR_UNINITIALIZED;
    atomic_fetch_add(&(*state)->controls[0][function].calls, 1);
    return obey((*state)->controls[0], function);
}

nvmlReturn_t device_obey(enum function function, struct state *state, struct device *device) {
    return obey(state->controls[slot_of(state, device) + 1], function);
}

nvmlReturn_t target_call(enum function function, nvmlDevice_t handle, struct target *target) {
    struct state *state = atomic_load(&mapping.state);
    if (state == NULL || atomic_load(&mapping.users) == 0)
        return NVML_ERROR_UNINITIALIZED;
    uintptr_t number = (uintptr_t)handle, slot = (number & 0xff) - 1;
    REQUIRE(slot < MAX_DEVICES);
    target->state = state;
    target->device = &state->devices[slot];
    target->place = (int)(number >> 8 & 0xff) - 1;
    REQUIRE(target->place < MAX_INSTANCES);
    REQUIRE(presence_of(target->device) != PRESENCE_UNUSED);
    atomic_fetch_add(&state->controls[slot + 1][function].calls, 1);
    TRY(obey(state->controls[0], function));
    TRY(device_obey(function, state, target->device));
    if (presence_of(target->device) != PRESENCE_PRESENT)
        return NVML_ERROR_GPU_IS_LOST;
    if (target->place >= 0) {
        instance_of(target->device, target->place, &target->instance);
        REQUIRE(target->instance.present && target->instance.generation == number >> 16);
    }
    return NVML_SUCCESS;
}

nvmlReturn_t device_call(enum function function, nvmlDevice_t handle, struct device **device) {
    struct target target;
    TRY(target_call(function, handle, &target));
    *device = target.device;
    return target.place < 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t identity_call(enum function function, nvmlDevice_t handle, struct identity *identity) {
    struct device *device;
    TRY(device_call(function, handle, &device));
    identity_of(device, identity);
    return NVML_SUCCESS;
}

nvmlReturn_t telemetry_call(enum function function, nvmlDevice_t handle, struct telemetry *telemetry) {
    struct device *device;
    TRY(device_call(function, handle, &device));
    telemetry_of(device, telemetry);
    return NVML_SUCCESS;
}

struct state *mapped_state(void) {
    return atomic_load(&mapping.state);
}

bool initialized(void) {
    return atomic_load(&mapping.users) != 0;
}

uint32_t slot_of(const struct state *state, const struct device *device) {
    return (uint32_t)(device - state->devices);
}

nvmlDevice_t handle_of(const struct state *state, const struct device *device) {
    return (nvmlDevice_t)((uintptr_t)slot_of(state, device) + 1);
}

nvmlDevice_t instance_handle_of(const struct state *state, const struct device *device, int place,
                                uint32_t generation) {
    uintptr_t slot = slot_of(state, device);
    return (nvmlDevice_t)((slot + 1) | (uintptr_t)(place + 1) << 8 | (uintptr_t)generation << 16);
}

uint32_t presence_of(struct device *device) {
    uint64_t begin;
    uint32_t presence;
    do {
        begin = seqlock_read_begin(&device->sequence);
        presence = device->presence;
    } while (seqlock_read_retry(&device->sequence, begin));
    return presence;
}

void identity_of(struct device *device, struct identity *identity) {
    uint64_t begin;
    do {
        begin = seqlock_read_begin(&device->sequence);
        *identity = device->identity;
    } while (seqlock_read_retry(&device->sequence, begin));
}

void telemetry_of(struct device *device, struct telemetry *telemetry) {
    uint64_t begin;
    do {
        begin = seqlock_read_begin(&device->sequence);
        *telemetry = device->telemetry;
    } while (seqlock_read_retry(&device->sequence, begin));
}

void instance_of(struct device *device, int place, struct instance *instance) {
    uint64_t begin;
    do {
        begin = seqlock_read_begin(&device->sequence);
        *instance = device->instances[place];
    } while (seqlock_read_retry(&device->sequence, begin));
}

bool mig_enabled(struct device *device) {
    struct telemetry telemetry;
    telemetry_of(device, &telemetry);
    return telemetry.mig_current == 1;
}

uint64_t oldest_sample(const struct ring *ring) {
    return ring->written > ring->capacity ? ring->written - ring->capacity : 0;
}

nvmlReturn_t copy_string(const char *text, char *buffer, unsigned int length) {
    REQUIRE(buffer != NULL);
    if (strlen(text) + 1 > length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    pthread_mutex_lock(&mapping.lock);
    nvmlReturn_t result = mapping.users == 0 ? map_state() : NVML_SUCCESS;
    pthread_mutex_unlock(&mapping.lock);
    TRY(result);

    struct state *state = atomic_load(&mapping.state);
    atomic_fetch_add(&state->controls[0][FN_nvmlInit].calls, 1);
    TRY(obey(state->controls[0], FN_nvmlInit));
    atomic_fetch_add(&mapping.users, 1);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlInit(void) {
    return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void) {
    struct state *state;
    TRY(system_call(FN_nvmlShutdown, &state));
    atomic_fetch_sub(&mapping.users, 1);
    return NVML_SUCCESS;
}
