/* Gauges and counters of a device: one member of the state each. */
#include "library.h"

#include <time.h>

/* A value the GPU may not have. */
static nvmlReturn_t optional(uint32_t value, unsigned int *out) {
    REQUIRE(out != NULL);
    if (value == NOT_AVAILABLE_U32)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = value;
    return NVML_SUCCESS;
}

static nvmlReturn_t optional_long(uint64_t value, unsigned long long *out) {
    REQUIRE(out != NULL);
    if (value == NOT_AVAILABLE_U64)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = value;
    return NVML_SUCCESS;
}

/* A function that answers one member. */
#define GAUGE(name, member)                                                        \
    NVML_EXPORT nvmlReturn_t name(nvmlDevice_t handle, unsigned int *value) {      \
        struct telemetry telemetry;                                                \
        TRY(telemetry_call(FN_##name, handle, &telemetry));                        \
        return optional(telemetry.member, value);                                  \
    }

/* A function that answers a current and a pending setting, or a pair of limits. */
#define GAUGE_PAIR(name, first, second)                                                             \
    NVML_EXPORT nvmlReturn_t name(nvmlDevice_t handle, unsigned int *value, unsigned int *other) {  \
        struct telemetry telemetry;                                                                 \
        TRY(telemetry_call(FN_##name, handle, &telemetry));                                         \
        TRY(optional(telemetry.first, value));                                                      \
        return optional(telemetry.second, other);                                                   \
    }

#define COUNTER(name, member)                                                            \
    NVML_EXPORT nvmlReturn_t name(nvmlDevice_t handle, unsigned long long *value) {      \
        struct telemetry telemetry;                                                      \
        TRY(telemetry_call(FN_##name, handle, &telemetry));                              \
        return optional_long(telemetry.member, value);                                   \
    }

GAUGE(nvmlDeviceGetPowerUsage, power_mw)
GAUGE(nvmlDeviceGetEnforcedPowerLimit, power_limit_mw)
GAUGE(nvmlDeviceGetPowerManagementLimit, power_limit_mw)
GAUGE(nvmlDeviceGetPowerManagementDefaultLimit, power_limit_default_mw)
GAUGE_PAIR(nvmlDeviceGetPowerManagementLimitConstraints, power_limit_min_mw, power_limit_max_mw)
COUNTER(nvmlDeviceGetTotalEnergyConsumption, energy_mj)
GAUGE(nvmlDeviceGetFanSpeed, fan_percent)
GAUGE(nvmlDeviceGetPerformanceState, performance_state)
GAUGE(nvmlDeviceGetPersistenceMode, persistence_mode)
GAUGE(nvmlDeviceGetComputeMode, compute_mode)
GAUGE_PAIR(nvmlDeviceGetMigMode, mig_current, mig_pending)
GAUGE_PAIR(nvmlDeviceGetEccMode, ecc_current, ecc_pending)
GAUGE(nvmlDeviceGetPcieReplayCounter, pcie_replays)
COUNTER(nvmlDeviceGetCurrentClocksEventReasons, clocks_event_reasons)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t handle, unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksEventReasons(handle, reasons);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t handle, unsigned long long *reasons) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetSupportedClocksEventReasons, handle, &device));
    REQUIRE(reasons != NULL);
    *reasons = 0x1ff;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory) {
    struct target target;
    TRY(target_call(FN_nvmlDeviceGetMemoryInfo, handle, &target));
    REQUIRE(memory != NULL);
    if (memory->version != STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    struct device *device = target.device;
    uint64_t begin;
    do {
        begin = seqlock_read_begin(&device->sequence);
        memory->total = device->identity.memory_total;
        memory->reserved = device->telemetry.memory_reserved;
        memory->used = device->telemetry.memory_used;
    } while (seqlock_read_retry(&device->sequence, begin));
    if (target.place >= 0) {
        memory->total = target.instance.memory_total;
        memory->reserved = target.instance.memory_reserved;
        memory->used = target.instance.memory_used;
    }
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

/* The first version counts what the driver reserves as used. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory) {
    nvmlMemory_v2_t now = {.version = STRUCT_VERSION(nvmlMemory_v2_t, 2)};
    TRY(nvmlDeviceGetMemoryInfo_v2(handle, &now));
    REQUIRE(memory != NULL);
    *memory = (nvmlMemory_t){.total = now.total, .free = now.free, .used = now.used + now.reserved};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t handle, nvmlBAR1Memory_t *memory) {
    struct target target;
    TRY(target_call(FN_nvmlDeviceGetBAR1MemoryInfo, handle, &target));
    REQUIRE(memory != NULL);
    struct identity identity;
    identity_of(target.device, &identity);
    uint64_t total = target.place < 0 ? identity.bar1_total : target.instance.bar1_total;
    *memory = (nvmlBAR1Memory_t){.bar1Total = total, .bar1Free = total};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, unsigned int sensor, unsigned int *value) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetTemperature, handle, &telemetry));
    REQUIRE(sensor == NVML_TEMPERATURE_GPU);
    return optional(telemetry.temperature, value);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, nvmlTemperature_v1_t *temperature) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetTemperature, handle, &telemetry));
    REQUIRE(temperature != NULL);
    if (temperature->version != STRUCT_VERSION(nvmlTemperature_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    REQUIRE(temperature->sensorType == NVML_TEMPERATURE_GPU);
    unsigned int value;
    TRY(optional(telemetry.temperature, &value));
    temperature->temperature = (int)value;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t handle, unsigned int type, unsigned int *mhz) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetClockInfo, handle, &telemetry));
    REQUIRE(type < NVML_CLOCK_COUNT);
    return optional(telemetry.clock_mhz[type], mhz);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, unsigned int type, unsigned int *mhz) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetMaxClockInfo, handle, &telemetry));
    REQUIRE(type < NVML_CLOCK_COUNT);
    return optional(telemetry.max_clock_mhz[type], mhz);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t handle, unsigned int policy,
                                                      nvmlViolationTime_t *violation) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetViolationStatus, handle, &telemetry));
    REQUIRE(violation != NULL);
    if (policy > 5) /* the totals over several policies */
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned long long elapsed;
    TRY(optional_long(telemetry.throttle_ns[policy], &elapsed));
    *violation = (nvmlViolationTime_t){.referenceTime = telemetry.time_us * 1000, .violationTime = elapsed};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, unsigned int type, unsigned int counter,
                                                     unsigned long long *count) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetTotalEccErrors, handle, &telemetry));
    REQUIRE(type < 2 && counter < 2);
    return optional_long(telemetry.ecc_errors[counter][type], count);
}

/* Errors that could not be corrected: by parity and by SEC-DED. */
static uint64_t sram_uncorrected(const uint64_t errors[SRAM_ERRORS]) {
    return errors[1] + errors[2];
}

/* The double puts every uncorrected error into the L2 cache. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t handle, nvmlEccSramErrorStatus_v1_t *status) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetSramEccErrorStatus, handle, &telemetry));
    REQUIRE(status != NULL);
    if (status->version != STRUCT_VERSION(nvmlEccSramErrorStatus_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    unsigned int exceeded;
    TRY(optional(telemetry.sram_threshold_exceeded, &exceeded));
    const uint64_t *now = telemetry.sram_errors[NVML_VOLATILE_ECC], *ever = telemetry.sram_errors[NVML_AGGREGATE_ECC];
    *status = (nvmlEccSramErrorStatus_v1_t){
        .version = status->version,
        .volatileCor = now[0],
        .volatileUncParity = now[1],
        .volatileUncSecDed = now[2],
        .aggregateCor = ever[0],
        .aggregateUncParity = ever[1],
        .aggregateUncSecDed = ever[2],
        .aggregateUncBucketL2 = sram_uncorrected(ever),
        .bThresholdExceeded = exceeded,
    };
    return NVML_SUCCESS;
}

/* What did not happen in SRAM happened in device memory. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t handle, unsigned int type, unsigned int counter,
                                                         unsigned int location, unsigned long long *count) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetMemoryErrorCounter, handle, &telemetry));
    REQUIRE(type < 2 && counter < 2 && location < NVML_MEMORY_LOCATION_COUNT);
    if (location != NVML_MEMORY_LOCATION_DRAM && location != NVML_MEMORY_LOCATION_SRAM)
        return NVML_ERROR_NOT_SUPPORTED;
    TRY(optional_long(telemetry.ecc_errors[counter][type], count));
    const uint64_t *errors = telemetry.sram_errors[counter];
    uint64_t sram = type == 0 ? errors[0] : sram_uncorrected(errors);
    *count = location == NVML_MEMORY_LOCATION_SRAM ? sram : *count - sram;
    return NVML_SUCCESS;
}

/* Not of a GPU with MIG instances, says the documentation. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned int *corrected,
                                                   unsigned int *uncorrected, unsigned int *pending,
                                                   unsigned int *failure) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetRemappedRows, handle, &device));
    struct instance instance;
    for (int place = 0; place < MAX_INSTANCES; place++) {
        instance_of(device, place, &instance);
        if (instance.present)
            return NVML_ERROR_NOT_SUPPORTED;
    }
    struct telemetry telemetry;
    telemetry_of(device, &telemetry);
    TRY(optional(telemetry.remapped_corrected, corrected));
    TRY(optional(telemetry.remapped_uncorrected, uncorrected));
    TRY(optional(telemetry.remapped_pending, pending));
    return optional(telemetry.remapped_failure, failure);
}

/* KiB/s over the 20 ms that the real call spends waiting. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t handle, unsigned int counter, unsigned int *kib) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetPcieThroughput, handle, &device));
    REQUIRE(counter < 2 && kib != NULL);
    struct telemetry before, after;
    telemetry_of(device, &before);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    telemetry_of(device, &after);
    uint64_t bytes =
        counter == 0 ? after.pcie_tx_bytes - before.pcie_tx_bytes : after.pcie_rx_bytes - before.pcie_rx_bytes;
    uint64_t elapsed_us = after.time_us - before.time_us;
    *kib = elapsed_us == 0 ? 0 : (unsigned int)(bytes * 1000000 / elapsed_us / 1024);
    return NVML_SUCCESS;
}
