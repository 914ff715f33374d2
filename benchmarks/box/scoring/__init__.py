"""What a run of a fleet in a box is worth: what was told beside what was true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.box.model import Job, Observed, Scenario, SeenIncident, Truth
from benchmarks.box.scoring import record, timing
from benchmarks.box.scoring.aims import aims
from benchmarks.box.scoring.devices import KINDS, judge_devices
from benchmarks.box.scoring.jobs import case_of, judge_job, summed_up
from benchmarks.box.scoring.mails import Owned, false_mails, owner_mails
from benchmarks.box.scoring.record import Score
from benchmarks.box.scoring.rows import rows
from benchmarks.box.scoring.standing import standings
from benchmarks.box.scoring.story import story
from benchmarks.box.scoring.table import Table, show
from benchmarks.box.scoring.tables import tables
from benchmarks.box.scoring.waits import lost_share, use_of

__all__ = ["Score", "Table", "aims", "rows", "score", "show", "tables"]


def score(scenario: Scenario, truths: Mapping[int, Truth], observed: Observed, processes: int = 0) -> Score:
    """Judge one run. `truths` are by the jobs' numbers, of every job of the scenario that began; so many of its first
    nodes had an exporter's process of their own.
    """
    seed, end = scenario.seed, scenario.length
    begun = [job for job in scenario.jobs if job.start < end]
    cases = {job.number: case_of(job, seed, scenario.nodes[:processes]) for job in begun}
    by_workload = {job.workload: job for job in begun}
    seen: defaultdict[str, list[SeenIncident]] = defaultdict(list)
    devices = []
    for incident in observed.incidents:
        if incident.kind in KINDS:
            devices.append(incident)
        else:
            seen[incident.workload].append(incident)
    told = judge_devices(scenario, devices)
    for job in begun:
        of_job = seen[job.workload]
        told += judge_job(cases[job.number], job, truths[job.number], of_job, scenario.faults, end=end)
    for workload, of_none in seen.items():
        if workload not in by_workload:
            told += _strays(of_none, seed, end)
    healthy = {job.workload: job for job in begun if not truths[job.number].conditions}
    return told + Score(
        runs=(
            record.Run(
                seed=seed,
                jobs=len(begun),
                gpu_hours=sum(_gpu_hours(job, end) for job in begun),
                passes=observed.passes,
                failures=observed.failures,
                late=observed.late,
                notes=observed.notes,
            ),
        ),
        mails=tuple(false_mails(observed.messages, by_workload, healthy, seen, cases, seed=seed)),
        accounts=tuple(_account(cases[job.number], job, truths[job.number], observed) for job in begun),
        healthy=tuple(_healthy(healthy.values(), seed, end)),
        uses=tuple(use_of(cases[job.number], job, truths[job.number], seen[job.workload], end) for job in begun),
        owner_mails=tuple(owner_mails(observed.messages, _owned(begun, truths), seen, cases)),
    )


def _owned(jobs: Iterable[Job], truths: Mapping[int, Truth]) -> dict[str, Owned]:
    """By workload: whether something must be told of the job, may be, or nothing is wrong with it; and what it lost."""
    found = {}
    for job in jobs:
        truth = truths[job.number]
        must = any(condition.must for condition in truth.conditions)
        worth = "must" if must else "may" if truth.conditions else "healthy"
        found[job.workload] = Owned(job, worth, lost_share(job, truth))
    return found


def _strays(incidents: Sequence[SeenIncident], seed: int, end: float) -> Score:
    """Incidents of a job that nobody played."""
    case = record.Case(seed, 0, "no such job")
    stories = [(incident, story(incident, end)) for incident in incidents]
    return Score(
        incidents=tuple(summed_up(case, incident, told, (), "false") for incident, told in stories),
        standings=tuple(
            one for incident, told in stories for one in standings(case, incident, told, (), lambda _at, _rule: "false")
        ),
    )


def _account(case: record.Case, job: Job, truth: Truth, observed: Observed) -> record.Account:
    seen = observed.ledger.get(job.workload)
    return record.Account(
        case=case,
        allocated=len(job.gpus) * (job.end - job.start),
        busy=truth.busy,
        seen_allocated=None if seen is None else seen.allocated,
        seen_observed=None if seen is None else seen.observed,
        seen_busy=None if seen is None else seen.busy,
    )


def _healthy(jobs: Iterable[Job], seed: int, end: float) -> list[record.Healthy]:
    by_mechanism: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_mechanism[job.mechanism].append(job)
    return [
        record.Healthy(
            case=record.Case(seed, 0, name),
            jobs=len(of_it),
            gpu_hours=sum(_gpu_hours(job, end) for job in of_it),
            watched=sum(_gpu_hours(job, end, timing.first_word(job.partition)) for job in of_it),
        )
        for name, of_it in by_mechanism.items()
    ]


def _gpu_hours(job: Job, end: float, since: float = 0.0) -> float:
    """From so many seconds of its life on."""
    return len(job.gpus) * max(0.0, min(job.end, end) - job.start - since) / 3600
