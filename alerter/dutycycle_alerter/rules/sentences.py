"""The pieces that a finding's evidence is said in: figures with their units, and lists of GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from dutycycle_alerter.figures import gibibytes, percent
from dutycycle_alerter.model import HostUsage, Job, Usage, WindowEvidence
from dutycycle_alerter.rules.before import Before
from dutycycle_alerter.rules.case import Case, occupied
from dutycycle_alerter.rules.stalled import highest_pressure
from dutycycle_alerter.rules.units import power, power_level
from dutycycle_alerter.rules.verdict import Verdict
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings.job_rules import Hung


def all_spin(window: WindowEvidence, verdict: Verdict, settings: Hung, span: str) -> list[str]:
    """What `hung` saw: power beside its range, and what the counters say."""
    figures = verdict.figures
    busy, gpus = int(figures["spinning_gpus"]), int(figures["gpus"])
    subject = "the GPU spins" if gpus == 1 else f"{busy} of {gpus} GPUs {'spins' if busy == 1 else 'spin'}"
    found = [f"{subject} at {percent(settings.spinning_at_least)} utilization or more over {span}"]
    if busy < gpus:
        found.append(f"the others are at {percent(settings.idle_below)} or less")
    if watts := _spinning_watts(window, settings):
        found.append(watts)
    for name, what in (
        ("sm_active", "multiprocessors"),
        ("tensor_active", "tensor cores"),
        ("dram_active", "memory bandwidth"),
    ):
        if name in figures:
            found.append(f"{what} at most {percent(figures[name])} active")
    if "link_bytes_per_second" in figures:
        found.append(f"the links of a GPU carried {rate(figures['link_bytes_per_second'])}")
    if not {"tensor_active", "dram_active", "link_bytes_per_second"} & set(figures):
        found.append("neither tensor cores, memory nor links are measured: a small model may look like this")
    return found


def _spinning_watts(window: WindowEvidence, settings: Hung) -> str:
    """The power of the spinning GPU that draws most, in its range."""
    spinning = [
        (level, usage)
        for usage in window.gpus
        if (usage.utilization or 0.0) >= settings.spinning_at_least and (level := power_level(usage)) is not None
    ]
    if not spinning:
        return ""
    _, most = max(spinning, key=lambda pair: pair[0])
    return (
        f"drawing at most {power(most) or 0.0:.0f} W, where idle is {most.idle_power:.0f} W "
        f"and the limit {most.power_limit:.0f} W"
    )


def waiting(window: WindowEvidence, settings: Hung) -> list[str]:
    """Where the busiest GPUs only spin: they wait for the slowest."""
    busy = [u for u in window.gpus if (u.utilization or 0.0) >= settings.spinning_at_least]
    levels = [power_level(usage) for usage in busy]
    spin = sum(level is not None and level <= settings.power_share for level in levels)
    if not spin:
        return []
    which = "one GPU spins" if spin == 1 else f"{spin} GPUs spin"
    return [f"{which} near 100 % at hardly more than idle power: waiting for the slowest"]


def host(usage: HostUsage) -> list[str]:
    """CPU and pressure, as far as they are known."""
    found = []
    if usage.cpu_of_limit is not None:
        found.append(f"CPU at {percent(usage.cpu_of_limit)} of the job's limit")
    elif usage.cpu_cores is not None:
        found.append(f"{usage.cpu_cores:.1f} CPU cores busy")
    if (pressure := highest_pressure(usage)) is not None and pressure >= 0.01:
        kind = "I/O" if pressure == usage.io_pressure else "a CPU"
        found.append(f"some task waited for {kind} {percent(pressure)} of the time")
    return found


def throttled(shares: Sequence[float], gpus: int) -> str:
    """That clocks were held down, on how many of the job's GPUs and for how long."""
    which = "" if gpus == 1 else f" of {len(shares)} of {gpus} GPUs"
    return f"heat or the power brake held the clocks{which} down for up to {percent(max(shares))} of the time"


def held(job: Job, window: WindowEvidence) -> str:
    """How many processes hold the GPUs, and how much memory, of the GPUs that something is known to hold."""
    usages = [usage for gpu, usage in zip(job.gpus, window.gpus, strict=True) if occupied(gpu, usage)]
    which = "the GPUs" if len(usages) == len(window.gpus) else f"{len(usages)} of {len(window.gpus)} GPUs"
    memory, processes = total(usages, "memory_used"), total(usages, "processes")
    holding = "" if memory is None else f"{gibibytes(memory)} of GPU memory"
    if not processes:
        return f"{holding or 'memory'} is in use on {which}, by processes that are not listed"
    plural = "process holds" if processes == 1 else "processes hold"
    return f"{processes:.0f} {plural} {which}{holding and f' and {holding}'}"


def without_process(job: Job, window: WindowEvidence) -> list[str]:
    """Which GPUs no process holds while one holds others: a rank may have ended there."""
    known = [(gpu.label, occupied(gpu, usage)) for gpu, usage in zip(job.gpus, window.gpus, strict=True)]
    empty = [label for label, holds in known if holds is False]
    if not empty or not any(holds for _, holds in known):
        return []
    return [f"no process holds {_some(empty)}: a rank that ended there would keep the others waiting"]


def span_before(case: Case, earlier: Before) -> str:
    """`the 55 min before that`, as people count time."""
    return f"the {format_duration(earlier.seconds * case.time_scale)} before that"


def total(usages: Sequence[Usage], name: str) -> float | None:
    """Sum of a gauge over GPUs; None where any GPU does not know it."""
    values = [getattr(usage, name) for usage in usages]
    return None if any(value is None for value in values) else sum(values)


def share_of_long_gaps(window: WindowEvidence) -> float:
    """Time in idle gaps of over 10 min as a share of measured time."""
    observed = sum(usage.observed for usage in window.gpus)
    return sum(usage.gap_ge600 or 0.0 for usage in window.gpus) / observed if observed else 0.0


def fed(mean: float, waiting_share: float) -> str:
    """The estimate utilization ~ 1 - stall share, carried over: what the GPUs do while they are fed."""
    return percent(min(1.0, mean / (1 - waiting_share))) if waiting_share < 1 else "nothing"


def rate(bytes_per_second: float) -> str:
    """`1.2 GB/s`, `340 MB/s`, `under 1 MB/s`."""
    if bytes_per_second >= 1e9:
        return f"{bytes_per_second / 1e9:.1f} GB/s"
    return f"{bytes_per_second / 1e6:.0f} MB/s" if bytes_per_second >= 1e6 else "under 1 MB/s"


def all_gpus(job: Job) -> str:
    """`its GPU`, `all 8 GPUs`."""
    return "its GPU" if len(job.gpus) == 1 else f"all {len(job.gpus)} GPUs"


def at_most(utilizations: Sequence[float]) -> str:
    """The highest of some utilizations: `0 % utilization`, `3.2 % utilization or less` of several."""
    most = max(utilizations, default=0.0)
    said = f"{percent(most)} utilization"
    return f"{said} or less" if len(utilizations) > 1 and most >= 0.001 else said  # what is less is said so already


def each_gpu(job: Job, utilizations: Sequence[float]) -> str:
    """Every GPU with its utilization, where they are not too many to be read."""
    if len(utilizations) > 16:
        return f"{len(utilizations)} GPUs on {len(job.nodes)} nodes"
    return ", ".join(f"{gpu.label} {percent(value)}" for gpu, value in zip(job.gpus, utilizations, strict=True))


def labels(verdict: Verdict) -> str:
    """The GPUs concerned by name, eight at most."""
    return _some([gpu.label for gpu in verdict.gpus])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
