"""Runs of a fleet in a box in a few words, for tests of their scoring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from benchmarks.box.model import (
    Condition,
    Fault,
    Job,
    Ledger,
    Message,
    Observed,
    Scenario,
    SeenIncident,
    Told,
    Truth,
)

HOUR = 3600.0
LENGTH = 24 * HOUR
JOB = Job(
    number=1,
    user="ada",
    account="physics",
    partition="batch",
    mechanism="training",
    parameters={},
    mixed=False,
    seed=1,
    start=HOUR,
    end=9 * HOUR,
    gpus=(("n0", 0), ("n0", 1)),
)


def job(number: int = 1, **changes: object) -> Job:
    return replace(JOB, number=number, **changes)


def condition(rule: str = "idle", since: float = 0.0, until: float = 8 * HOUR, **changes: object) -> Condition:
    """Something that must be told, by what the job's own clock says."""
    known = {"causes": frozenset({"no process"}), "must": True, **changes}
    return Condition(rule=rule, since=since, until=until, **known)


def incident(
    opened: float,
    resolved: float | None = None,
    rule: str = "idle",
    causes: tuple[str, ...] = ("no process",),
    *,
    job: Job = JOB,
    told: tuple[Told, ...] = (),
    **changes: object,
) -> SeenIncident:
    """By the run's clock."""
    known = {
        "id": 1,
        "kind": "efficiency",
        "workload": job.workload,
        "gpu": "",
        "rule": rule,
        "contributing": (rule,),
        "causes": causes,
        "severity": "warning",
        "user": job.user,
        "resolution": "" if resolved is None else "cleared",
        "wasted": None,
        **changes,
    }
    return SeenIncident(opened=opened, resolved=resolved, told=told, **known)


def told(at: float, kind: str, rule: str = "", *causes: str) -> Told:
    return Told(at, kind, rule, causes, "warning")


def message(job: Job = JOB, to: str = "ada@example.org", at: float = 2 * HOUR) -> Message:
    return Message(at, "mail", to, "GPUs are idle", "key", (job.workload,))


def truth(job: Job, *conditions: Condition, busy: float = 0.5) -> Truth:
    """GPUs that are busy for the same share of every instant."""
    length = job.end - job.start
    had = len(job.gpus) * length
    spent = {"computing": busy * had, "nothing": (1 - busy) * had}
    return Truth(spent, busy * had, conditions, worked=((0.0, length), (0.0, busy * had)))


def scenario(jobs: Iterable[Job], faults: Iterable[Fault] = (), seed: int = 7) -> Scenario:
    return Scenario(seed, ("n0", "n1"), 8, LENGTH, tuple(jobs), tuple(faults))


def observed(
    incidents: Iterable[SeenIncident] = (),
    messages: Iterable[Message] = (),
    ledger: Mapping[str, Ledger] | None = None,
) -> Observed:
    return Observed(tuple(incidents), tuple(messages), ledger or {})


def fleet() -> tuple[Scenario, dict[int, Truth]]:
    """One job that is sick in two ways in turn, and one that is well."""
    sick, fine = job(1), job(2, user="bob", gpus=(("n0", 2),))
    stalled = condition("stalled", HOUR, 5 * HOUR, causes=frozenset({"data loading"}), step=0.5)
    return scenario([sick, fine]), {1: truth(sick, condition(until=HOUR), stalled), 2: truth(fine)}


def perfect() -> Observed:
    """What an observer that misses nothing has of them."""
    plan, truths = fleet()
    sick = plan.jobs[0]
    begun, again = sick.start + 600, sick.start + HOUR
    seen = [
        incident(sick.start + 40 * 60, again, job=sick, started=begun, wasted=again - begun),
        incident(
            sick.start + 75 * 60,
            sick.end,
            "stalled",
            ("data loading",),
            job=sick,
            id=2,
            started=again,
            wasted=sick.end - again,
        ),
    ]
    ledger = {
        one.workload: Ledger(had := len(one.gpus) * (one.end - one.start), had, truths[one.number].busy, None)
        for one in plan.jobs
    }
    return observed(seen, ledger=ledger)
