/* What never changes about a GPU. */
#include "library.h"

#include <stdio.h>

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned int length) {
    struct target target;
    TRY(target_call(FN_nvmlDeviceGetName, handle, &target));
    struct identity identity;
    identity_of(target.device, &identity);
    if (target.place < 0)
        return copy_string(identity.name, name, length);
    char full[sizeof identity.name + sizeof " MIG " + sizeof target.instance.profile];
    snprintf(full, sizeof full, "%s MIG %s", identity.name, target.instance.profile);
    return copy_string(full, name, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned int length) {
    struct target target;
    TRY(target_call(FN_nvmlDeviceGetUUID, handle, &target));
    if (target.place >= 0)
        return copy_string(target.instance.uuid, uuid, length);
    struct identity identity;
    identity_of(target.device, &identity);
    return copy_string(identity.uuid, uuid, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t handle, char *serial, unsigned int length) {
    struct identity identity;
    TRY(identity_call(FN_nvmlDeviceGetSerial, handle, &identity));
    if (identity.serial[0] == '\0')
        return NVML_ERROR_NOT_SUPPORTED;
    return copy_string(identity.serial, serial, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t handle, char *version, unsigned int length) {
    struct identity identity;
    TRY(identity_call(FN_nvmlDeviceGetVbiosVersion, handle, &identity));
    return copy_string(identity.vbios, version, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned int *minor) {
    struct identity identity;
    TRY(identity_call(FN_nvmlDeviceGetMinorNumber, handle, &identity));
    REQUIRE(minor != NULL);
    *minor = identity.minor;
    return NVML_SUCCESS;
}

static void place_on_bus(const struct identity *identity, nvmlPciInfo_t *pci) {
    *pci = (nvmlPciInfo_t){
        .domain = identity->pci_domain,
        .bus = identity->pci_bus,
        .device = identity->pci_device,
        .pciDeviceId = identity->pci_device_id,
        .pciSubSystemId = identity->pci_subsystem_id,
    };
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", identity->pci_domain & 0xffff,
             identity->pci_bus & 0xff, identity->pci_device & 0xff);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", identity->pci_domain, identity->pci_bus,
             identity->pci_device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *pci) {
    struct identity identity;
    TRY(identity_call(FN_nvmlDeviceGetPciInfo, handle, &identity));
    REQUIRE(pci != NULL);
    place_on_bus(&identity, pci);
    return NVML_SUCCESS;
}

/* The same structure as the third version's; py3nvml calls it. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t handle, nvmlPciInfo_t *pci) {
    return nvmlDeviceGetPciInfo_v3(handle, pci);
}

NVML_EXPORT nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count) {
    struct state *state;
    TRY(system_call(FN_nvmlGetExcludedDeviceCount, &state));
    REQUIRE(count != NULL);
    *count = 0;
    for (struct device *device = state->devices; device < state->devices + MAX_DEVICES; device++)
        *count += presence_of(device) == PRESENCE_EXCLUDED;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGetExcludedDeviceInfoByIndex(unsigned int index, nvmlExcludedDeviceInfo_t *info) {
    struct state *state;
    TRY(system_call(FN_nvmlGetExcludedDeviceInfoByIndex, &state));
    REQUIRE(info != NULL);
    for (struct device *device = state->devices; device < state->devices + MAX_DEVICES; device++) {
        struct identity identity;
        if (presence_of(device) != PRESENCE_EXCLUDED || index-- > 0)
            continue;
        identity_of(device, &identity);
        place_on_bus(&identity, &info->pciInfo);
        snprintf(info->uuid, sizeof info->uuid, "%.79s", identity.uuid);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t handle, unsigned int *architecture) {
    struct identity identity;
    TRY(identity_call(FN_nvmlDeviceGetArchitecture, handle, &identity));
    REQUIRE(architecture != NULL);
    *architecture = identity.architecture;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int *major, int *minor) {
    struct identity identity;
    TRY(identity_call(FN_nvmlDeviceGetCudaComputeCapability, handle, &identity));
    REQUIRE(major != NULL && minor != NULL);
    *major = (int)identity.compute_major;
    *minor = (int)identity.compute_minor;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t handle, unsigned int *cores) {
    struct identity identity;
    TRY(identity_call(FN_nvmlDeviceGetNumGpuCores, handle, &identity));
    REQUIRE(cores != NULL);
    *cores = identity.cores;
    return NVML_SUCCESS;
}

/* No display is attached to a GPU of the double. */
static nvmlReturn_t display_off(enum function function, nvmlDevice_t handle, unsigned int *enabled) {
    struct device *device;
    TRY(device_call(function, handle, &device));
    REQUIRE(enabled != NULL);
    *enabled = 0;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t handle, unsigned int *enabled) {
    return display_off(FN_nvmlDeviceGetDisplayMode, handle, enabled);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t handle, unsigned int *enabled) {
    return display_off(FN_nvmlDeviceGetDisplayActive, handle, enabled);
}

/* Driver models are Windows'. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t handle, unsigned int *current,
                                                     unsigned int *pending) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetDriverModel, handle, &device));
    REQUIRE(current != NULL && pending != NULL);
    return NVML_ERROR_NOT_SUPPORTED;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t handle, unsigned int *current, unsigned int *pending) {
    return nvmlDeviceGetDriverModel_v2(handle, current, pending);
}
