/* MIG: the instances of a partitioned GPU, and what only they have. */
#include "library.h"

NVML_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned int *is_mig) {
    struct target target;
    TRY(target_call(FN_nvmlDeviceIsMigDeviceHandle, handle, &target));
    REQUIRE(is_mig != NULL);
    *is_mig = target.place >= 0;
    return NVML_SUCCESS;
}

static uint32_t max_instances(struct device *device) {
    uint64_t begin;
    uint32_t instances;
    do {
        begin = seqlock_read_begin(&device->sequence);
        instances = device->max_instances;
    } while (seqlock_read_retry(&device->sequence, begin));
    return instances;
}

/* 0 where MIG is off or unknown. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned int *count) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetMaxMigDeviceCount, handle, &device));
    REQUIRE(count != NULL);
    *count = mig_enabled(device) ? max_instances(device) : 0;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned int index,
                                                             nvmlDevice_t *instance_handle) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetMigDeviceHandleByIndex, handle, &device));
    uint32_t count = max_instances(device);
    if (count == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    REQUIRE(instance_handle != NULL && index < count);
    struct instance instance;
    instance_of(device, (int)index, &instance);
    if (!instance.present)
        return NVML_ERROR_NOT_FOUND;
    *instance_handle = instance_handle_of(mapped_state(), device, (int)index, instance.generation);
    return NVML_SUCCESS;
}

/* Begins a call that is about a MIG instance only. */
static nvmlReturn_t instance_call(enum function function, nvmlDevice_t handle, struct target *target) {
    TRY(target_call(function, handle, target));
    REQUIRE(target->place >= 0);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t handle, nvmlDevice_t *parent) {
    struct target target;
    TRY(instance_call(FN_nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle, &target));
    REQUIRE(parent != NULL);
    *parent = handle_of(target.state, target.device);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned int *id) {
    struct target target;
    TRY(instance_call(FN_nvmlDeviceGetGpuInstanceId, handle, &target));
    REQUIRE(id != NULL);
    *id = target.instance.gpu_instance;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned int *id) {
    struct target target;
    TRY(instance_call(FN_nvmlDeviceGetComputeInstanceId, handle, &target));
    REQUIRE(id != NULL);
    *id = target.instance.compute_instance;
    return NVML_SUCCESS;
}

/* Of MIG instances only, says the documentation. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t handle, nvmlDeviceAttributes_t *attributes) {
    struct target target;
    TRY(target_call(FN_nvmlDeviceGetAttributes, handle, &target));
    REQUIRE(attributes != NULL);
    if (target.place < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    const struct instance *instance = &target.instance;
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = instance->multiprocessors,
        .sharedCopyEngineCount = instance->copy_engines,
        .sharedDecoderCount = instance->decoders,
        .sharedEncoderCount = instance->encoders,
        .sharedJpegCount = instance->jpegs,
        .sharedOfaCount = instance->ofas,
        .gpuInstanceSliceCount = instance->gpu_slices,
        .computeInstanceSliceCount = instance->compute_slices,
        .memorySizeMB = instance->memory_total >> 20,
    };
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t handle, nvmlDeviceAttributes_t *attributes) {
    return nvmlDeviceGetAttributes_v2(handle, attributes);
}
