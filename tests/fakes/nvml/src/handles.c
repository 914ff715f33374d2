/* Which GPUs there are, and handles to them. */
#include "library.h"

#include <stdio.h>

/* Counted as a driver would: lost GPUs still are, absent ones are not. */
static bool counted(struct device *device) {
    uint32_t presence = presence_of(device);
    return presence == PRESENCE_PRESENT || presence == PRESENCE_LOST;
}

/* Answers the handle of a device that a function has found, or what is forced upon it there. */
static nvmlReturn_t found(enum function function, struct state *state, struct device *device, nvmlDevice_t *handle) {
    *handle = handle_of(state, device);
    TRY(device_obey(function, state, device));
    return presence_of(device) == PRESENCE_PRESENT ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

/* Finds the device whose identity matches a key. */
static nvmlReturn_t find(enum function function, bool (*matches)(const struct identity *, const void *),
                         const void *key, nvmlDevice_t *handle) {
    struct state *state;
    TRY(system_call(function, &state));
    REQUIRE(key != NULL && handle != NULL);
    for (struct device *device = state->devices; device < state->devices + MAX_DEVICES; device++) {
        struct identity identity;
        identity_of(device, &identity);
        if (counted(device) && matches(&identity, key))
            return found(function, state, device, handle);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    struct state *state;
    TRY(system_call(FN_nvmlDeviceGetCount, &state));
    REQUIRE(count != NULL);
    *count = 0;
    for (struct device *device = state->devices; device < state->devices + MAX_DEVICES; device++)
        *count += counted(device);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) {
    return nvmlDeviceGetCount_v2(count);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle) {
    struct state *state;
    TRY(system_call(FN_nvmlDeviceGetHandleByIndex, &state));
    REQUIRE(handle != NULL);
    for (struct device *device = state->devices; device < state->devices + MAX_DEVICES; device++)
        if (counted(device) && index-- == 0)
            return found(FN_nvmlDeviceGetHandleByIndex, state, device, handle);
    return NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *handle) {
    return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

/* Of a MIG instance: its place below its GPU. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int *index) {
    struct target target;
    TRY(target_call(FN_nvmlDeviceGetIndex, handle, &target));
    REQUIRE(index != NULL);
    *index = 0;
    if (target.place >= 0)
        *index = (unsigned int)target.place;
    else
        for (struct device *before = target.state->devices; before < target.device; before++)
            *index += counted(before);
    return NVML_SUCCESS;
}

static bool has_uuid(const struct identity *identity, const void *uuid) {
    return strcmp(identity->uuid, uuid) == 0;
}

static nvmlReturn_t find_instance(struct state *state, const char *uuid, nvmlDevice_t *handle) {
    for (struct device *device = state->devices; device < state->devices + MAX_DEVICES; device++)
        for (int place = 0; counted(device) && place < MAX_INSTANCES; place++) {
            struct instance instance;
            instance_of(device, place, &instance);
            if (!instance.present || strcmp(instance.uuid, uuid) != 0)
                continue;
            TRY(found(FN_nvmlDeviceGetHandleByUUID, state, device, handle));
            *handle = instance_handle_of(state, device, place, instance.generation);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *handle) {
    nvmlReturn_t whole = find(FN_nvmlDeviceGetHandleByUUID, has_uuid, uuid, handle);
    return whole == NVML_ERROR_NOT_FOUND ? find_instance(mapped_state(), uuid, handle) : whole;
}

static bool has_serial(const struct identity *identity, const void *serial) {
    return identity->serial[0] != '\0' && strcmp(identity->serial, serial) == 0;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *handle) {
    return find(FN_nvmlDeviceGetHandleBySerial, has_serial, serial, handle);
}

/* With a domain or, for domain 0, without. */
static bool has_bus_id(const struct identity *identity, const void *bus_id) {
    unsigned int domain, bus, device;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3) {
        domain = 0;
        if (sscanf(bus_id, "%x:%x", &bus, &device) != 2)
            return false;
    }
    return identity->pci_domain == domain && identity->pci_bus == bus && identity->pci_device == device;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *handle) {
    return find(FN_nvmlDeviceGetHandleByPciBusId, has_bus_id, bus_id, handle);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *handle) {
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, handle);
}
