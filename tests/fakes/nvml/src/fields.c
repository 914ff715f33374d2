/* Field values: many numbers in one call, each with its own result. */
#include "library.h"

/* What a field's scope means. */
enum scope {
    SCOPE_NONE,     /* nothing: it is ignored */
    SCOPE_POWER,    /* the part of the board; only the GPU itself is measured here */
    SCOPE_KIB,      /* a link, UINT32_MAX for all: before NVLink 5 */
    SCOPE_NVLINK5,  /* a link, UINT32_MAX for all: bytes of NVLink 5 */
    SCOPE_WRAPPING, /* nothing, and of the number only the low half is counted */
};

struct field {
    unsigned int id;
    nvmlValueType_t type;
    size_t offset; /* in struct telemetry: of a uint32_t for UNSIGNED_INT, of a uint64_t otherwise */
    unsigned int since; /* the first driver that has it, as 1000 * major + minor; 0: they all do */
    enum scope scope;
};

#define U32(id, member) {id, NVML_VALUE_TYPE_UNSIGNED_INT, offsetof(struct telemetry, member), 0, SCOPE_NONE}
#define U64(id, member) {id, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, offsetof(struct telemetry, member), 0, SCOPE_NONE}
#define POWER(id, member) {id, NVML_VALUE_TYPE_UNSIGNED_INT, offsetof(struct telemetry, member), 0, SCOPE_POWER}
#define LONG(id, member, since, scope) \
    {id, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, offsetof(struct telemetry, member), since, scope}

enum { FIELD_POWER_AVERAGE = 185 };

/* In nvidia-ml-py 12.575.51 and 13.580.65 the last three throttle counters are 251 to 253, and all numbers of power
 * smoothing are five higher than in 12.570.86 and, again, from 13.580.82 on. */
enum { FIRST_SHIFTED = 575000, FIRST_TODAY = 580082, FIRST_SMOOTHING_DRIVER = 570000, SMOOTHING = 251, SMOOTHING_FIELDS = 18, SHIFT = 5 };

static const struct field fields[] = {
    U32(1, ecc_current),
    U32(2, ecc_pending),
    U64(3, ecc_errors[0][0]),
    U64(4, ecc_errors[0][1]),
    U64(5, ecc_errors[1][0]),
    U64(6, ecc_errors[1][1]),
    U32(29, retired_sbe),
    U32(30, retired_dbe),
    U32(31, retired_pending),
    U64(74, throttle_ns[0]),
    U64(75, throttle_ns[1]),
    U64(76, throttle_ns[2]),
    U64(77, throttle_ns[3]),
    U64(78, throttle_ns[4]),
    U64(79, throttle_ns[5]),
    U32(82, memory_temperature),
    U64(83, energy_mj),
    U32(94, pcie_replays),
    LONG(138, nvlink_tx_kib, 0, SCOPE_KIB),
    LONG(139, nvlink_rx_kib, 0, SCOPE_KIB),
    U32(142, remapped_corrected),
    U32(143, remapped_uncorrected),
    U32(144, remapped_pending),
    U32(145, remapped_failure),
    POWER(FIELD_POWER_AVERAGE, power_mw),
    POWER(186, power_mw),
    POWER(187, power_limit_min_mw),
    POWER(188, power_limit_max_mw),
    POWER(189, power_limit_default_mw),
    POWER(190, power_limit_mw),
    LONG(197, pcie_tx_bytes, 555000, SCOPE_WRAPPING),
    LONG(198, pcie_rx_bytes, 555000, SCOPE_WRAPPING),
    LONG(202, nvlink_tx_kib, 565000, SCOPE_NVLINK5),
    LONG(204, nvlink_rx_kib, 565000, SCOPE_NVLINK5),
    {230, NVML_VALUE_TYPE_UNSIGNED_INT, offsetof(struct telemetry, recovery_action), 570000, SCOPE_NONE},
    LONG(269, throttle_ns[6], FIRST_TODAY, SCOPE_NONE),
    LONG(270, throttle_ns[7], FIRST_TODAY, SCOPE_NONE),
    LONG(271, throttle_ns[8], FIRST_TODAY, SCOPE_NONE),
};

/* A link's part of what all links carried: equal parts, and link 0 the rest. */
static nvmlReturn_t of_links(uint64_t total, uint32_t links, unsigned int link, nvmlValue_t *value) {
    if (links == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    REQUIRE(link < links || link == UINT32_MAX);
    value->ullVal = link == UINT32_MAX ? total : total / links + (link == 0 ? total % links : 0);
    return NVML_SUCCESS;
}

static nvmlReturn_t scoped(enum scope scope, const struct identity *identity, uint64_t number,
                           nvmlFieldValue_t *value) {
    bool fifth = identity->architecture >= NVML_DEVICE_ARCH_BLACKWELL;
    value->value.ullVal = number;
    switch (scope) {
    case SCOPE_POWER:
        REQUIRE(value->scopeId <= NVML_POWER_SCOPE_MEMORY);
        return value->scopeId == NVML_POWER_SCOPE_GPU ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    case SCOPE_KIB:
        return fifth ? NVML_ERROR_NOT_SUPPORTED : of_links(number, identity->nvlinks, value->scopeId, &value->value);
    case SCOPE_NVLINK5:
        return fifth ? of_links(number * 1024, identity->nvlinks, value->scopeId, &value->value)
                     : NVML_ERROR_NOT_SUPPORTED;
    case SCOPE_WRAPPING: value->value.ullVal = (uint32_t)number; return NVML_SUCCESS;
    default: return NVML_SUCCESS;
    }
}

static nvmlReturn_t answer(unsigned int driver, const struct identity *identity, const struct telemetry *telemetry,
                           nvmlFieldValue_t *value) {
    bool shifted = driver >= FIRST_SHIFTED && driver < FIRST_TODAY;
    unsigned int smoothing = SMOOTHING + (shifted ? SHIFT : 0), id = value->fieldId;
    if (driver >= FIRST_SMOOTHING_DRIVER && id >= smoothing && id < smoothing + SMOOTHING_FIELDS) {
        value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        value->value.uiVal = 100;
        return NVML_SUCCESS;
    }
    if (shifted && id >= SMOOTHING && id < SMOOTHING + 3) {
        value->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        value->value.ullVal = telemetry->throttle_ns[6 + id - SMOOTHING];
        return NVML_SUCCESS;
    }
    /* Averages came after GA100, with the rest of Ampere. */
    bool early = identity->compute_major < 8 || (identity->compute_major == 8 && identity->compute_minor == 0);
    if (value->fieldId == FIELD_POWER_AVERAGE && early)
        return NVML_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].id != value->fieldId || driver < fields[i].since)
            continue;
        const char *member = (const char *)telemetry + fields[i].offset;
        value->valueType = fields[i].type;
        uint64_t number;
        uint32_t small;
        if (fields[i].type == NVML_VALUE_TYPE_UNSIGNED_INT) {
            memcpy(&small, member, sizeof small);
            if (small == NOT_AVAILABLE_U32)
                return NVML_ERROR_NOT_SUPPORTED;
            number = small;
        } else {
            memcpy(&number, member, sizeof number);
            if (number == NOT_AVAILABLE_U64)
                return NVML_ERROR_NOT_SUPPORTED;
        }
        return scoped(fields[i].scope, identity, number, value);
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t *values) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetFieldValues, handle, &device));
    REQUIRE(count > 0 && values != NULL);
    unsigned int driver = driver_number(mapped_state());
    struct identity identity;
    struct telemetry telemetry;
    identity_of(device, &identity);
    telemetry_of(device, &telemetry);
    for (int i = 0; i < count; i++) {
        values[i].value.ullVal = 0;
        values[i].timestamp = (long long)telemetry.time_us;
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = answer(driver, &identity, &telemetry, &values[i]);
        if (values[i].nvmlReturn != NVML_SUCCESS)
            values[i].value.ullVal = 0;
    }
    return NVML_SUCCESS;
}
