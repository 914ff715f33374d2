"""Why the GPUs of a whole job do nothing: what holds them, what its CPUs do, and whether it had worked before.

A notebook that waits for somebody, a server that nobody calls, a program that is done and a batch job that stands still
look alike, and nothing that is measured tells one from another once they have worked. A cause is left out only where
something that is known excludes it: what is not known leaves all that it could have excluded. (Data loading alone must
be seen to be named.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutycycle_alerter.figures import percent
from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import HostUsage, JobKind, WindowEvidence
from dutycycle_alerter.rules import sentences
from dutycycle_alerter.rules.before import Before, before
from dutycycle_alerter.rules.case import Case, occupied, utilizations
from dutycycle_alerter.rules.verdict import Reasons
from dutycycle_alerter.scale import format_duration

# A process that keeps at least half a core busy computes; less is a kernel or shell that waits for a person.
WORKING_CORES = 0.5
# What polls keeps one core of its process busy; a little more is what threads beside it do.
POLLING_CORES = 1.2


def why_idle(case: Case, window: WindowEvidence, span: str) -> Reasons:
    """Causes and sentences for a window in which no GPU of the job worked; `span` is that window for people."""
    evidence = [f"{sentences.all_gpus(case.job)} at {sentences.at_most(utilizations(window))} over {span}"]
    latest = lately(case, window)
    holds = [occupied(gpu, usage) for gpu, usage in zip(case.job.gpus, latest.gpus, strict=True)]
    earlier = before(case, window.length) if case.job.kind is JobKind.BATCH else None
    worked = _worked(case, earlier)
    if worked and earlier is not None:
        evidence.append(f"mean utilization {percent(earlier.utilization)} over {sentences.span_before(case, earlier)}")
    if True not in holds and None not in holds:
        since = format_duration(latest.length * case.time_scale)
        return (Cause.NO_PROCESS,), [*evidence, f"no process has held a GPU of the job for {since} or longer"]
    held = True in holds
    evidence.append(sentences.held(case.job, latest) if held else "it is not known whether a process holds the GPUs")
    if worked:
        evidence += sentences.without_process(case.job, latest)
    cores = window.host.cpu_cores
    # Where memory is held and no process is listed, their number is not known.
    cpus = _cpus(cores, sentences.total(latest.gpus, "processes") or None)
    evidence.append(
        "the CPU use of the job is not measured" if cores is None else f"the job kept {cores:.1f} CPU cores busy"
    )
    if case.job.kind is JobKind.BATCH:
        found, more = _at_a_stand(case, window, holds, worked, cpus)
    else:
        found, more = _left_alone(cpus), []
    if not held:
        # What computes beside GPUs that nothing holds does not see them.
        found = (Cause.NO_PROCESS, *(Cause.CPU_ONLY if cause is Cause.HOST_WORK else cause for cause in found))
    return found, [*evidence, *more]


def lately(case: Case, window: WindowEvidence) -> WindowEvidence:
    """The end of a window: processes are told as the most that held a GPU at any time in it, and may be gone."""
    length = case.settings.rules.idle.clear_window
    return window if length >= window.length else case.window(length)


@dataclass(frozen=True, slots=True)
class _Cpus:
    """What a job's processes may do with CPUs: some of them compute, all of them wait, some poll for others."""

    compute: bool
    wait: bool
    poll: bool


def _cpus(cores: float | None, processes: float | None) -> _Cpus:
    """By the cores that all of them together keep busy, and how many they are; None is not known. Between half a core
    and half a core for each, one may compute or each do next to nothing.
    """
    if cores is None:
        return _Cpus(compute=True, wait=True, poll=True)
    compute = cores >= WORKING_CORES
    if processes is None:
        return _Cpus(compute=compute, wait=True, poll=compute)
    return _Cpus(compute, wait=cores < WORKING_CORES * processes, poll=compute and cores <= POLLING_CORES * processes)


def _left_alone(cpus: _Cpus) -> tuple[Cause, ...]:
    """Of a notebook, a shell or a server: nobody uses it, or it computes elsewhere. What keeps a core busy for each of
    its processes may compute on it, or poll for somebody who does not come.
    """
    if not cpus.wait:
        return (Cause.HOST_WORK, Cause.IDLE_NOTEBOOK) if cpus.poll else (Cause.HOST_WORK,)
    return (Cause.IDLE_NOTEBOOK, Cause.HOST_WORK) if cpus.compute else (Cause.IDLE_NOTEBOOK,)


def _worked(case: Case, earlier: Before | None) -> bool | None:
    """Whether its GPUs worked before; None where that is not known: what was not watched may have been work."""
    idle = case.settings.rules.idle
    return None if earlier is None else earlier.worked(idle.below, idle.window)


def _at_a_stand(
    case: Case, window: WindowEvidence, holds: Sequence[bool | None], worked: bool | None, cpus: _Cpus
) -> Reasons:
    """Of a batch job of which processes hold its GPUs, or may."""
    pressure, evidence = window.host.io_pressure, []
    reads = pressure is not None and pressure >= case.settings.rules.stalled.pressure
    if reads:
        evidence += sentences.host(HostUsage(io_pressure=pressure))
    if not cpus.wait:
        others = [Cause.DATA_LOADING] if reads else []
        if cpus.poll and worked is not False:
            others.append(Cause.HANG)
        if cpus.poll and not worked and not reads:
            # A server that polls for requests looks the same.
            others.append(Cause.IDLE_NOTEBOOK)
        return (Cause.HOST_WORK, *others), evidence
    computes = (Cause.HOST_WORK,) if cpus.compute else ()
    if reads:
        return (Cause.DATA_LOADING, Cause.HANG, *computes), evidence
    if worked is not False:
        return (Cause.HANG, Cause.IDLE_NOTEBOOK, *computes), evidence
    evidence.append("its GPUs have hardly worked, if at all, since it was first seen")
    if len(holds) > 1 and None in holds:
        return (Cause.HANG, Cause.IDLE_NOTEBOOK, *computes), evidence
    ranks = list(holds).count(True)
    if ranks > 1:
        evidence.append(f"a process holds each of {ranks} GPUs: ranks may wait")
        return (Cause.HANG, Cause.IDLE_NOTEBOOK, *computes), evidence
    return (Cause.IDLE_NOTEBOOK, *computes), evidence
