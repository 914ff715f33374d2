/* GPM: profiling counters, read as samples of which two make averages. */
#include "library.h"

#include <math.h>
#include <stdlib.h>

enum { FIRST_GPM_DRIVER = 520, FIRST_RAW_DRIVER = 595 };
enum { WHOLE_GPU = -1, EMPTY = -2 };
enum { DRAM_BANDWIDTH = 10 };
enum { MAX_METRICS = sizeof(((nvmlGpmMetricsGet_t *)NULL)->metrics) / sizeof(nvmlGpmMetric_t) };

struct nvmlGpmSample_st {
    struct device *device;
    int place; /* of a MIG instance, or one of the above */
    uint32_t generation;
    uint32_t sm_clock_mhz;
    struct gpm_counters counters;
};

enum kind { PERCENT, RATE, CYCLES, ELAPSED, BYTES };

struct metric {
    unsigned int id;
    enum kind kind;
    unsigned int index; /* of active_ns or traffic_bytes */
    char *name; /* as NVML hands it out */
};

static const struct metric metrics[] = {
    {1, PERCENT, 1, "Graphics"},
    {2, PERCENT, 2, "SM Util"},
    {3, PERCENT, 3, "SM Occupancy"},
    {4, PERCENT, 4, "Integer"},
    {5, PERCENT, 5, "Tensor"},
    {6, PERCENT, 6, "DFMA Tensor"},
    {7, PERCENT, 7, "HMMA Tensor"},
    {8, PERCENT, 8, "DMMA Tensor"},
    {9, PERCENT, 9, "IMMA Tensor"},
    {10, PERCENT, 10, "DRAM BW"},
    {11, PERCENT, 11, "FP64"},
    {12, PERCENT, 12, "FP32"},
    {13, PERCENT, 13, "FP16"},
    {20, RATE, 0, "PCIe TX"},
    {21, RATE, 1, "PCIe RX"},
    {60, RATE, 2, "NVLink RX"},
    {61, RATE, 3, "NVLink TX"},
    {248, ELAPSED, 0, "SM Cycles Elapsed"},
    {249, CYCLES, 2, "SM Cycles Active"},
    {250, CYCLES, 5, "MMA Cycles Active"},
    {251, CYCLES, 8, "DMMA Cycles Active"},
    {252, CYCLES, 7, "HMMA Cycles Active"},
    {253, CYCLES, 9, "IMMA Cycles Active"},
    {254, CYCLES, 6, "DFMA Cycles Active"},
    {255, BYTES, 0, "PCIe TX Bytes"},
    {256, BYTES, 1, "PCIe RX Bytes"},
    {257, CYCLES, 4, "Integer Cycles Active"},
    {258, CYCLES, 11, "FP64 Cycles Active"},
    {259, CYCLES, 12, "FP32 Cycles Active"},
    {260, CYCLES, 13, "FP16 Cycles Active"},
};

static char *const units[] = {"%", "MiB/s", "cycles", "cycles", "bytes"};

static nvmlReturn_t known_to_driver(struct state *state) {
    return driver_version(state) < FIRST_GPM_DRIVER ? NVML_ERROR_FUNCTION_NOT_FOUND : NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t handle, nvmlGpmSupport_t *support) {
    struct identity identity;
    TRY(identity_call(FN_nvmlGpmQueryDeviceSupport, handle, &identity));
    TRY(known_to_driver(mapped_state()));
    REQUIRE(support != NULL);
    if (support->version != NVML_GPM_SUPPORT_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    support->isSupportedDevice = identity.gpm;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
    struct state *state;
    TRY(system_call(FN_nvmlGpmSampleAlloc, &state));
    TRY(known_to_driver(state));
    REQUIRE(sample != NULL);
    *sample = calloc(1, sizeof **sample);
    if (*sample == NULL)
        return NVML_ERROR_MEMORY;
    (*sample)->place = EMPTY;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    struct state *state;
    TRY(system_call(FN_nvmlGpmSampleFree, &state));
    REQUIRE(sample != NULL);
    free(sample);
    return NVML_SUCCESS;
}

/* Whether a GPU has counters at all, and its clock. */
static nvmlReturn_t prepare(struct device *device, nvmlGpmSample_t sample) {
    TRY(known_to_driver(mapped_state()));
    REQUIRE(sample != NULL);
    struct identity identity;
    struct telemetry telemetry;
    identity_of(device, &identity);
    telemetry_of(device, &telemetry);
    sample->sm_clock_mhz = telemetry.max_clock_mhz[1];
    return identity.gpm ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

NVML_EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t handle, nvmlGpmSample_t sample) {
    struct device *device;
    TRY(device_call(FN_nvmlGpmSampleGet, handle, &device));
    TRY(prepare(device, sample));
    uint64_t begin;
    do {
        begin = seqlock_read_begin(&device->sequence);
        sample->counters = device->gpm;
    } while (seqlock_read_retry(&device->sequence, begin));
    sample->device = device;
    sample->place = WHOLE_GPU;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t handle, unsigned int gpu_instance, nvmlGpmSample_t sample) {
    struct device *device;
    TRY(device_call(FN_nvmlGpmMigSampleGet, handle, &device));
    TRY(prepare(device, sample));
    if (!mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    for (int place = 0; place < MAX_INSTANCES; place++) {
        struct instance instance;
        instance_of(device, place, &instance);
        if (!instance.present || instance.gpu_instance != gpu_instance)
            continue;
        sample->counters = instance.gpm;
        sample->device = device;
        sample->place = place;
        sample->generation = instance.generation;
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t evaluate(const struct metric *metric, nvmlGpmSample_t from, nvmlGpmSample_t to, double *value) {
    const struct gpm_counters *before = &from->counters, *after = &to->counters;
    double seconds = (double)(after->time_us - before->time_us) / 1e6;
    bool traffic = metric->kind == RATE || metric->kind == BYTES;
    if (traffic && after->traffic_bytes[metric->index] == NOT_AVAILABLE_U64)
        return NVML_ERROR_NOT_SUPPORTED;
    switch (metric->kind) {
    case PERCENT:
        *value = (double)(after->active_ns[metric->index] - before->active_ns[metric->index]) / seconds / 1e7;
        break;
    case RATE:
        *value = (double)(after->traffic_bytes[metric->index] - before->traffic_bytes[metric->index]) / seconds /
                 (1 << 20);
        break;
    case CYCLES: *value = (double)after->active_ns[metric->index] * to->sm_clock_mhz / 1000; break;
    case ELAPSED: *value = (double)after->elapsed_ns * to->sm_clock_mhz / 1000; break;
    case BYTES: *value = (double)after->traffic_bytes[metric->index]; break;
    }
    return NVML_SUCCESS;
}

static const struct metric *find_metric(struct state *state, unsigned int id) {
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        if (metrics[i].id == id)
            return metrics[i].kind < CYCLES || driver_version(state) >= FIRST_RAW_DRIVER ? &metrics[i] : NULL;
    return NULL;
}

NVML_EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get) {
    struct state *state;
    TRY(system_call(FN_nvmlGpmMetricsGet, &state));
    TRY(known_to_driver(state));
    REQUIRE(get != NULL);
    if (get->version != NVML_GPM_METRICS_GET_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlGpmSample_t from = get->sample1, to = get->sample2;
    REQUIRE(get->numMetrics > 0 && get->numMetrics <= MAX_METRICS);
    REQUIRE(from != NULL && to != NULL && from->place != EMPTY);
    REQUIRE(from->device == to->device && from->place == to->place && from->generation == to->generation);
    TRY(device_obey(FN_nvmlGpmMetricsGet, state, to->device));
    REQUIRE(to->counters.time_us >= from->counters.time_us);
    /* The driver renews its counters each so often. Two samples of the same ones make a success without a meaning, as
     * seen with driver 580 on an H200: memory bandwidth, which it divides by the time between, is no number. */
    bool renewed = to->counters.time_us >= from->counters.time_us + system_of(state).gpm_interval_us;
    for (unsigned int i = 0; i < get->numMetrics; i++) {
        nvmlGpmMetric_t *asked = &get->metrics[i];
        const struct metric *metric = find_metric(state, asked->metricId);
        asked->value = 0;
        asked->nvmlReturn = metric == NULL ? NVML_ERROR_NOT_SUPPORTED : evaluate(metric, from, to, &asked->value);
        if (!renewed && metric != NULL && metric->kind < CYCLES)
            asked->value = asked->metricId == DRAM_BANDWIDTH ? NAN : 0;
        if (metric != NULL) {
            asked->metricInfo.shortName = asked->metricInfo.longName = metric->name;
            asked->metricInfo.unit = units[metric->kind];
        }
    }
    return NVML_SUCCESS;
}
