"""The Job board's panels on what the GPUs' units, memory and links do, and on what holds them back."""

from __future__ import annotations

from dutycycle_dashboards.boards import job_queries
from dutycycle_dashboards.boards.job_queries import GPU, NO_CGROUP, NO_GPM, RATE
from dutycycle_dashboards.building.graphs import timeseries
from dutycycle_dashboards.building.panel import Panel, Target
from dutycycle_dashboards.building.promql import ENERGY_STEP, THROTTLE_STEP
from dutycycle_dashboards.building.units import BYTES, BYTES_PER_SECOND, PERCENT, WATTS

_GPU = "{{node}}:{{gpu}} {{mig}}"
_LIMIT = "limit (highest)"


def units() -> tuple[Panel, ...]:
    """Units, memory, power, links."""
    return _active(), _memory(), _power(), _links()


def brakes() -> tuple[Panel, ...]:
    """CPU, pressure, throttling, processes."""
    return _cpu(), _pressure(), _throttle(), _processes()


def _active() -> Panel:
    return timeseries(
        "SM, tensor and DRAM active",
        "Share of measured time in which units worked, mean of its GPUs that have GPM. SM active far under "
        "utilization: it only looks busy. Tensor near 0 in training: no mixed precision, or shapes that tensor cores "
        "cannot take. DRAM over 60 % with low tensor: bound by memory; fuse kernels, use smaller types.",
        Target(job_queries.utilization(RATE), "utilization", may_be_empty=job_queries.MEASURED),
        *(
            Target(job_queries.active(RATE, unit), name, may_be_empty=NO_GPM)
            for unit, name in (("sm", "SM"), ("tensor", "tensor"), ("dram", "DRAM"))
        ),
        unit=PERCENT,
        soft_most=100,
        colors={"utilization": "text", "SM": "green", "tensor": "purple", "DRAM": "blue"},
        no_data="No GPM on these GPUs: Hopper and later",
    )


def _memory() -> Panel:
    used = job_queries.of_gpus(job_queries.on_nodes("gpu_memory_used_bytes"))
    room = job_queries.of_gpus(job_queries.on_nodes("gpu_memory_total_bytes"))
    return timeseries(
        "Memory used",
        "Memory in use on each GPU (on a shared one all of it), and the least that a GPU of the job has. Much room "
        "with low utilization: a larger batch fits. Within 5 % of the total: the next allocation may fail; see "
        "gradient accumulation and activation checkpointing. Different among GPUs: uneven shards.",
        Target(f"max by (node, gpu, mig) ({used})", _GPU, may_be_empty="the job held no GPU"),
        Target(f"min({room})", "total (least)", may_be_empty="the job held no GPU"),
        unit=BYTES,
        colors={"total (least)": "red"},
    )


def _power() -> Panel:
    limit = job_queries.of_gpus(job_queries.on_nodes("gpu_power_limit_watts"))
    power = job_queries.total("workload_gpu_energy_joules_total", RATE, GPU)
    return timeseries(
        "Power",
        "Its share of each GPU's power, from the energy counter, and the highest limit. Power is the most honest sign "
        "of work: 100 % utilization near idle power (about a tenth of the limit) is a hang or a spinning kernel. Near "
        "the limit: it works as hard as it may.",
        Target(power, _GPU, may_be_empty="the device counts no energy"),
        Target(f"max({limit})", _LIMIT, may_be_empty="a MIG instance has no limit of its own"),
        unit=WATTS,
        colors={_LIMIT: "red"},
        interval=ENERGY_STEP,
        no_data="The device counts no energy",
    )


def _links() -> Panel:
    names = (
        ("gpu_pcie_bytes_total", "rx", "PCIe in", "PCIe is counted with GPM only: Hopper and later"),
        ("gpu_pcie_bytes_total", "tx", "PCIe out", "PCIe is counted with GPM only: Hopper and later"),
        ("gpu_nvlink_bytes_total", "rx", "NVLink in", "no NVLink, or a MIG instance"),
        ("gpu_nvlink_bytes_total", "tx", "NVLink out", "no NVLink, or a MIG instance"),
    )
    return timeseries(
        "PCIe and NVLink",
        "Traffic of a GPU, mean over its GPUs: in comes to the GPU. PCIe in near 25 GB/s (Gen4) or 50 (Gen5) is the "
        "limit of feeding it from the host: pinned memory, fewer copies, data kept on the GPU. NVLink follows "
        "communication among ranks: none in a job of several GPUs may mean that they talk over PCIe.",
        *(Target(_traffic(metric, direction), name, may_be_empty=reason) for metric, direction, name, reason in names),
        unit=BYTES_PER_SECOND,
        colors={"PCIe in": "orange", "PCIe out": "yellow", "NVLink in": "blue", "NVLink out": "light-blue"},
        no_data="Not counted: PCIe needs GPM (Hopper and later), and there is no NVLink",
    )


def _traffic(metric: str, direction: str) -> str:
    counter = job_queries.on_nodes(metric, f'direction="{direction}"')
    return f"avg({job_queries.of_gpus(f'rate({counter}{RATE})')})"


def _cpu() -> Panel:
    limits = job_queries.of_cgroups("workload_cpu_limit_cores")
    rate = f"rate({job_queries.of_cgroups('workload_cpu_seconds_total')}{RATE})"
    # One of several jobs may have no limit: then its time is in neither.
    used = f"sum by (node) ({rate} and on (node, workload) {limits})"
    limit = f"sum by (node) ({limits})"
    return timeseries(
        "CPU, of its limit",
        "CPU time of the job on each node over what its cgroup allows. Over 90 % with GPUs that wait: the host is too "
        "slow; ask for more cores, move preprocessing off the step, cache decoded data. One core's worth only: a "
        "single Python process feeds the GPUs; use DataLoader workers.",
        Target(f"100 * {used} / ({limit} > 0)", "{{node}}", may_be_empty=NO_CGROUP),
        unit=PERCENT,
        soft_most=100,
        no_data="The node's cgroups do not report CPU time and limit",
    )


def _pressure() -> Panel:
    stalled = f"rate({job_queries.of_cgroups('workload_pressure_seconds_total')}{RATE})"
    return timeseries(
        "Pressure",
        "Share of time in which some task of the job waited for CPU, disk or network file systems (io), or memory (the "
        "kernel's PSI), on the node where it is worst. From 20 % on it slows the GPUs: io, pack small files, cache or "
        "stage data locally; cpu, ask for more cores; memory, fewer workers or more host memory.",
        Target(f"100 * max by (resource) ({stalled})", "{{resource}}", may_be_empty=NO_CGROUP),
        unit=PERCENT,
        soft_most=100,
        colors={"cpu": "orange", "io": "blue", "memory": "purple"},
        no_data="No PSI: cgroup v1, or a kernel without it",
    )


def _throttle() -> Panel:
    held_down = job_queries.total("workload_gpu_throttle_seconds_total", RATE, ("reason",))
    allocated = job_queries.total("workload_gpu_allocated_seconds_total", RATE)
    return timeseries(
        "Throttling by reason",
        "Share of allocated time in which clocks were held down; reasons overlap. power_cap is usual for heavy work. "
        "thermal, hw_thermal, sw_thermal and power_brake are faults of cooling or power: tell the operators.",
        Target(
            f"clamp_max(100 * {held_down} / on () group_left () ({allocated} > 0), 100)",
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


def _processes() -> Panel:
    return timeseries(
        "Processes",
        "The job's processes on each GPU. 0 while it holds the GPU: nothing was started there, or it ended. Several on "
        "one GPU share it; for training it is usually one.",
        Target(
            f"sum by (node, gpu, mig) ({job_queries.owned('workload_gpu_processes')})",
            _GPU,
            may_be_empty="it is not known whose processes there are",
        ),
        no_data="Not known whose processes there are",
    )
