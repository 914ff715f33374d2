"""Incidents of GPUs and nodes beside the faults that were played, each judged once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.box.model import Fault, Gpu, Job, Scenario, SeenIncident
from benchmarks.box.rules import HOUR
from benchmarks.box.scoring import record, timing
from benchmarks.box.scoring.jobs import summed_up
from benchmarks.box.scoring.matching import Extent, explains, find, outcome
from benchmarks.box.scoring.standing import standings
from benchmarks.box.scoring.story import story

KINDS = ("gpu_fault", "leaked_memory", "throttled")
_RULE = {"xid": "gpu_fault", "lost": "gpu_fault", "thermal": "throttled", "leaked": "leaked_memory"}
THERMAL = 0.05
LEAK = 500 * 2**20
NEAR = 1.25
"""Within this factor of a bound either side of it is as good."""
QUIET = 6 * HOUR
"""How long an XID speaks against its GPU."""


def judge_devices(scenario: Scenario, incidents: Sequence[SeenIncident]) -> record.Score:
    """What was told of all faults, and all incidents of GPUs and nodes."""
    faults = [(fault, _extent(fault, scenario)) for fault in scenario.faults]
    judged, standing = [], []
    for incident in incidents:
        told = story(incident, scenario.length)
        possible = [(fault, extent) for fault, extent in faults if extent is not None and _may_tell(incident, fault)]
        extents = [extent for _, extent in possible]
        about = explains(told, extents)
        case = record.Case(
            scenario.seed, 0, next((fault_name(fault) for fault, extent in possible if extent in about), "no fault")
        )
        worthless = "unjudged" if incident.severity == "info" else "false"
        judged.append(summed_up(case, incident, told, about, outcome(told, about) if about else worthless))
        standing += standings(case, incident, told, extents, lambda _at, _rule, worth=worthless: worth)
    return record.Score(
        conditions=tuple(_condition(fault, extent, incidents, scenario) for fault, extent in faults),
        incidents=tuple(judged),
        standings=tuple(standing),
    )


def fault_name(fault: Fault) -> str:
    """As a mechanism's name."""
    return f"fault: xid {fault.value:.0f}" if fault.kind == "xid" else f"fault: {fault.kind}"


def _condition(
    fault: Fault, extent: Extent | None, incidents: Sequence[SeenIncident], scenario: Scenario
) -> record.Condition:
    case, rule = record.Case(scenario.seed, 0, fault_name(fault)), _RULE[fault.kind]
    until = scenario.length if fault.until is None else min(fault.until, scenario.length)
    if extent is None:
        reason = f"{fault_name(fault).removeprefix('fault: ')} is nothing that the rule is for"
        return record.Condition(case, rule, "no rule", reason, None, fault.at, until, False, False)
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
    since, need, open_until = fault.at, timing.window(rule, ""), until
    if fault.kind == "xid":
        if round(fault.value) not in timing.CRITICAL_XIDS:
            return None
        # It happens in an instant, and speaks against the GPU for long after that.
        must, until, open_until = True, fault.at, until + QUIET
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
        ended=until,
        opens_until=until + timing.opening(rule, ""),
        until=open_until + timing.lingering(rule, ""),
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
