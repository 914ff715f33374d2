/* The shared block: what the Python driver writes and the library mirrors. tests/fakes/nvml/layout.py is its image in
 * ctypes; the build refuses to compile when the two differ.
 */
#ifndef STATE_H
#define STATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define STATE_MAGIC UINT64_C(0x64757479636c6b31)

enum { MAX_DEVICES = 16, MAX_PROCESSES = 64, MAX_SAMPLES = 2048, MAX_FUNCTIONS = 128 };
enum { MAX_INSTANCES = 7, MAX_ACCOUNTS = 128, MAX_EVENTS = 256 };
enum { THROTTLE_COUNTERS = 9, SRAM_ERRORS = 3, CLOCKS = 4, GPM_ACTIVITIES = 14, GPM_TRAFFIC = 4 };

/* A value that this GPU does not have; its functions answer NVML_ERROR_NOT_SUPPORTED. */
#define NOT_AVAILABLE_U32 UINT32_MAX
#define NOT_AVAILABLE_U64 UINT64_MAX

enum presence {
    PRESENCE_UNUSED = 0,  /* no device was ever declared here */
    PRESENCE_PRESENT = 1,
    PRESENCE_LOST = 2,    /* off the bus: still counted, every call answers GPU_IS_LOST */
    PRESENCE_ABSENT = 3,  /* gone from the count as well: higher indexes move down, an old handle answers GPU_IS_LOST */
    PRESENCE_EXCLUDED = 4, /* as absent, but the driver has it, and says so where it is asked for excluded ones */
};

/* Behaviour forced upon one function, and what was asked of it. Row 0 is about every device, row i + 1 about slot i.
 * Each member is read and written on its own, atomically: outside any seqlock. */
struct control {
    _Atomic uint64_t calls;    /* calls that were made, whatever they answered */
    _Atomic uint64_t hung;     /* calls that began to block */
    _Atomic uint32_t result;   /* nvmlReturn_t to answer; 0: none is forced */
    _Atomic int32_t remaining; /* calls for which `result` still holds; negative: until it is cleared */
    _Atomic uint32_t hang;     /* block for as long as this is not 0 */
    _Atomic uint32_t delay_us; /* time that a call takes, below one second */
};

struct system {
    _Atomic uint64_t sequence;
    char driver_version[80];
    char nvml_version[80];
    uint32_t cuda_driver_version;
    uint32_t gpm_interval_us; /* that two GPM samples must be apart at least */
};

struct identity {
    char name[96];
    char uuid[96];
    char serial[32];
    char vbios[32];
    uint32_t pci_domain, pci_bus, pci_device, pci_device_id, pci_subsystem_id;
    uint32_t minor;
    uint32_t architecture;
    uint32_t compute_major, compute_minor;
    uint32_t cores;
    uint32_t nvlinks;
    uint32_t gpm; /* whether there are profiling counters */
    uint64_t memory_total;
    uint64_t bar1_total;
    uint64_t event_types; /* mask of the events that can be registered for; 0: none */
};

struct telemetry {
    uint64_t time_us; /* up to when the counters below have been integrated */
    uint64_t memory_used, memory_reserved;
    uint64_t energy_mj;
    uint64_t pcie_tx_bytes, pcie_rx_bytes;
    uint64_t nvlink_tx_kib, nvlink_rx_kib;
    uint64_t throttle_ns[THROTTLE_COUNTERS]; /* order: THROTTLE_COUNTERS in layout.py */
    uint64_t ecc_errors[2][2];               /* [volatile, aggregate][corrected, uncorrected] */
    uint64_t sram_errors[2][SRAM_ERRORS];    /* the part of SRAM: [volatile, aggregate][corrected, parity, SEC-DED] */
    uint64_t clocks_event_reasons;
    uint32_t utilization_gpu, utilization_memory; /* percent, always those of the newest samples */
    uint32_t power_mw;
    uint32_t power_limit_mw, power_limit_min_mw, power_limit_max_mw, power_limit_default_mw;
    uint32_t temperature, memory_temperature; /* degrees Celsius */
    uint32_t fan_percent;
    uint32_t performance_state;
    uint32_t clock_mhz[CLOCKS], max_clock_mhz[CLOCKS]; /* graphics, SM, memory, video */
    uint32_t remapped_corrected, remapped_uncorrected, remapped_pending, remapped_failure;
    uint32_t retired_sbe, retired_dbe, retired_pending; /* pages, by single and by double bit errors */
    uint32_t pcie_replays;
    uint32_t recovery_action;
    uint32_t sram_threshold_exceeded;
    uint32_t mig_current, mig_pending;
    uint32_t ecc_current, ecc_pending;
    uint32_t persistence_mode, compute_mode;
    uint32_t accounting_mode;
};

/* Profiling counters of a GPU or of a MIG instance, since the beginning. */
struct gpm_counters {
    uint64_t time_us;    /* up to when they have been integrated */
    uint64_t elapsed_ns; /* since the beginning */
    uint64_t active_ns[GPM_ACTIVITIES];  /* by metric id, as GPM_ACTIVITIES in layout.py: integrals of shares of 1 */
    uint64_t traffic_bytes[GPM_TRAFFIC]; /* PCIe sent and received, NVLink received and sent */
};

/* A MIG device: one compute instance that fills its GPU instance. */
struct instance {
    char uuid[96];
    char profile[32];
    uint32_t present;    /* 0: a hole; nothing else here means anything */
    uint32_t generation; /* of this place; handles of earlier ones are stale */
    uint32_t gpu_instance, compute_instance;
    uint32_t multiprocessors;
    uint32_t gpu_slices, compute_slices;
    uint32_t copy_engines, decoders, encoders, jpegs, ofas;
    uint64_t memory_total, memory_reserved, memory_used, bar1_total;
    struct gpm_counters gpm;
};

/* What accounting mode keeps about a process. */
struct account {
    uint32_t pid, running;
    uint32_t utilization_gpu, utilization_memory; /* percent of the process's lifetime */
    uint64_t memory_peak;
    uint64_t time_ms; /* 0 while it runs */
    uint64_t start_us;
};

struct sample {
    uint64_t timestamp_us; /* of the end of the sample's period */
    uint64_t value;
};

/* Sample n (from 0) lies at n % capacity; the last min(written, capacity) exist. */
struct ring {
    uint64_t written;
    uint32_t capacity; /* at most MAX_SAMPLES */
    uint32_t reserved;
    struct sample samples[MAX_SAMPLES];
};

enum process_kind { PROCESS_COMPUTE = 0, PROCESS_GRAPHICS = 1, PROCESS_MPS = 2 };

struct process_sample {
    uint32_t sm, memory; /* percent of the sample's period */
};

struct process {
    uint32_t pid, kind;
    uint32_t instance; /* place of a MIG instance; NOT_AVAILABLE_U32 where there is none */
    uint32_t reserved;
    uint64_t memory_used;                           /* NOT_AVAILABLE_U64 as on a GPU in MIG or WDDM mode */
    struct process_sample utilization[MAX_SAMPLES]; /* beside the samples of the device's `gpu` ring, slot by slot */
};

struct device {
    _Atomic uint64_t sequence;
    uint32_t presence;
    uint32_t process_count;
    uint32_t account_count; /* the last ones of `accounts` are the newest */
    uint32_t crowd;         /* processes that lie in no table: pids from `crowd_pid` on, all of one size */
    uint32_t crowd_pid;
    uint32_t max_instances; /* of a model that can be partitioned; else 0 */
    uint64_t crowd_memory;
    struct identity identity;
    struct telemetry telemetry;
    struct gpm_counters gpm;
    struct instance instances[MAX_INSTANCES];
    struct account accounts[MAX_ACCOUNTS];
    struct ring power, gpu, memory;
    struct process processes[MAX_PROCESSES]; /* last: the driver publishes no more of them than there are */
};

struct event {
    uint64_t type, data;
    uint32_t slot;
    uint32_t gpu_instance, compute_instance; /* NOT_AVAILABLE_U32: of the whole GPU */
    uint32_t reserved;
};

/* Event n (from 0) lies at n % MAX_EVENTS. */
struct event_log {
    _Atomic uint64_t sequence;
    uint64_t written;
    struct event events[MAX_EVENTS];
};

struct state {
    uint64_t magic;
    uint64_t size; /* of this whole structure, as a check */
    struct system system;
    struct event_log events;
    struct control controls[MAX_DEVICES + 1][MAX_FUNCTIONS];
    struct device devices[MAX_DEVICES];
};

#endif
