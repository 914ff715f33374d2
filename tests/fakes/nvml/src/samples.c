/* Utilization: the sample buffers, and the gauges that are their newest entries. */
#include "library.h"

static struct ring *ring_of(struct device *device, unsigned int type) {
    switch (type) {
    case NVML_TOTAL_POWER_SAMPLES: return &device->power;
    case NVML_GPU_UTILIZATION_SAMPLES: return &device->gpu;
    case NVML_MEMORY_UTILIZATION_SAMPLES: return &device->memory;
    default: return NULL; /* encoder, decoder, clocks: not sampled here */
    }
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *utilization) {
    struct telemetry telemetry;
    TRY(telemetry_call(FN_nvmlDeviceGetUtilizationRates, handle, &telemetry));
    REQUIRE(utilization != NULL);
    if (telemetry.mig_current == 1 || telemetry.utilization_gpu == NOT_AVAILABLE_U32)
        return NVML_ERROR_NOT_SUPPORTED;
    *utilization = (nvmlUtilization_t){.gpu = telemetry.utilization_gpu, .memory = telemetry.utilization_memory};
    return NVML_SUCCESS;
}

/* The video engines are never used, and read as such. */
static nvmlReturn_t engine_idle(enum function function, nvmlDevice_t handle, unsigned int *utilization,
                                unsigned int *period_us) {
    struct device *device;
    TRY(device_call(function, handle, &device));
    REQUIRE(utilization != NULL && period_us != NULL);
    if (mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    *utilization = 0;
    *period_us = 167000;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t handle, unsigned int *utilization,
                                                         unsigned int *period_us) {
    return engine_idle(FN_nvmlDeviceGetEncoderUtilization, handle, utilization, period_us);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t handle, unsigned int *utilization,
                                                         unsigned int *period_us) {
    return engine_idle(FN_nvmlDeviceGetDecoderUtilization, handle, utilization, period_us);
}

/* Copies the samples later than `last_seen`, oldest first, as many as fit. The documentation does not say which ones a
 * small buffer gets: the oldest, so that asking again from the last timestamp misses none. */
static unsigned int copy_newer(const struct ring *ring, uint64_t last_seen, nvmlSample_t *samples, unsigned int room) {
    unsigned int copied = 0;
    for (uint64_t n = oldest_sample(ring); n < ring->written && copied < room; n++) {
        const struct sample *sample = &ring->samples[n % ring->capacity];
        if (sample->timestamp_us > last_seen)
            samples[copied++] =
                (nvmlSample_t){.timeStamp = sample->timestamp_us, .sampleValue.uiVal = (unsigned int)sample->value};
    }
    return copied;
}

/* Without a buffer: how many samples the driver's buffer can hold, whether or not that many exist. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t handle, unsigned int type, unsigned long long last_seen,
                                              nvmlValueType_t *value_type, unsigned int *count,
                                              nvmlSample_t *samples) {
    struct device *device;
    TRY(device_call(FN_nvmlDeviceGetSamples, handle, &device));
    REQUIRE(count != NULL && value_type != NULL && type < NVML_SAMPLINGTYPE_COUNT);
    REQUIRE(samples == NULL || *count > 0);
    struct ring *ring = ring_of(device, type);
    if (ring == NULL || (mig_enabled(device) && type != NVML_TOTAL_POWER_SAMPLES))
        return NVML_ERROR_NOT_SUPPORTED;
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;

    uint64_t begin;
    unsigned int copied, capacity;
    do {
        begin = seqlock_read_begin(&device->sequence);
        capacity = ring->capacity;
        copied = samples == NULL ? 0 : copy_newer(ring, last_seen, samples, *count);
    } while (seqlock_read_retry(&device->sequence, begin));
    if (capacity == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = samples == NULL ? capacity : copied;
    return samples != NULL && copied == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}
