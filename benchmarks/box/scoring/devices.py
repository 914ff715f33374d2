"""Incidents of GPUs and nodes beside the faults that were played, each judged once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.box.model import Fault, Gpu, Job, Scenario, SeenIncident
from benchmarks.box.rules import HOUR
from benchmarks.box.scoring import record, timing
from benchmarks.box.scoring.jobs import summed_up
from benchmarks.box.scoring.matching import Extent, explains, find, outcome
from benchmarks.box.scoring.story import story

KINDS = ("gpu_fault", "leaked_memory", "throttled")
_RULE = {"xid": "gpu_fault", "lost": "gpu_fault", "thermal": "throttled", "leaked": "leaked_memory"}
THERMAL = 0.05
LEAK = 500 * 2**20
NEAR = 1.25
"""Within this factor of a bound either side of it is as good."""
QUIET = 6 * HOUR
"""How long an XID speaks against its GPU."""


def judge_devices(
    scenario: Scenario, incidents: Sequence[SeenIncident]
) -> tuple[list[record.Condition], list[record.Incident]]:
    """Records of all faults, and of all incidents of GPUs and nodes."""
    faults = [(fault, _extent(fault, scenario)) for fault in scenario.faults]
    conditions = [_condition(fault, extent, incidents, scenario) for fault, extent in faults]
    judged = []
    for incident in incidents:
        told = story(incident, scenario.length)
        possible = [(fault, extent) for fault, extent in faults if extent is not None and _may_tell(incident, fault)]
        about = explains(told, [extent for _, extent in possible])
        name = next((fault_name(fault) for fault, extent in possible if extent in about), "no fault")
        worth = outcome(told, about) if about else "false"
        if not about and incident.severity == "info":
            worth = "unjudged"
        judged.append(summed_up(record.Case(scenario.seed, 0, name), incident, told, about, worth))
    return conditions, judged


def fault_name(fault: Fault) -> str:
    """As a mechanism's name."""
    return f"fault: xid {fault.value:.0f}" if fault.kind == "xid" else f"fault: {fault.kind}"


def _condition(
    fault: Fault, extent: Extent | None, incidents: Sequence[SeenIncident], scenario: Scenario
) -> record.Condition:
    case, rule = record.Case(scenario.seed, 0, fault_name(fault)), _RULE[fault.kind]
    until = scenario.length if fault.until is None else min(fault.until, scenario.length)
    if extent is None:
        reason = f"{fault_name(fault).removeprefix('fault: ')} is below what the rule asks for"
        return record.Condition(case, rule, "silent", reason, None, fault.at, until, False, False)
    stories = [story(incident, scenario.length) for incident in incidents if _may_tell(incident, fault)]
    found = find(extent, stories)
    cut = extent.earliest + timing.SETTLING > scenario.length
    return record.Condition(
        case=case,
        rule=rule,
        expected="cut" if extent.must and cut else "must" if extent.must else "may",
        reason="",
        step=None,
        since=fault.at,
        until=until,
        found=found.found,
        named=found.named,
        beside=found.beside,
        delay=None if found.at is None else found.at - extent.earliest,
        first_word=None if found.first_word is None else found.first_word - extent.earliest,
    )


def _may_tell(incident: SeenIncident, fault: Fault) -> bool:
    """Whether the incident is of the fault's class, and of its GPU, or of the node that misses it."""
    if incident.kind != _RULE[fault.kind]:
        return False
    return gpu_of(incident.gpu) == fault.gpu or (fault.kind == "lost" and incident.gpu == fault.gpu[0])


def gpu_of(name: str) -> Gpu | None:
    """`NODE/INDEX` as a GPU; None for a node by itself."""
    node, _, index = name.rpartition("/")
    return (node, int(index)) if node and index.isdigit() else None


def _extent(fault: Fault, scenario: Scenario) -> Extent | None:
    """What is expected of a fault; None where it is nothing that anybody should be told."""
    rule = _RULE[fault.kind]
    until = scenario.length if fault.until is None else fault.until
    since, need = fault.at, timing.window(rule, "")
    if fault.kind == "xid":
        if round(fault.value) not in timing.CRITICAL_XIDS:
            return None
        must, until = True, until + QUIET
    elif fault.kind == "lost":
        must = True
    elif fault.kind == "thermal":
        if fault.value * NEAR < THERMAL:
            return None
        must = fault.value >= THERMAL * NEAR and until - since >= 2 * need
    else:
        if fault.value * NEAR < LEAK:
            return None
        free = longest_free(fault.gpu, fault.at, until, scenario.jobs)
        must = fault.value >= LEAK * NEAR and free is not None and free[1] - free[0] >= 2 * need
        since = free[0] if must and free is not None else since
    return Extent(
        since=fault.at,
        until=until + timing.lingering(rule, ""),
        earliest=since + need,
        rules=(rule,),
        causes=frozenset(),
        must=must,
    )


def longest_free(gpu: Gpu, since: float, until: float, jobs: Iterable[Job]) -> tuple[float, float] | None:
    """The longest time in [since, until] in which no job holds the GPU."""
    held = sorted((job.start, job.end) for job in jobs if gpu in job.gpus and job.start < until and job.end > since)
    ends, starts = [since], []
    for start, end in held:
        starts.append(max(start, since))
        ends.append(max(ends[-1], end))
    gaps = [(end, start) for end, start in zip(ends, [*starts, until], strict=True) if start > end]
    return max(gaps, key=lambda gap: gap[1] - gap[0], default=None)
