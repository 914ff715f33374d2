"""The fleet's exporters as OpenMetrics text: what scrapes of a day would have seen.

The four counters that are recorded, and what is counted of GPUs, are there at every scrape of the day, utilization's
samples at every second one; every other family of the exporter's contract for the last hours, with values that are
plausible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dutycycle_exporter import contract
from tests.dashboards.answers.fleet import DOWN, END, HOLD, MIDNIGHT, NODES, SCRAPE, Fleet, Gpu, Job, Node

RECENT = 3 * 3600
"""Seconds before the end from which on everything is there."""
SLOW = 2 * SCRAPE
RECORDED = {"allocated": "seconds", "observed": "seconds", "busy": "seconds", "energy": "joules"}
WATTS = 700.0
MEMORY = 80 * 2.0**30

Labels = Mapping[str, str]

VALUES: dict[str, tuple[dict[str, str], ...]] = {
    "gpu_info": ({"minor": "0", "pci_bus_id": "0000:01:00.0", "mig_mode": "0", "mig_profile": ""},),
    "gpu_driver_info": ({"driver_version": "580.95.05", "cuda_version": "13.0", "nvml_version": "13.580.95"},),
    "gpu_temperature_celsius": ({"sensor": "gpu"}, {"sensor": "memory"}),
    "gpu_clock_hertz": tuple({"domain": domain} for domain in ("graphics", "sm", "memory", "video")),
    "gpu_cycles_total": tuple({"unit": unit} for unit in contract.CYCLES),
    "gpu_throttle_seconds_total": tuple(
        {"reason": reason} for reason in ("power_cap", "sw_thermal", "hw_thermal", "power_brake")
    ),
    "gpu_ecc_errors_total": (
        {"type": "volatile_corrected"},
        {"type": "volatile_uncorrected"},
        {"type": "aggregate_corrected"},
        {"type": "aggregate_uncorrected"},
        {"type": "sram_volatile_corrected"},
        {"type": "sram_volatile_uncorrected"},
        {"type": "sram_aggregate_corrected"},
        {"type": "sram_aggregate_uncorrected"},
    ),
    "gpu_remapped_rows": ({"type": "correctable"}, {"type": "uncorrectable"}),
    "gpu_retired_pages": ({"type": "single_bit"}, {"type": "double_bit"}, {"type": "pending"}),
    "workload_gpu_active_seconds_total": tuple({"unit": unit} for unit in contract.INTEGRATED),
    "workload_gpu_idle_gap_seconds_total": tuple({"length": length} for length in contract.GAP_LENGTHS),
    "workload_gpu_throttle_seconds_total": ({"reason": "power_cap"}, {"reason": "sw_thermal"}),
    "workload_pressure_seconds_total": tuple({"resource": resource} for resource in ("cpu", "io", "memory")),
    "workload_label": ({"label": "app", "value": "training"},),
    "dutycycle_exporter_build_info": ({"version": "0.5.0"},),
    **{
        f"dutycycle_exporter_collector_{what}": tuple({"collector": name} for name in ("nvml", "pod_resources", "gpm"))
        for what in ("success", "age_seconds", "duration_seconds")
    },
    "dutycycle_exporter_read_failures_total": ({"call": "GetFanSpeed", "error": "not_supported"},),
    "dutycycle_exporter_samples_dropped_total": ({"reason": "over_100"},),
    "dutycycle_exporter_values_clamped_total": ({"unit": "sm"},),
    "dutycycle_exporter_attribution_failures_total": ({"source": "slurm", "reason": "malformed"},),
    "dutycycle_exporter_child_restarts_total": tuple({"reason": reason} for reason in contract.RESTART_REASONS),
    **{
        family: ({"direction": "tx"}, {"direction": "rx"})
        for family in (
            "gpu_pcie_bytes_per_second",
            "gpu_nvlink_bytes_per_second",
            "gpu_pcie_bytes_total",
            "gpu_nvlink_bytes_total",
        )
    },
}
"""Labels beyond those of the device, owner, workload or node, and their values."""

SIZES = {
    "gpu_info": 1.0,
    "gpu_driver_info": 1.0,
    "gpu_memory_total_bytes": MEMORY,
    "gpu_memory_reserved_bytes": 0.01 * MEMORY,
    "gpu_memory_used_bytes": 0.6 * MEMORY,
    "workload_gpu_memory_used_bytes": 0.6 * MEMORY,
    "gpu_process_memory_bytes": 0.6 * MEMORY,
    "gpu_process_lifetime_max_memory_bytes": 0.6 * MEMORY,
    "gpu_process_lifetime_seconds": 4000.0,
    "gpu_power_watts": 0.7 * WATTS,
    "gpu_power_limit_watts": WATTS,
    "gpu_temperature_celsius": 64.0,
    "gpu_clock_hertz": 1.98e9,
    "gpu_performance_state": 0.0,
    "gpu_processes": 1.0,
    "gpu_processes_hidden": 2.0,
    "gpu_pcie_bytes_per_second": 3e9,
    "gpu_nvlink_bytes_per_second": 9e10,
    "gpu_pcie_bytes_total": 3e9,
    "gpu_nvlink_bytes_total": 9e10,
    "gpu_cycles_total": 1.98e9,
    "gpu_energy_joules_total": 0.7 * WATTS,
    "gpu_ecc_errors_total": 1e-4,
    "gpu_pcie_replays_total": 1e-3,
    "gpu_xid_errors_total": 1e-4,
    "gpu_remapped_rows": 1.0,
    "gpu_sram_threshold_exceeded": 0.0,
    "gpu_row_remap_pending": 0.0,
    "gpu_row_remap_failed": 0.0,
    "gpu_retired_pages": 0.0,
    "gpu_recovery_action": 0.0,
    "workload_gpu_processes": 1.0,
    "workload_label": 1.0,
    "workload_cpu_seconds_total": 9.0,
    "workload_cpu_limit_cores": 16.0,
    "dutycycle_exporter_build_info": 1.0,
    "dutycycle_exporter_time_scale": 1.0,
    "dutycycle_exporter_replay": 0.0,
    "dutycycle_exporter_collector_success": 1.0,
    "dutycycle_exporter_collector_age_seconds": 4.0,
    "dutycycle_exporter_collector_duration_seconds": 0.02,
    "dutycycle_exporter_config_last_reload_successful": 1.0,
}
"""Gauges, and growth of counters a second; what is not here is a ratio."""
RATIO = 0.4
EVERYWHERE = {"gpu_expected", "gpu_visible"} | {f"workload_gpu_{kind}_{unit}_total" for kind, unit in RECORDED.items()}
XID = {"xid": "79", "class": "critical"}
HOT = Gpu("a1", 0)
"""Held down by its temperature a fifth of the time."""
HOLLOW = Gpu("a1", 3)
"""Has an XID, and looks busy while its multiprocessors are not."""
OF_INSTANCES = ("gpu_info", "gpu_memory_used_bytes", "gpu_memory_total_bytes", "gpu_processes")
"""What there is of MIG instances without GPM; of their GPU there is no utilization."""
_MEASURED = (
    "gpu_utilization_ratio",
    "gpu_busy_seconds_total",
    "gpu_observed_seconds_total",
    "gpu_last_busy_timestamp_seconds",
)


@dataclass(frozen=True, slots=True)
class Series:
    """One series: labels, and the samples of its life, in seconds since midnight."""

    labels: dict[str, str]
    samples: Iterable[tuple[float, float]]


def openmetrics(fleet: Fleet) -> Iterator[str]:
    """Every family of the contract, without the final line."""
    for family in contract.FAMILIES.values():
        base = family.name.removesuffix("_total") if family.kind == "counter" else family.name
        yield f"# TYPE {base} {family.kind}\n"
        for series in _histogram(fleet) if family.kind == "histogram" else _family(fleet, family):
            name = family.name + ("_bucket" if family.kind == "histogram" else "")
            if "__part" in series.labels:
                name = family.name + series.labels.pop("__part")
            yield from written(name, series)


def written(name: str, series: Series) -> Iterator[str]:
    """A series' lines."""
    labels = ",".join(f'{label}="{value}"' for label, value in series.labels.items() if value)
    yield "".join([f"{name}{{{labels}}} {value!r} {MIDNIGHT + t:.0f}\n" for t, value in series.samples])


def _family(fleet: Fleet, family: contract.Family) -> Iterator[Series]:
    name = family.name
    if name in EVERYWHERE and name.startswith("workload"):
        yield from _recorded(fleet, name)
    elif set(contract.OWNERSHIP) <= set(family.labels):
        for job in fleet.jobs:
            for gpu in job.gpus:
                for more in VALUES.get(name, ({},)):
                    labels = {**gpu.labels, **job.owner, **more}
                    yield Series(_target(job.node, labels), _of_job(family, job))
    elif set(contract.WORKLOAD) <= set(family.labels):
        for job in fleet.jobs:
            owner = {label: job.owner[label] for label in contract.WORKLOAD if label != "node"}
            for more in VALUES.get(name, ({},)):
                yield Series(_target(job.node, {"node": job.node.name, **owner, **more}), _of_job(family, job))
    elif set(contract.DEVICE) <= set(family.labels):
        for node, gpu in _devices(fleet, name):
            for more in _device_values(fleet, name, family, gpu):
                hot = gpu == HOT and more.get("reason") == "hw_thermal"
                samples = _of_device(fleet, family, node, gpu, rate=0.2 if hot else None)
                yield Series(_target(node, {**gpu.labels, **more}), samples)
    else:
        for node in NODES:
            here = {"node": node.name} if "node" in family.labels else {}
            for more in VALUES.get(name, ({},)):
                yield Series(_target(node, {**here, **more}), _of_node(family, node))


def _target(node: Node, labels: Mapping[str, str]) -> dict[str, str]:
    return {**labels, "job": "dutycycle", "instance": f"{node.name}:9836"}


def _devices(fleet: Fleet, family: str) -> Iterator[tuple[Node, Gpu]]:
    instances = {gpu: job.node for job in fleet.jobs for gpu in job.gpus if gpu.mig}
    divided = {gpu.uuid for gpu in instances}
    for node in NODES:
        for gpu in (Gpu(node.name, index) for index in range(node.gpus)):
            if family not in _MEASURED or gpu.uuid not in divided:
                yield node, gpu
    if family in OF_INSTANCES:
        for gpu, node in instances.items():
            yield node, gpu


def _device_values(fleet: Fleet, name: str, family: contract.Family, gpu: Gpu) -> Iterable[dict[str, str]]:
    if "xid" in family.labels:
        return [XID] if gpu == HOLLOW else []
    holder = next((job for job in fleet.running() if gpu in job.gpus), None)
    if "pid" in family.labels:
        if holder is None:
            return []
        who = {"pid": "4711", "user": holder.user, "workload": holder.owner["workload"], "command": "python"}
        return [who]
    if "model" in family.labels:
        model = next(node.model for node in NODES if node.name == gpu.node)
        of_instance = {"mig_mode": "1", "mig_profile": "3g.40gb"} if gpu.mig else {}
        return [{"model": model, **more, **of_instance} for more in VALUES[name]]
    return VALUES.get(name, ({},))


def _scrapes(node: Node, begin: float, end: float, every: int = SCRAPE) -> Iterator[int]:
    """When the node answers from `begin` to `end`."""
    first = max(0, int(-(-begin // every) * every))
    for t in range(first, int(min(end, END)) + 1, every):
        if not any(a <= t < b for a, b in node.away) and not any(m <= t < m + DOWN for m in node.restarts):
            yield t


def _born(node: Node, start: float, t: float) -> float:
    """Since when the counters count: the start, or the exporter's last restart."""
    return max([start, *(moment + DOWN for moment in node.restarts if start < moment <= t)])


def _recorded(fleet: Fleet, name: str) -> Iterator[Series]:
    for job in fleet.jobs:
        rate = job.share * {
            "workload_gpu_allocated_seconds_total": 1.0,
            "workload_gpu_observed_seconds_total": float(job.utilization is not None),
            "workload_gpu_busy_seconds_total": job.utilization or 0.0,
            "workload_gpu_energy_joules_total": 0.1 * WATTS + 0.6 * WATTS * (job.utilization or 0.0),
        }.get(name, 0.0)
        for gpu in job.gpus:
            yield Series(_target(job.node, {**gpu.labels, **job.owner}), _counter(job, rate))


def _counter(job: Job, rate: float, every: int = SCRAPE, since: float = 0.0) -> Iterator[tuple[float, float]]:
    """As the exporter shows it: held at 0 at first, and at the final value at last."""
    for t in _scrapes(job.node, max(job.start, since), job.until + HOLD, every):
        born = _born(job.node, job.start, t)
        yield t, 0.0 if t < born + HOLD else rate * (min(t, job.until) - born)


def _of_job(family: contract.Family, job: Job) -> Iterator[tuple[float, float]]:
    since = END - RECENT
    if family.kind == "counter":
        rate = SIZES.get(family.name, 0.1) if not family.name.startswith("workload_gpu_active") else RATIO
        yield from _counter(job, rate, since=since)
        return
    value = SIZES.get(family.name, job.share)
    if family.name.endswith("_timestamp_seconds"):
        value = MIDNIGHT + job.start
    for t in _scrapes(job.node, max(job.start, since), job.until):
        yield t, value


def _histogram(fleet: Fleet) -> Iterator[Series]:
    """Half of the busy samples at 100 %, the rest so that the mean comes out; each second in one of two buckets."""
    for job in fleet.jobs:
        if job.utilization is None:
            continue
        for gpu in job.gpus:
            labels = _target(job.node, {**gpu.labels, **job.owner})
            for bound in (*contract.UTILIZATION_BUCKETS, float("inf")):
                share = job.share * (1.0 if bound >= 1 else 1 - job.utilization)
                le = "+Inf" if bound == float("inf") else str(bound)
                yield Series({**labels, "le": le}, _counter(job, share, SLOW))
            yield Series({**labels, "__part": "_sum"}, _counter(job, job.share * job.utilization, SLOW))
            yield Series({**labels, "__part": "_count"}, _counter(job, job.share, SLOW))


def _of_device(
    fleet: Fleet, family: contract.Family, node: Node, gpu: Gpu, rate: float | None
) -> Iterator[tuple[float, float]]:
    holders = [job for job in fleet.jobs if gpu in job.gpus]
    known = {"gpu_observed_seconds_total": 1.0, "gpu_busy_seconds_total": 0.5}
    growth = rate or known.get(family.name, SIZES.get(family.name, 0.01))
    for t in _scrapes(node, END - RECENT, END):
        busy = sum(job.share * (job.utilization or 0.0) for job in holders if job.start <= t <= job.until)
        if family.kind == "counter":
            yield t, growth * (t - _born(node, 0.0, t))
        elif family.name == "gpu_last_busy_timestamp_seconds":
            yield t, MIDNIGHT + (t - 2.0 if busy else float(END - RECENT))
        elif family.name.endswith("_timestamp_seconds"):
            yield t, MIDNIGHT + t - 600.0
        elif family.name == "gpu_utilization_ratio":
            yield t, busy
        elif family.name == "gpu_sm_active_ratio":
            yield t, 0.03 if gpu == HOLLOW else 0.6 * busy
        else:
            yield t, SIZES.get(family.name, RATIO)


def _of_node(family: contract.Family, node: Node) -> Iterator[tuple[float, float]]:
    whole = family.name in EVERYWHERE
    for t in _scrapes(node, 0.0 if whole else END - RECENT, END):
        if whole:
            yield t, float(node.gpus)
        elif family.kind == "counter":
            yield t, 1e-4 * (t - _born(node, 0.0, t))
        elif family.name.endswith("_timestamp_seconds"):
            yield t, MIDNIGHT + _born(node, 0.0, t)
        else:
            yield t, SIZES.get(family.name, 1.0)
