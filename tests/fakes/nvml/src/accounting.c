/* Accounting mode: the lifetime use by each process, kept after its end. */
#include "library.h"

struct accounts {
    uint32_t count;
    struct account accounts[MAX_ACCOUNTS];
};

/* Begins a call about the accounts of a device, which must be kept. */
static nvmlReturn_t accounts_call(enum function function, nvmlDevice_t handle, struct accounts *accounts) {
    struct device *device;
    TRY(device_call(function, handle, &device));
    bool kept;
    uint64_t begin;
    do {
        begin = seqlock_read_begin(&device->sequence);
        kept = device->telemetry.accounting_mode == 1 && device->telemetry.mig_current != 1;
        accounts->count = device->account_count < MAX_ACCOUNTS ? device->account_count : MAX_ACCOUNTS;
        memcpy(accounts->accounts, device->accounts, sizeof accounts->accounts);
    } while (seqlock_read_retry(&device->sequence, begin));
    return kept ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t handle, unsigned int *mode) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetAccountingMode, handle, &telemetry));
    REQUIRE(mode != NULL);
    *mode = telemetry.accounting_mode;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAccountingBufferSize(nvmlDevice_t handle, unsigned int *size) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetAccountingBufferSize, handle, &device));
    REQUIRE(size != NULL);
    *size = MAX_ACCOUNTS;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t handle, unsigned int *count, unsigned int *pids) {
    struct accounts accounts;
    TRY(accounts_call(FN_nvmlDeviceGetAccountingPids, handle, &accounts));
    REQUIRE(count != NULL && (pids != NULL || *count == 0));
    unsigned int room = *count;
    *count = accounts.count;
    if (accounts.count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (uint32_t i = 0; i < accounts.count; i++)
        pids[i] = accounts.accounts[i].pid;
    return NVML_SUCCESS;
}

/* A pid can be used again: the newest process is meant. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t handle, unsigned int pid,
                                                      nvmlAccountingStats_t *stats) {
    struct accounts accounts;
    TRY(accounts_call(FN_nvmlDeviceGetAccountingStats, handle, &accounts));
    REQUIRE(stats != NULL);
    for (uint32_t i = accounts.count; i-- > 0;) {
        const struct account *account = &accounts.accounts[i];
        if (account->pid != pid)
            continue;
        *stats = (nvmlAccountingStats_t){
            .gpuUtilization = account->utilization_gpu,
            .memoryUtilization = account->utilization_memory,
            .maxMemoryUsage = account->memory_peak,
            .time = account->time_ms,
            .startTime = account->start_us,
            .isRunning = account->running,
        };
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}
