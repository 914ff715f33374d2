/* The floor of a snapshot: the NVML calls that the reader makes in a turn, made from C.
 *
 * For each line on its input it takes one snapshot and writes the nanoseconds of CPU time that took, and how many of
 * the calls that were made answered. The arguments are the fields, as NUMBER:SCOPE:EVERY, each of which is read at one of
 * EVERY snapshots, and the GPM metrics, as mNUMBER.
 */
#include "nvml_abi.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_GPUS = 16, MAX_PLACES = 8, MAX_FIELDS = 64, MAX_METRICS = 32, MAX_SAMPLES = 4096, MAX_PROCESSES = 65536 };

#define FUNCTIONS(X)                                                                                        \
    X(nvmlInit_v2, (void))                                                                                  \
    X(nvmlDeviceGetCount_v2, (unsigned int *))                                                              \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *))                                        \
    X(nvmlDeviceGetMigMode, (nvmlDevice_t, unsigned int *, unsigned int *))                                 \
    X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t, nvmlUtilization_t *))                                   \
    X(nvmlDeviceGetSamples,                                                                                 \
      (nvmlDevice_t, unsigned int, unsigned long long, nvmlValueType_t *, unsigned int *, nvmlSample_t *))   \
    X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, nvmlMemory_v2_t *))                                        \
    X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *))         \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v3, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *))      \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3, (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *))        \
    X(nvmlDeviceGetProcessUtilization,                                                                      \
      (nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned int *, unsigned long long))                 \
    X(nvmlDeviceGetFieldValues, (nvmlDevice_t, int, nvmlFieldValue_t *))                                    \
    X(nvmlDeviceGetTemperature, (nvmlDevice_t, unsigned int, unsigned int *))                               \
    X(nvmlDeviceGetClockInfo, (nvmlDevice_t, unsigned int, unsigned int *))                                 \
    X(nvmlDeviceGetPerformanceState, (nvmlDevice_t, unsigned int *))                                        \
    X(nvmlDeviceGetEncoderUtilization, (nvmlDevice_t, unsigned int *, unsigned int *))                      \
    X(nvmlDeviceGetDecoderUtilization, (nvmlDevice_t, unsigned int *, unsigned int *))                      \
    X(nvmlGpmSampleAlloc, (nvmlGpmSample_t *))                                                              \
    X(nvmlGpmSampleGet, (nvmlDevice_t, nvmlGpmSample_t))                                                    \
    X(nvmlGpmMigSampleGet, (nvmlDevice_t, unsigned int, nvmlGpmSample_t))                                   \
    X(nvmlGpmMetricsGet, (nvmlGpmMetricsGet_t *))                                                           \
    X(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t, unsigned int *))                                       \
    X(nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t, unsigned int, nvmlDevice_t *))                    \
    X(nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned int))                                              \
    X(nvmlDeviceGetName, (nvmlDevice_t, char *, unsigned int))                                              \
    X(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t, unsigned int *))                                           \
    X(nvmlDeviceGetAccountingMode, (nvmlDevice_t, unsigned int *))

#define DECLARE(name, arguments) static nvmlReturn_t(*name) arguments;
FUNCTIONS(DECLARE)

static unsigned int answered;

static int ok(nvmlReturn_t result) {
    answered += result == NVML_SUCCESS;
    return result == NVML_SUCCESS;
}

static struct {
    unsigned int number, scope, every;
} wanted[MAX_FIELDS];
static int wanted_count;
static nvmlFieldValue_t fields[MAX_FIELDS];
static int field_count;
static nvmlGpmMetricsGet_t metrics = {.version = NVML_GPM_METRICS_GET_VERSION};
static nvmlDevice_t gpus[MAX_GPUS];
static nvmlGpmSample_t samples[MAX_GPUS][MAX_PLACES + 1][2];
static unsigned int modes[MAX_GPUS];
static unsigned int instance_ids[MAX_GPUS][MAX_PLACES];
static unsigned long long last_sample[MAX_GPUS], last_process[MAX_GPUS];
static nvmlSample_t utilization[MAX_SAMPLES];
static nvmlProcessInfo_t processes[MAX_PROCESSES];
static nvmlProcessUtilizationSample_t work[MAX_PROCESSES];

/* Two calls, as there is no telling how much room is needed. */
static void read_processes(nvmlDevice_t device) {
    unsigned int count = 0;
    if (nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL) != NVML_ERROR_INSUFFICIENT_SIZE)
        return;
    count = MAX_PROCESSES;
    ok(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes));
    count = 0;
    nvmlDeviceGetMPSComputeRunningProcesses_v3(device, &count, NULL);
}

static void read_work(unsigned int gpu) {
    unsigned int count = MAX_PROCESSES;
    if (!ok(nvmlDeviceGetProcessUtilization(gpus[gpu], work, &count, last_process[gpu])))
        return;
    for (unsigned int i = 0; i < count; i++)
        if (work[i].timeStamp > last_process[gpu])
            last_process[gpu] = work[i].timeStamp;
}

static void read_gpm(unsigned int gpu, unsigned int place, int instance) {
    nvmlGpmSample_t *pair = samples[gpu][place];
    if (metrics.numMetrics == 0)
        return;
    nvmlReturn_t result = instance < 0 ? nvmlGpmSampleGet(gpus[gpu], pair[1])
                                       : nvmlGpmMigSampleGet(gpus[gpu], (unsigned int)instance, pair[1]);
    if (!ok(result))
        return;
    metrics.sample1 = pair[0];
    metrics.sample2 = pair[1];
    ok(nvmlGpmMetricsGet(&metrics));
    pair[0] = metrics.sample2;
    pair[1] = metrics.sample1;
}

static void read_instances(unsigned int gpu) {
    unsigned int places = 0;
    ok(nvmlDeviceGetMaxMigDeviceCount(gpus[gpu], &places));
    for (unsigned int place = 0; place < places && place < MAX_PLACES; place++) {
        nvmlDevice_t instance;
        if (!ok(nvmlDeviceGetMigDeviceHandleByIndex(gpus[gpu], place, &instance)))
            continue;
        char uuid[96], name[96];
        nvmlMemory_v2_t memory = {.version = 0x02000028};
        ok(nvmlDeviceGetUUID(instance, uuid, sizeof uuid));
        ok(nvmlDeviceGetName(instance, name, sizeof name));
        read_gpm(gpu, place + 1, (int)instance_ids[gpu][place]);
        ok(nvmlDeviceGetMemoryInfo_v2(instance, &memory));
        read_processes(instance);
    }
}

static void read_gpu(unsigned int gpu) {
    nvmlDevice_t device = gpus[gpu];
    unsigned int mode = modes[gpu], number, count;
    read_gpm(gpu, 0, -1);
    if (mode != 1) {
        nvmlUtilization_t rates;
        nvmlValueType_t type;
        ok(nvmlDeviceGetUtilizationRates(device, &rates));
        count = MAX_SAMPLES;
        if (ok(nvmlDeviceGetSamples(device, NVML_GPU_UTILIZATION_SAMPLES, last_sample[gpu], &type, &count, utilization)))
            last_sample[gpu] = utilization[count - 1].timeStamp;
        read_processes(device);
        count = 0;
        nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, NULL);
        read_work(gpu);
        ok(nvmlDeviceGetEncoderUtilization(device, &number, &count));
        ok(nvmlDeviceGetDecoderUtilization(device, &number, &count));
    }
    nvmlMemory_v2_t memory = {.version = 0x02000028};
    ok(nvmlDeviceGetMemoryInfo_v2(device, &memory));
    ok(nvmlDeviceGetFieldValues(device, field_count, fields));
    ok(nvmlDeviceGetTemperature(device, 0, &number));
    for (unsigned int clock = 0; clock < 4; clock++)
        ok(nvmlDeviceGetClockInfo(device, clock, &number));
    ok(nvmlDeviceGetPerformanceState(device, &number));
    if (mode == 1)
        read_instances(gpu);
    else
        ok(nvmlDeviceGetAccountingMode(device, &number));
}

static void choose_fields(unsigned int turn) {
    field_count = 0;
    for (int i = 0; i < wanted_count; i++)
        if (turn % wanted[i].every == 0)
            fields[field_count++] =
                (nvmlFieldValue_t){.fieldId = wanted[i].number, .scopeId = wanted[i].scope};
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void prepare(unsigned int gpu) {
    unsigned int pending;
    ok(nvmlDeviceGetHandleByIndex_v2(gpu, &gpus[gpu]));
    ok(nvmlDeviceGetMigMode(gpus[gpu], &modes[gpu], &pending));
    for (unsigned int place = 0; metrics.numMetrics != 0 && place <= MAX_PLACES; place++) {
        nvmlGpmSampleAlloc(&samples[gpu][place][0]);
        nvmlGpmSampleAlloc(&samples[gpu][place][1]);
    }
    for (unsigned int place = 0; place < MAX_PLACES; place++) {
        nvmlDevice_t instance;
        if (nvmlDeviceGetMigDeviceHandleByIndex(gpus[gpu], place, &instance) == NVML_SUCCESS)
            ok(nvmlDeviceGetGpuInstanceId(instance, &instance_ids[gpu][place]));
    }
}

int main(int argc, char **argv) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL)
        return fprintf(stderr, "%s\n", dlerror()), 1;
#define LOAD(name, arguments) *(void **)&name = dlsym(library, #name);
    FUNCTIONS(LOAD)
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == 'm')
            metrics.metrics[metrics.numMetrics++].metricId = (unsigned int)strtoul(argv[i] + 1, NULL, 10);
        else if (wanted_count < MAX_FIELDS && sscanf(argv[i], "%u:%u:%u", &wanted[wanted_count].number,
                                                    &wanted[wanted_count].scope, &wanted[wanted_count].every) == 3)
            wanted_count++;
    }
    unsigned int count = 0;
    if (!ok(nvmlInit_v2()) || !ok(nvmlDeviceGetCount_v2(&count)) || count > MAX_GPUS)
        return fprintf(stderr, "NVML cannot be used\n"), 1;
    for (unsigned int gpu = 0; gpu < count; gpu++)
        prepare(gpu);
    char line[16];
    for (unsigned int turn = 0; fgets(line, sizeof line, stdin) != NULL; turn++) {
        choose_fields(turn);
        answered = 0;
        long long began = now_ns();
        ok(nvmlDeviceGetCount_v2(&count));
        for (unsigned int gpu = 0; gpu < count; gpu++)
            read_gpu(gpu);
        printf("%lld %u\n", now_ns() - began, answered);
        fflush(stdout);
    }
    return 0;
}
