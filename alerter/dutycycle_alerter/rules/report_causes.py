"""Causes and sentences of the rules that are judged at a job's end."""

from __future__ import annotations

from collections.abc import Callable

from dutycycle_alerter.figures import amount, gibibytes, percent
from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import WindowEvidence
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.causes import MEMORY_BOUND_DRAM, MEMORY_BOUND_TENSOR
from dutycycle_alerter.rules.units import activity_while_busy
from dutycycle_alerter.rules.verdict import Reasons, Verdict


def _memory_underused(_case: Case, verdict: Verdict, _window: WindowEvidence, span: str) -> Reasons:
    peak, mean = verdict.figures["memory_peak"], verdict.figures["utilization"]
    said = f"never more than {percent(peak)} of GPU memory in use; a mean utilization of {percent(mean)} over {span}"
    return (Cause.SMALL_WORK, Cause.OVER_REQUEST), [said]


def _memory_pressure(_case: Case, verdict: Verdict, window: WindowEvidence, span: str) -> Reasons:
    peak, mean = verdict.figures["memory_peak"], verdict.figures["utilization"]
    full = f"at most {percent(peak)} of GPU memory in use over {span}, at a mean utilization of {percent(mean)}"
    evidence = [full, "a framework that takes all memory at its start looks the same"]
    dram, tensor = activity_while_busy(window.gpus, "dram"), activity_while_busy(window.gpus, "tensor")
    if dram is None or tensor is None:
        return (Cause.SMALL_WORK, Cause.MEMORY_BOUND), evidence
    evidence.append(f"memory bandwidth at {percent(dram)} and tensor cores at {percent(tensor)} of the busy time")
    if dram >= MEMORY_BOUND_DRAM and tensor <= MEMORY_BOUND_TENSOR:
        return (Cause.MEMORY_BOUND,), evidence
    return (Cause.SMALL_WORK,), evidence


def _overallocated(case: Case, verdict: Verdict, _window: WindowEvidence, span: str) -> Reasons:
    figures, evidence = verdict.figures, []
    if "cpu_cores" in figures:
        evidence.append(
            f"{figures['cpu_cores_used']:,.1f} of {amount(figures['cpu_cores'])} CPU cores in use on average"
        )
    if "host_memory_bytes" in figures:
        peak, requested = figures["host_memory_peak_bytes"], figures["host_memory_bytes"]
        evidence.append(f"at most {gibibytes(peak)} of {gibibytes(requested)} of host memory in use")
    if "time_limit_seconds" in figures:
        used = figures["run_seconds"] / figures["time_limit_seconds"]
        evidence.append(f"it ran for {percent(used)} of its time limit")
    if "gpu_memory_peak_bytes" in figures:
        models = ", ".join(dict.fromkeys(gpu.model for gpu in case.job.gpus))
        evidence.append(
            f"{percent(figures['utilization'])} utilization over {span}, and never more than "
            f"{gibibytes(figures['gpu_memory_peak_bytes'])} of memory in use on {models}"
        )
    return (Cause.OVER_REQUEST,), evidence


BY_RULE: dict[str, Callable[[Case, Verdict, WindowEvidence, str], Reasons]] = {
    "memory_underused": _memory_underused,
    "memory_pressure": _memory_pressure,
    "overallocated": _overallocated,
}
"""As `causes.BY_RULE`."""
