/* Field values: many numbers in one call, each with its own result. */
#include "library.h"

struct field {
    unsigned int id;
    nvmlValueType_t type;
    size_t offset; /* in struct telemetry: of a uint32_t for UNSIGNED_INT, of a uint64_t otherwise */
};

#define U32(id, member) {id, NVML_VALUE_TYPE_UNSIGNED_INT, offsetof(struct telemetry, member)}
#define U64(id, member) {id, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, offsetof(struct telemetry, member)}

static const struct field fields[] = {
    U32(1, ecc_current),
    U32(2, ecc_pending),
    U64(3, ecc_errors[0][0]),
    U64(4, ecc_errors[0][1]),
    U64(5, ecc_errors[1][0]),
    U64(6, ecc_errors[1][1]),
    U64(74, throttle_ns[0]),
    U64(75, throttle_ns[1]),
    U64(76, throttle_ns[2]),
    U64(77, throttle_ns[3]),
    U64(78, throttle_ns[4]),
    U64(79, throttle_ns[5]),
    U32(82, memory_temperature),
    U64(83, energy_mj),
    U32(94, pcie_replays),
    U64(138, nvlink_tx_kib),
    U64(139, nvlink_rx_kib),
    U32(142, remapped_corrected),
    U32(143, remapped_uncorrected),
    U32(144, remapped_pending),
    U32(145, remapped_failure),
    U32(185, power_mw),
    U32(186, power_mw),
    U32(187, power_limit_min_mw),
    U32(188, power_limit_max_mw),
    U32(189, power_limit_default_mw),
    U32(190, power_limit_mw),
    U64(197, pcie_tx_bytes),
    U64(198, pcie_rx_bytes),
    U32(230, recovery_action),
    U64(269, throttle_ns[6]),
    U64(270, throttle_ns[7]),
    U64(271, throttle_ns[8]),
};

static nvmlReturn_t answer(const struct telemetry *telemetry, nvmlFieldValue_t *value) {
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].id != value->fieldId)
            continue;
        const char *member = (const char *)telemetry + fields[i].offset;
        value->valueType = fields[i].type;
        if (fields[i].type == NVML_VALUE_TYPE_UNSIGNED_INT) {
            uint32_t number;
            memcpy(&number, member, sizeof number);
            value->value.uiVal = number;
            return number == NOT_AVAILABLE_U32 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
        }
        uint64_t number;
        memcpy(&number, member, sizeof number);
        value->value.ullVal = number;
        return number == NOT_AVAILABLE_U64 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t *values) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetFieldValues, handle, &telemetry));
    REQUIRE(count > 0 && values != NULL);
    for (int i = 0; i < count; i++) {
        values[i].value.ullVal = 0;
        values[i].timestamp = (long long)telemetry.time_us;
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = answer(&telemetry, &values[i]);
    }
    return NVML_SUCCESS;
}
