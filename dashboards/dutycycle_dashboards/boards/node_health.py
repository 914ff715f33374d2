"""The Node board's panels on faults, throttling, processes, and the exporter on the node."""

from __future__ import annotations

from dutycycle_dashboards.boards.incidents import CAUSES, SEVERITY_COLORS, STATES
from dutycycle_dashboards.boards.node_queries import RANGE, RATE, UNREAD, here, of_exporter
from dutycycle_dashboards.building.graphs import timeseries
from dutycycle_dashboards.building.links import JOB, Link
from dutycycle_dashboards.building.panel import ANY_IS_BAD, Panel, Target, Threshold
from dutycycle_dashboards.building.promql import THROTTLE_STEP
from dutycycle_dashboards.building.tables import Column, table
from dutycycle_dashboards.building.units import BAD, BYTES, GOOD, GPUS, PERCENT, SECONDS, WHEN

_TO_JOB = Link("Show this job", JOB, {"workload": "Job"}, keep=("datasource", "alerter"))
_ANSWERS = (Threshold(None, BAD), Threshold(1, GOOD))
_NO_EXPORTER = "no exporter answered on this node"


def faults() -> tuple[Panel, ...]:
    """XIDs, errors of memory and links, lost GPUs, incidents."""
    return _xids(), _errors(), _lost(), _incidents()


def _xids() -> Panel:
    by = "(gpu, mig, xid, class)"
    none = "no XID was reported since the exporter started"
    return table(
        "XIDs",
        "Errors that the driver reported, since the exporter started. critical: the GPU or node must be looked after "
        "(drain it); warning: contained; application: most often the program's own fault, such as a bad address.",
        (
            Target(f"sum by {by} (increase({here('gpu_xid_errors_total')}{RANGE}))", may_be_empty=none),
            Target(f"1000 * max by {by} ({here('gpu_xid_last_timestamp_seconds')})", may_be_empty=none),
        ),
        (
            Column("GPU", label="gpu", width=60),
            Column("Instance", label="mig"),
            Column("XID", label="xid", width=70),
            Column("Class", label="class", width=120),
            Column("In the range", value=0, decimals=0, width=110),
            Column("Last", value=1, unit=WHEN, width=180),
        ),
        sort="Last",
        no_data="No XID since the exporter started",
        width=10,
        height=8,
    )


def _errors() -> Panel:
    def count(metric: str, kind: str) -> str:
        chosen = f'type="{kind}"'
        return f"max by (gpu) ({here(metric, chosen)})"

    no_ecc = "no ECC on these GPUs, or it is off"
    no_remap = "rows are remapped on Ampere and later"
    return table(
        "Memory and link errors",
        "ECC errors since the driver was loaded, rows of memory replaced so far, whether a replacement waits "
        "for a reset (pending) or failed (replace the GPU), pages retired (before Ampere), and PCIe packets sent "
        "again in the range. Corrected errors are harmless while they are few; any uncorrected one has cost a job.",
        (
            Target(count("gpu_ecc_errors_total", "volatile_corrected"), may_be_empty=no_ecc),
            Target(count("gpu_ecc_errors_total", "volatile_uncorrected"), may_be_empty=no_ecc),
            Target(count("gpu_remapped_rows", "correctable"), may_be_empty=no_remap),
            Target(count("gpu_remapped_rows", "uncorrectable"), may_be_empty=no_remap),
            Target(f"max by (gpu) ({here('gpu_row_remap_pending')})", may_be_empty=no_remap),
            Target(f"max by (gpu) ({here('gpu_row_remap_failed')})", may_be_empty=no_remap),
            Target(f"sum by (gpu) ({here('gpu_retired_pages')})", may_be_empty="pages are retired before Ampere only"),
            Target(f"sum by (gpu) (increase({here('gpu_pcie_replays_total')}{RANGE}))", may_be_empty=UNREAD),
        ),
        (
            Column("GPU", label="gpu", width=60),
            Column("Corrected", value=0, decimals=0),
            Column("Uncorrected", value=1, decimals=0, width=115, thresholds=ANY_IS_BAD),
            Column("Remapped", value=2),
            Column("Unc. remapped", value=3, width=128, thresholds=ANY_IS_BAD),
            Column("Pending", value=4, thresholds=ANY_IS_BAD),
            Column("Failed", value=5, thresholds=ANY_IS_BAD),
            Column("Retired", value=6),
            Column("PCIe replays", value=7, decimals=0, width=115),
        ),
        sort="GPU",
        ascending=True,
        no_data=UNREAD,
        width=14,
        height=8,
    )


def _lost() -> Panel:
    return timeseries(
        "Expected and visible GPUs",
        "GPUs that PCI shows and that NVML shows. A gap between the lines is lost GPUs. If visible ends while "
        "expected continues, NVML cannot be read; if both end, a node or an exporter is away.",
        Target(f"max({here('gpu_expected')})", "expected"),
        Target(f"max({here('gpu_visible')})", "visible", may_be_empty=UNREAD),
        unit=GPUS,
        colors={"expected": "red", "visible": "green"},
        no_data="No exporter answered on this node",
        width=8,
    )


def _incidents() -> Panel:
    keep = "incident, rule, severity, state, cause, user, subject"
    return table(
        "Open incidents",
        "What Dutycycle says about this node, its GPUs, and jobs that it counts to this node. The number leads to the "
        "evidence and the advice. Empty is good.",
        (
            Target(
                f"1000 * max by ({keep}) ({here('dutycycle_incident_opened_timestamp_seconds')})",
                may_be_empty="nothing is wrong, or no alerter is scraped",
            ),
        ),
        (
            Column(
                "Incident", label="incident", width=90, link=Link("Evidence and advice", path="/incidents/{Incident}")
            ),
            Column("Subject", label="subject", width=110),
            Column("Rule", label="rule", width=150),
            Column("Severity", label="severity", width=100, colors=SEVERITY_COLORS),
            Column("State", label="state", width=130, texts=STATES),
            Column("User", label="user", width=110),
            Column("Likely cause", label="cause", texts=CAUSES),
            Column("Opened", value=0, unit=WHEN, width=170),
        ),
        sort="Opened",
        no_data="No open incident, or the alerter's metrics are not scraped",
        width=16,
        height=8,
    )


def throttle() -> Panel:
    """Of the devices, whoever holds them."""
    held_down = f"sum by (reason) (rate({here('gpu_throttle_seconds_total')}{RATE}))"
    return timeseries(
        "Throttling by reason",
        "Share of time in which clocks were held down, mean over the GPUs; reasons overlap. power_cap is usual for "
        "heavy work. thermal, hw_thermal, sw_thermal and power_brake mean that cooling or power is insufficient.",
        Target(
            f"clamp_max(100 * {held_down} / on () group_left () (max({here('gpu_visible')}) > 0), 100)",
            "{{reason}}",
            may_be_empty="the driver does not tell it",
        ),
        unit=PERCENT,
        soft_most=10,
        colors={
            "thermal": "red",
            "hw_thermal": "dark-red",
            "sw_thermal": "light-red",
            "power_brake": "purple",
            "power_cap": "blue",
        },
        interval=THROTTLE_STEP,
        no_data="The driver does not report reasons for throttling",
    )


def processes() -> tuple[Panel, ...]:
    """Compute contexts, and the processes one by one."""
    by = "(gpu, mig, pid, user, workload, command)"
    off = "the exporter runs without --collect.processes, or there is no process"
    return (
        timeseries(
            "Compute contexts",
            "Processes with a compute context on each GPU. Some on a GPU that nobody holds were left behind, or run "
            "outside the scheduler.",
            Target(f"max by (gpu, mig) ({here('gpu_processes')})", "GPU {{gpu}} {{mig}}", may_be_empty=UNREAD),
            no_data=UNREAD,
            width=10,
        ),
        table(
            "Processes now",
            "Processes on the GPUs, those with the most memory. Without a job they are nobody's: left behind, or "
            "outside the scheduler.",
            (
                Target(f"max by {by} ({here('gpu_process_memory_bytes')})", may_be_empty=off),
                Target(f"100 * max by {by} ({here('gpu_process_utilization_ratio')})", may_be_empty=off),
            ),
            (
                Column("GPU", label="gpu", width=60),
                Column("Instance", label="mig", width=120),
                Column("PID", label="pid", width=90),
                Column("User", label="user"),
                Column("Job", label="workload", link=_TO_JOB),
                Column("Command", label="command"),
                Column("Memory", value=0, unit=BYTES, width=100),
                Column("Utilization", value=1, unit=PERCENT, decimals=0, width=100),
            ),
            sort="Memory",
            no_data="None, or the exporter runs without --collect.processes",
            width=14,
            height=8,
        ),
    )


def exporter() -> tuple[Panel, ...]:
    """What tells how old and how complete everything above is."""
    return _collectors(), _versions(), _failures()


def _collectors() -> Panel:
    return table(
        "Collectors",
        "The parts of the exporter on this node: whether the last run succeeded, how long ago one did, and how long it "
        "took. One that fails leaves out what it collects; the exporter's log says why.",
        (
            Target(f"min by (collector) ({of_exporter('dutycycle_exporter_collector_success')})", "", _NO_EXPORTER),
            Target(f"max by (collector) ({of_exporter('dutycycle_exporter_collector_age_seconds')})", "", _NO_EXPORTER),
            Target(
                f"max by (collector) ({of_exporter('dutycycle_exporter_collector_duration_seconds')})", "", _NO_EXPORTER
            ),
        ),
        (
            Column("Collector", label="collector"),
            Column("Last run", value=0, thresholds=_ANSWERS, texts={"0": "failed", "1": "succeeded"}, width=110),
            Column("Succeeded", value=1, unit=SECONDS, width=125),
            Column("Duration", value=2, unit=SECONDS, width=110),
        ),
        sort="Collector",
        ascending=True,
        no_data="No exporter answered on this node",
        width=8,
        height=8,
    )


def _versions() -> Panel:
    started = of_exporter("dutycycle_exporter_start_timestamp_seconds")
    return table(
        "Versions",
        "Driver and CUDA on the node, and since when its exporter runs.",
        (
            Target(
                f"group by (driver_version, cuda_version, nvml_version) ({here('gpu_driver_info')}) "
                f"* on () group_left () (1000 * max({started}))",
                may_be_empty=UNREAD,
            ),
        ),
        (
            Column("Driver", label="driver_version"),
            Column("CUDA", label="cuda_version"),
            Column("NVML", label="nvml_version"),
            Column("Exporter since", value=0, unit=WHEN, width=170),
        ),
        no_data=UNREAD,
        width=8,
        height=8,
    )


def _failures() -> Panel:
    def grown(metric: str, label: str) -> str:
        return f"sum by ({label}) ({of_exporter(metric, RATE)}) > 0"

    return timeseries(
        "What failed",
        "In each step: reads of NVML that failed, by call; restarts of the NVML child; samples that were dropped; "
        "files of jobs and processes that could not be used. Single ones are harmless; a steady rate means that "
        "something above is missing.",
        Target(grown("dutycycle_exporter_read_failures_total", "call"), "read: {{call}}", "nothing failed"),
        Target(grown("dutycycle_exporter_child_restarts_total", "reason"), "restart: {{reason}}", "nothing failed"),
        Target(grown("dutycycle_exporter_samples_dropped_total", "reason"), "dropped: {{reason}}", "nothing failed"),
        Target(
            grown("dutycycle_exporter_attribution_failures_total", "source"), "owners: {{source}}", "nothing failed"
        ),
        bars=True,
        no_data="Nothing failed in the range",
        width=8,
    )
