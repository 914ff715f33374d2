/* Questions about the driver, and the texts of errors. */
#include "library.h"

#include <stdlib.h>

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED: return "Already Initialized";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER: return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_IRQ_ISSUE: return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM: return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires restart";
    case NVML_ERROR_OPERATING_SYSTEM: return "The operating system has blocked the request.";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "RM has detected an NVML/RM version mismatch.";
    case NVML_ERROR_IN_USE: return "In use by another client";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_NO_DATA: return "No data";
    case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
    case NVML_ERROR_NOT_READY: return "Not Ready";
    case NVML_ERROR_GPU_NOT_FOUND: return "GPU not found";
    default: return "Unknown Error";
    }
}

struct system system_of(struct state *state) {
    struct system copy;
    uint64_t begin;
    do {
        begin = seqlock_read_begin(&state->system.sequence);
        memcpy(&copy, &state->system, sizeof copy);
    } while (seqlock_read_retry(&state->system.sequence, begin));
    return copy;
}

unsigned int driver_number(struct state *state) {
    struct system system = system_of(state);
    char *end;
    unsigned int major = (unsigned int)strtoul(system.driver_version, &end, 10);
    return 1000 * major + (*end == '.' ? (unsigned int)strtoul(end + 1, NULL, 10) : 0);
}

unsigned int driver_version(struct state *state) {
    return (unsigned int)strtoul(system_of(state).driver_version, NULL, 10);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    struct state *state;
    TRY(system_call(FN_nvmlSystemGetDriverVersion, &state));
    struct system system = system_of(state);
    return copy_string(system.driver_version, version, length);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    struct state *state;
    TRY(system_call(FN_nvmlSystemGetNVMLVersion, &state));
    struct system system = system_of(state);
    return copy_string(system.nvml_version, version, length);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    struct state *state;
    TRY(system_call(FN_nvmlSystemGetCudaDriverVersion, &state));
    REQUIRE(version != NULL);
    *version = (int)system_of(state).cuda_driver_version;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    return nvmlSystemGetCudaDriverVersion_v2(version);
}
