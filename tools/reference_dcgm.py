"""docs/dcgm.md: what `--compat dcgm` shows under dcgm-exporter's names, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator

from dutycycle_exporter.compat.dcgm_fields import FIELDS, XID_LAST, Field
from tools.markdown import code, heading, paragraph, table

LABELS = (
    ("gpu", "NVML's index; our `gpu`."),
    ("UUID", "The physical GPU's, also of a MIG instance; our `gpu_uuid`."),
    ("pci_bus_id", "As NVML writes it."),
    ("device", "`nvidia` and the index. It is not the device file, which has the minor number."),
    ("modelName", "The model."),
    ("GPU_I_PROFILE", "Of a MIG instance: its GPU instance's profile."),
    ("GPU_I_ID", "Of a MIG instance: its GPU instance's number."),
    ("Hostname", "`--node-name`; our `node`."),
    ("DCGM_FI_DRIVER_VERSION", "The driver's version."),
    ("namespace", "Of the pod that holds the device."),
    ("pod", "The pod that holds the device."),
    ("container", "The container of the pod that holds the device, where the kubelet tells."),
    ("hpc_job", "The Slurm job that holds the device; our `job_id`: `120_3` for a task of an array."),
    ("err_code", "Of `DCGM_FI_DEV_XID_ERRORS`: the XID once more."),
    ("xid", "Of `DCGM_EXP_XID_ERRORS_TOTAL`: the XID that is counted."),
)
"""Each label and what it says; all but the first ones are left out where they have nothing to say."""

GAPS = (
    (
        ("DCGM_FI_PROF_* before Hopper",),
        "NVML has GPM from Hopper on; on older GPUs these need DCGM's own profiling.",
        "`gpu_utilization_ratio`",
    ),
    (
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL before Hopper",),
        "The rate comes from GPM.",
        "`sum without (direction) (rate(gpu_nvlink_bytes_total[5m]))`",
    ),
    (
        (
            *("DCGM_FI_PROF_PIPE_INT_ACTIVE", "DCGM_FI_PROF_NVDEC*_ACTIVE", "DCGM_FI_PROF_NVJPG*_ACTIVE"),
            *("DCGM_FI_PROF_NVOFA*_ACTIVE", "DCGM_FI_PROF_NVLINK_L*_BYTES", "DCGM_FI_PROF_C2C_*"),
            *("DCGM_FI_PROF_*MEM_CACHE_*", "DCGM_FI_PROF_?MMA_CYCLES_ACTIVE_TOTAL"),
            *("DCGM_FI_PROF_DFMA_CYCLES_ACTIVE_TOTAL", "DCGM_FI_PROF_INT_CYCLES_ACTIVE_TOTAL"),
            "DCGM_FI_PROF_FP*_CYCLES_ACTIVE_TOTAL",
        ),
        "Not read.",
        "",
    ),
    (
        ("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "DCGM_FI_DEV_PCIE_RX_THROUGHPUT"),
        "NVML sleeps 20 ms for each, on each GPU; given up by dcgm-exporter, too.",
        "`DCGM_FI_PROF_PCIE_TX_BYTES`, `DCGM_FI_PROF_PCIE_RX_BYTES`",
    ),
    (
        (
            *("DCGM_FI_DEV_NVLINK_*_ERROR_COUNT_*", "DCGM_FI_DEV_NVLINK_ERROR_DL_*", "DCGM_FI_DEV_NVLINK_COUNT_*"),
            *("DCGM_FI_DEV_NVLINK_BANDWIDTH_L*", "DCGM_FI_DEV_NVLINK_?X_BANDWIDTH_*"),
        ),
        "Links are not read one by one, and their errors not at all.",
        "`gpu_nvlink_bytes_total`; XID 74 tells of a link that failed",
    ),
    (
        (
            *("DCGM_FI_DEV_LOW_UTIL_VIOLATION", "DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION"),
            "DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION",
        ),
        "Not read: an idle GPU's low clocks hold nobody up.",
        "",
    ),
    (
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_EXP_CLOCK_EVENTS_*"),
        "Bits of one instant, or how many of them were seen: the counters miss nothing.",
        "`gpu_throttle_seconds_total`",
    ),
    (
        ("DCGM_EXP_XID_ERRORS_COUNT",),
        "A count over a window that the exporter chooses.",
        "`increase(gpu_xid_errors_total[5m]) > 0`; `time() - gpu_xid_last_timestamp_seconds < 300` tells of it sooner",
    ),
    (
        ("DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_POWER_MGMT_LIMIT*"),
        "Power is the mean between the last two readings of the energy counter, and the limit the one in force.",
        "`gpu_power_watts`, `gpu_power_limit_watts`",
    ),
    (
        (
            *("DCGM_FI_DEV_ECC_?BE_*_L1", "DCGM_FI_DEV_ECC_?BE_*_L2", "DCGM_FI_DEV_ECC_?BE_*_DEV"),
            *("DCGM_FI_DEV_ECC_?BE_*_REG", "DCGM_FI_DEV_ECC_?BE_*_TEX"),
        ),
        "Only errors of SRAM are counted apart.",
        "`gpu_ecc_errors_total`",
    ),
    (("DCGM_FI_DEV_BAR1_*", "DCGM_FI_DEV_PCIE_LINK_*", "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_*"), "Not read.", ""),
    (("DCGM_FI_DEV_VGPU_*",), "Virtual GPUs are not read.", ""),
    (
        ("DCGM_EXP_GPU_HEALTH_STATUS", "DCGM_EXP_P2P_STATUS", "DCGM_FI_DEV_DIAG_*"),
        "Health checks and diagnostics are DCGM's own.",
        "`gpu_recovery_action`, `gpu_xid_errors_total`, `gpu_row_remap_failed`",
    ),
    (
        ("DCGM_FI_DEV_NVSWITCH_*", "DCGM_FI_DEV_CPU_*", "DCGM_FI_DEV_CONNECTX_*", "DCGM_FI_DEV_FABRIC_*"),
        "Switches, processors, network cards and fabric: NVML does not measure them, or not as a GPU's.",
        "",
    ),
    (
        (
            *("DCGM_FI_NVML_VERSION", "DCGM_FI_DEV_BRAND", "DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_*_INFOROM_VER"),
            *("DCGM_FI_DEV_INFOROM_IMAGE_VER", "DCGM_FI_DEV_VBIOS_VERSION"),
        ),
        "Labels there, of which only the driver's version is one here.",
        "`gpu_driver_info`",
    ),
    (("`err_msg`", "`vgpu`", "`dra_*`"), "Labels: not read.", ""),
)
"""What dcgm-exporter can show and we do not: names, with wildcards; why; what there is instead."""

DIFFERENCES = (
    """**Shared GPUs.** dcgm-exporter has the series of a GPU once for each job that its mapping directory lists, and,
    with `--kubernetes-virtual-gpus`, once for each container; so it is here, for each container or job that holds the
    GPU now, though once only where a container has two replicas of the GPU. A `sum` over them counts the GPU several
    times: take `max by (Hostname, gpu)` first, as dashboard 12239 does, or our own families, which are never
    multiplied. Without that option dcgm-exporter names one of the containers that share a GPU; here all are.""",
    """**MIG.** dcgm-exporter repeats what is measured of the whole GPU (temperature, power, errors) for each of its
    instances, so that sums are wrong. Here such a measure is there once, without `GPU_I_ID` and without an owner; what
    is measured of the instances (memory, `DCGM_FI_PROF_*`) is there once for each, and not of the GPU as a whole.
    Compute instances of one GPU instance are one, as there. On a MIG GPU `DCGM_FI_DEV_GPU_UTIL`,
    `DCGM_FI_DEV_MEM_COPY_UTIL`, `DCGM_FI_DEV_ENC_UTIL` and `DCGM_FI_DEV_DEC_UTIL` are absent, since NVML does not
    measure them; dcgm-exporter has been seen to show 0,
    which makes a busy instance look idle. Take `DCGM_FI_PROF_GR_ENGINE_ACTIVE`, from Hopper on.""",
    """**Absent is not 0.** What could not be read has no series. `DCGM_FI_DEV_XID_ERRORS` is absent until a first XID,
    where dcgm-exporter has 0: `> 0` works on both, `changes()` does not. It is absent again when the exporter has been
    restarted; when the GPU has fallen off the bus it stays, with `UUID` and `Hostname` alone.""",
    """**Impossible samples.** dcgm-exporter has been seen to show a utilization of 1,980 to 4,294,967,295 and DCGM's
    blanks (1.4e14, 9.2e18). Here a utilization over 100 % is dropped and counted. The alerter drops such samples of
    dcgm-exporter's, too ([prometheus.md](prometheus.md#dcgm-exporters-metrics)).""",
    """**Before Hopper** there is no `DCGM_FI_PROF_*`, and the two panels of dashboard 12239 that show it (GPU and
    tensor core utilization) are empty; `DCGM_FI_DEV_GPU_UTIL / 100` is what can be shown in the first instead.""",
    """**Power** is the mean between the last two readings of the energy counter, not the sensor's newest reading.""",
    """**Units.** Whole numbers are rounded to the nearest. Throttling is in nanoseconds, as NVML gives it; some counter
    files of dcgm-exporter say microseconds. `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL` is a rate, for which older ones say
    counter; it is a gauge here. What DCGM calls MB in it is 1000 KiB.""",
    """**Names of counters** do not all end in `_total`: that is how they are called, and `promtool check metrics`
    complains about it.""",
    """**`pod`, `namespace` and `container`** are also labels of the scraped target where Prometheus finds it through
    Kubernetes. As with dcgm-exporter they become `exported_pod`, `exported_namespace` and `exported_container` then,
    unless `honorLabels` is set.""",
)
"""What whoever changes over should know."""


def document() -> bytes:
    """The whole page."""
    return "\n".join(_lines()).encode()


def _lines() -> Iterator[str]:
    yield from heading(
        "dcgm-exporter's names", "exporter/dutycycle_exporter/compat/dcgm_fields.py, tools/reference_dcgm.py"
    )
    yield from paragraph("""
        With `--compat dcgm` the exporter shows what it measures under dcgm-exporter's names, labels and units as well,
        beside its own, so that dashboards and rules go on working: Grafana's dashboard 12239, the recording rules of
        NVIDIA's GPU operator (`accelerator_*`), your own. They read these families wherever they were collected; a
        scrape configuration or rule that picks `job="dcgm-exporter"` must be given the new job's name, or the job that
        name.
    """)
    yield "## Families"
    yield ""
    yield from paragraph("""
        `ours` is PromQL that gives the same value from our own families of the same device, which are in base units
        ([metrics.md](metrics.md)). Where the driver does not tell what memory it reserves, that counts as 0.
    """)
    rows = ((code(field.name), field.kind, field.unit, _own(field)) for field in FIELDS)
    yield from table(("dcgm-exporter", "kind", "unit", "ours"), rows)
    yield "## Labels"
    yield ""
    yield from paragraph("Those that have nothing to say are left out, as there.")
    yield from table(("label", "meaning"), ((code(name), meaning) for name, meaning in LABELS))
    yield "## What is different"
    yield ""
    for text in DIFFERENCES:
        yield from paragraph(text)
    yield "## What is missing"
    yield ""
    missing = ((", ".join(map(_name, names)), why, instead) for names, why, instead in GAPS)
    yield from table(("dcgm-exporter", "why", "instead"), missing)


def _own(field: Field) -> str:
    return f"`xid` of the newest {code('gpu_xid_last_timestamp_seconds')}" if field is XID_LAST else code(field.formula)


def _name(text: str) -> str:
    """A name as code, with what is said of it after."""
    name, _, rest = text.partition(" ")
    return text if text.startswith("`") else f"{code(name)} {rest}".rstrip()
