/* Processes that have a context on a device, and their use of it. */
#include "library.h"

/* What a handle is told about a process. A GPU that is partitioned names the instance, and leaves the memory to the
 * instance's own handle. */
static nvmlProcessInfo_t describe(const struct device *device, const struct process *process, bool whole) {
    nvmlProcessInfo_t info = {
        .pid = process->pid,
        .usedGpuMemory = process->memory_used,
        .gpuInstanceId = UINT32_MAX, /* none: not a MIG instance */
        .computeInstanceId = UINT32_MAX,
    };
    if (process->instance < MAX_INSTANCES) {
        info.gpuInstanceId = device->instances[process->instance].gpu_instance;
        info.computeInstanceId = device->instances[process->instance].compute_instance;
        if (whole)
            info.usedGpuMemory = NOT_AVAILABLE_U64;
    }
    return info;
}

static nvmlReturn_t running(enum function function, enum process_kind kind, nvmlDevice_t handle, unsigned int *count,
                            nvmlProcessInfo_t *infos) {
    struct target target;
    TRY(target_call(function, handle, &target));
    REQUIRE(count != NULL);
    struct device *device = target.device;
    bool whole = target.place < 0;
    unsigned int found, room = infos == NULL ? 0 : *count;
    uint64_t begin;
    do {
        begin = seqlock_read_begin(&device->sequence);
        found = 0;
        for (uint32_t i = 0; i < device->process_count && i < MAX_PROCESSES; i++) {
            const struct process *process = &device->processes[i];
            if (process->kind != kind || (!whole && process->instance != (uint32_t)target.place))
                continue;
            if (found < room)
                infos[found] = describe(device, process, whole);
            found++;
        }
        for (uint32_t i = 0; whole && kind == PROCESS_COMPUTE && i < device->crowd; i++, found++)
            if (found < room)
                infos[found] = (nvmlProcessInfo_t){
                    .pid = device->crowd_pid + i,
                    .usedGpuMemory = device->crowd_memory,
                    .gpuInstanceId = UINT32_MAX,
                    .computeInstanceId = UINT32_MAX,
                };
    } while (seqlock_read_retry(&device->sequence, begin));
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define RUNNING(name, version, kind)                                                         \
    NVML_EXPORT nvmlReturn_t name##version(nvmlDevice_t handle, unsigned int *count,         \
                                           nvmlProcessInfo_t *infos) {                       \
        return running(FN_##name, kind, handle, count, infos);                               \
    }

RUNNING(nvmlDeviceGetComputeRunningProcesses, _v3, PROCESS_COMPUTE)
RUNNING(nvmlDeviceGetComputeRunningProcesses, _v2, PROCESS_COMPUTE)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses, _v3, PROCESS_GRAPHICS)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses, _v2, PROCESS_GRAPHICS)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses, _v3, PROCESS_MPS)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses, _v2, PROCESS_MPS)

/* The first version's structure has no instances. It is filled from the newer one. */
static nvmlReturn_t running_v1(enum function function, enum process_kind kind, nvmlDevice_t handle, unsigned int *count,
                               nvmlProcessInfo_v1_t *infos) {
    nvmlProcessInfo_t newer[MAX_PROCESSES];
    REQUIRE(count != NULL);
    unsigned int room = infos == NULL ? 0 : *count;
    unsigned int found = MAX_PROCESSES;
    nvmlReturn_t code = running(function, kind, handle, &found, newer);
    if (code != NVML_SUCCESS && code != NVML_ERROR_INSUFFICIENT_SIZE)
        return code;
    *count = found;
    if (found > room || code == NVML_ERROR_INSUFFICIENT_SIZE)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < found; i++)
        infos[i] = (nvmlProcessInfo_v1_t){.pid = newer[i].pid, .usedGpuMemory = newer[i].usedGpuMemory};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t handle, unsigned int *count,
                                                              nvmlProcessInfo_v1_t *infos) {
    return running_v1(FN_nvmlDeviceGetComputeRunningProcesses, PROCESS_COMPUTE, handle, count, infos);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t handle, unsigned int *count,
                                                               nvmlProcessInfo_v1_t *infos) {
    return running_v1(FN_nvmlDeviceGetGraphicsRunningProcesses, PROCESS_GRAPHICS, handle, count, infos);
}

/* Mean use by a process over the samples later than `last_seen`, with the time of the last one in which it used the
 * GPU. False where it used none. */
static bool process_use(const struct ring *ring, const struct process *process, uint64_t last_seen,
                        nvmlProcessUtilizationInfo_v1_t *use) {
    uint64_t sm = 0, memory = 0, samples = 0, last = 0;
    for (uint64_t n = oldest_sample(ring); n < ring->written; n++) {
        uint64_t slot = n % ring->capacity;
        if (ring->samples[slot].timestamp_us <= last_seen)
            continue;
        samples++;
        sm += process->utilization[slot].sm;
        memory += process->utilization[slot].memory;
        if (process->utilization[slot].sm > 0)
            last = ring->samples[slot].timestamp_us;
    }
    if (last == 0)
        return false;
    *use = (nvmlProcessUtilizationInfo_v1_t){
        .timeStamp = last,
        .pid = process->pid,
        .smUtil = (unsigned int)((sm + samples / 2) / samples),
        .memUtil = (unsigned int)((memory + samples / 2) / samples),
    };
    return true;
}

static unsigned int processes_in_use(struct device *device, uint64_t last_seen,
                                     nvmlProcessUtilizationInfo_v1_t uses[MAX_PROCESSES]) {
    uint64_t begin;
    unsigned int found;
    do {
        begin = seqlock_read_begin(&device->sequence);
        found = 0;
        for (uint32_t i = 0; i < device->process_count && i < MAX_PROCESSES; i++)
            found += process_use(&device->gpu, &device->processes[i], last_seen, &uses[found]);
    } while (seqlock_read_retry(&device->sequence, begin));
    return found;
}

/* Without a buffer, INSUFFICIENT_SIZE and the size of the driver's buffer, even when the GPU is idle: only the second
 * call finds that out (seen as "Not Found" from the second call in autoware_universe issue 11285, and as a size of 100
 * on every GPU in go-nvml issue 11). */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t handle, nvmlProcessUtilizationSample_t *samples,
                                                         unsigned int *count, unsigned long long last_seen) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetProcessUtilization, handle, &device));
    REQUIRE(count != NULL);
    if (mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    if (samples == NULL) {
        *count = 100;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    nvmlProcessUtilizationInfo_v1_t uses[MAX_PROCESSES];
    unsigned int found = processes_in_use(device, last_seen, uses);
    if (found == 0)
        return NVML_ERROR_NOT_FOUND;
    if (found > *count) {
        *count = found;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned int i = 0; i < found; i++)
        samples[i] = (nvmlProcessUtilizationSample_t){
            .pid = uses[i].pid,
            .timeStamp = uses[i].timeStamp,
            .smUtil = uses[i].smUtil,
            .memUtil = uses[i].memUtil,
        };
    *count = found;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t handle,
                                                               nvmlProcessesUtilizationInfo_v1_t *info) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetProcessesUtilizationInfo, handle, &device));
    REQUIRE(info != NULL);
    if (info->version != STRUCT_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlProcessUtilizationInfo_v1_t uses[MAX_PROCESSES];
    unsigned int found = processes_in_use(device, info->lastSeenTimeStamp, uses);
    if (found == 0)
        return NVML_ERROR_NOT_FOUND;
    if (info->procUtilArray == NULL || found > info->processSamplesCount) {
        info->processSamplesCount = found;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(info->procUtilArray, uses, found * sizeof uses[0]);
    info->processSamplesCount = found;
    return NVML_SUCCESS;
}
