"""Why the GPUs of a whole job do nothing: what holds them, what its CPUs do, and whether it had worked before.

A notebook that waits for somebody and a batch job that stands still look alike now; what they did before does not.
"""

from __future__ import annotations

from dutycycle_alerter.figures import percent
from dutycycle_alerter.incidents.model import Cause
from dutycycle_alerter.model import HostUsage, JobKind, WindowEvidence
from dutycycle_alerter.rules import sentences
from dutycycle_alerter.rules.before import Before, before
from dutycycle_alerter.rules.case import Case, utilizations
from dutycycle_alerter.rules.verdict import Reasons

# A process that keeps at least half a core busy computes; less is a kernel or shell that waits for a person.
WORKING_CORES = 0.5
# What polls keeps one core of its process busy; a little more is what threads beside it do.
POLLING_CORES = 1.2
# People think between two cells for longer than a run of training rests between its steps, checkpoints and its start.
PAUSES_OF_PEOPLE = 0.2


def why_idle(case: Case, window: WindowEvidence, span: str) -> Reasons:
    """Causes and sentences for a window in which no GPU of the job worked; `span` is that window for people."""
    evidence = [f"{sentences.all_gpus(case.job)} at {sentences.at_most(utilizations(window))} over {span}"]
    processes = sentences.total(window.gpus, "processes")
    earlier = before(case, window.length) if case.job.kind is JobKind.BATCH else None
    worked = _worked(case, earlier)
    if worked and earlier is not None:
        evidence.append(f"before that its GPUs worked, for {percent(earlier.utilization)} of the time")
    if processes == 0:
        return (Cause.NO_PROCESS,), [*evidence, "no process held a GPU of the job in that time"]
    stands_still = case.job.kind is JobKind.BATCH and worked is not False
    if processes is None:
        evidence.append("it is not known whether a process holds the GPUs")
        return (Cause.NO_PROCESS, Cause.HANG if stands_still else Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY), evidence
    evidence.append(sentences.held(window, processes))
    if worked:
        evidence += sentences.without_process(case.job, window)
    cores = window.host.cpu_cores
    if cores is None:
        evidence.append("the CPU use of the job is not measured")
        return ((Cause.HANG,) if stands_still else ()) + (Cause.IDLE_NOTEBOOK, Cause.CPU_ONLY), evidence
    evidence.append(f"the job kept {cores:.1f} CPU cores busy")
    if case.job.kind is not JobKind.BATCH:
        return ((Cause.CPU_ONLY,) if cores >= WORKING_CORES else (Cause.IDLE_NOTEBOOK,)), evidence
    return _at_a_stand(case, window, earlier, evidence)


def _worked(case: Case, earlier: Before | None) -> bool | None:
    """Whether its GPUs worked before; None where that is not known: what was not watched may have been work."""
    if earlier is None:
        return None
    if earlier.utilization > case.settings.rules.idle.below:
        return True
    return False if earlier.whole else None


def _at_a_stand(case: Case, window: WindowEvidence, earlier: Before | None, evidence: list[str]) -> Reasons:
    """Of a batch job whose processes hold its GPUs, by what these and its CPUs do; both are known."""
    worked, pressure = _worked(case, earlier), window.host.io_pressure
    reads = pressure is not None and pressure >= case.settings.rules.stalled.pressure
    if reads:
        evidence += sentences.host(HostUsage(io_pressure=pressure))
    cores, processes = window.host.cpu_cores or 0.0, sentences.total(window.gpus, "processes") or 0.0
    if cores >= WORKING_CORES:
        # What waits for another rank may poll for it, and then keeps a core for each process.
        polls = worked and cores <= POLLING_CORES * processes
        others = ((Cause.DATA_LOADING,) if reads else ()) + ((Cause.HANG,) if polls else ())
        return (Cause.CPU_ONLY, *others), evidence
    if reads:
        return (Cause.DATA_LOADING, Cause.HANG), evidence
    return _waits(window, earlier, worked, evidence)


def _waits(window: WindowEvidence, earlier: Before | None, worked: bool | None, evidence: list[str]) -> Reasons:
    """A batch job whose processes hold its GPUs and use neither these nor CPUs, nor wait for storage."""
    if worked and earlier is not None and earlier.pauses is not None and earlier.pauses < PAUSES_OF_PEOPLE:
        return (Cause.HANG,), [*evidence, "it worked without long pauses until it stopped"]
    if worked is not False:
        return (Cause.HANG, Cause.IDLE_NOTEBOOK), evidence
    evidence.append("its GPUs have not worked since it was first seen")
    ranks = sum(usage.processes is not None and usage.processes >= 1 for usage in window.gpus)
    if ranks > 1:
        return (Cause.HANG, Cause.IDLE_NOTEBOOK), [*evidence, f"a process holds each of {ranks} GPUs: ranks may wait"]
    return (Cause.IDLE_NOTEBOOK,), evidence
