"""A reader of fixed answers, for states that a whole cluster would take long to reach, and for hostile text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dutycycle_alerter.errors import StoreError
from dutycycle_alerter.fleet_now import FleetAmounts
from dutycycle_alerter.incidents.expectations import Covered, Expectation, Scope
from dutycycle_alerter.incidents.model import (
    Cause,
    Diagnosis,
    Event,
    EventKind,
    Incident,
    OpenRule,
    Severity,
    State,
)
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.reports.model import (
    Asked,
    IncidentWaste,
    RuleOutcomes,
    RulesReport,
    UsageReport,
    WasteReport,
    WhereHours,
)
from dutycycle_alerter.usage import GroupUsage, UserUsage
from dutycycle_alerter.views import GpuNow, GpuSeries, IncidentFilter, NotEvaluable, Point, Status, TargetStatus

NOW = 1_790_000_000.0


def status(**changes: object) -> Status:
    values: dict[str, object] = {
        "now": NOW,
        "time_scale": 1.0,
        "replay": False,
        "last_pass": NOW - 20,
        "first_verdict_at": None,
        "jobs_judged": 3,
        "targets": (TargetStatus("http://gpu1:9836/metrics", "gpu1", NOW - 10, ""),),
        "not_evaluable": (),
    }
    return Status(**(values | changes))  # type: ignore[arg-type]


def incident(text: str = "", **changes: object) -> Incident:
    """An incident in which every piece of outside text is `text`, where it is given."""
    gpu = Gpu(text or "gpu1", text or "0", "GPU-1", model=text or "H100")
    values: dict[str, object] = {
        "id": 7,
        "subject": text or "slurm/1",
        "rule": "idle",
        "severity": Severity.WARNING,
        "state": State.OPEN,
        "started_at": NOW - 7200,
        "opened_at": NOW - 5400,
        "updated_at": NOW - 60,
        "known_at": NOW - 60,
        "diagnosis": Diagnosis(
            causes=(Cause.NO_PROCESS,),
            evidence=(text or "all 2 GPUs at 0 % utilization over 30 min",),
            advice=("Cancel the job.",),
            commands=(text or "scancel 1",),
        ),
        "gpus": (gpu,),
        "rules": (OpenRule("idle", NOW - 5400, Severity.WARNING),),
        "job_gpus": 2,
        "user": text or "alice",
        "account": text,
        "partition": text,
        "namespace": text,
        "cluster": text,
        "wasted": 7200.0,
        "energy": 3.6e6,
    }
    return Incident(**(values | changes))  # type: ignore[arg-type]


@dataclass
class FixedReader:
    """Answers what it was given; `broken` makes every answer a StoreError. It is no place to change anything."""

    shown: Status = field(default_factory=status)
    found: Sequence[Incident] = ()
    history: Sequence[Event] = ()
    curves: Sequence[GpuSeries] = ()
    people: Sequence[UserUsage] = ()
    devices: Sequence[GpuNow] = ()
    amounts: Sequence[FleetAmounts] = ()
    intended: Sequence[Expectation] = ()
    broken: bool = False

    def _check(self) -> None:
        if self.broken:
            raise StoreError("database sqlite:///gone.sqlite3: disk I/O error")

    def incidents(self, wanted: IncidentFilter, *, limit: int = 100, offset: int = 0) -> tuple[Sequence[Incident], int]:
        self._check()
        matching = [one for one in self.found if not wanted.states or one.state in wanted.states]
        return matching[offset : offset + limit], len(matching)

    def active_counts(self) -> Mapping[tuple[str, Severity, State], int]:
        self._check()
        return Counter((one.rule, one.severity, one.state) for one in self.found if one.state.active)

    def incident(self, incident_id: int) -> Incident | None:
        self._check()
        return next((one for one in self.found if one.id == incident_id), None)

    def events(self, incident_id: int) -> Sequence[Event]:
        self._check()
        return self.history

    def series(self, incident: Incident, *, until: float, most: int | None = None) -> Sequence[GpuSeries]:
        self._check()
        return self.curves

    def expectations(self, *, current: bool = True, user: str | None = None) -> Sequence[Expectation]:
        self._check()
        return [one for one in self.intended if user in (None, one.subject)]

    def muted(self, receiver: str, user: str) -> bool:
        self._check()
        return False

    def users(self, *, since: float, until: float) -> Sequence[UserUsage]:
        self._check()
        return self.people

    def fleet(self, *, since: float, until: float) -> Sequence[FleetAmounts]:
        self._check()
        return self.amounts

    def usage_report(self, asked: Asked) -> UsageReport:
        self._check()
        rows = [GroupUsage(one.user, one.allocated, one.observed, one.busy, one.energy) for one in self.people]
        return UsageReport(asked, tuple(row for row in rows if asked.user in (None, row.name)), NOW - 86400)

    def waste_report(self, asked: Asked) -> WasteReport:
        self._check()
        parts = tuple(IncidentWaste(one.subject, 1, one.wasted, one.energy) for one in self.found)
        return WasteReport(asked, WhereHours(busy=3600.0), parts, parts, NOW - 86400)

    def rules_report(self, asked: Asked) -> RulesReport:
        self._check()
        return RulesReport(asked, tuple(RuleOutcomes(one.subject, 1) for one in self.found), NOW - 86400)

    def gpus(self) -> Sequence[GpuNow]:
        self._check()
        return self.devices

    def status(self) -> Status:
        self._check()
        return self.shown

    def acknowledge(self, incident_id: int, *, actor: str, note: str = "") -> Incident:
        raise AssertionError("not asked to change anything")

    def snooze(self, incident_id: int, *, until: float, actor: str, note: str = "") -> Incident:
        raise AssertionError("not asked to change anything")

    def resolve(self, incident_id: int, *, actor: str, note: str = "") -> Incident:
        raise AssertionError("not asked to change anything")

    def intend(
        self, incident_id: int, *, actor: str, reason: str, scope: Scope, until: float, covered: Covered = Covered.OPEN
    ) -> Incident:
        raise AssertionError("not asked to change anything")

    def withdraw(self, expectation_id: int, *, actor: str) -> Expectation:
        raise AssertionError("not asked to change anything")

    def mute(self, receiver: str, user: str) -> None:
        raise AssertionError("not asked to change anything")

    def unmute(self, receiver: str, user: str) -> None:
        raise AssertionError("not asked to change anything")


def gpu_now(**changes: object) -> GpuNow:
    values: dict[str, object] = {
        "gpu": Gpu("gpu1", "0", "GPU-1", model="H100"),
        "scraped_at": NOW - 5,
        "stale": False,
        "utilization": 0.5,
        "memory_used": 2.0**34,
        "memory_total": 2.0**36,
        "power": 300.0,
        "power_limit": 700.0,
        "temperature": 45.0,
        "processes": 1.0,
        "last_busy_at": NOW - 5,
        "workloads": (("slurm/1", "alice", 1.0),),
    }
    return GpuNow(**(values | changes))  # type: ignore[arg-type]


def full_reader(text: str) -> FixedReader:
    """A reader with something on every page, all outside text being `text`."""
    one = incident(text)
    return FixedReader(
        shown=status(
            targets=(TargetStatus(f"http://{text}/", text, None, text or "refused"),),
            not_evaluable=(NotEvaluable("stalled", text, 2),),
        ),
        found=[one],
        history=[
            Event(NOW - 5400, EventKind.OPENED, text),
            Event(NOW - 60, EventKind.ACKNOWLEDGED, text, actor=text),
        ],
        curves=[GpuSeries(one.gpus[0], tuple(Point(NOW - 600 + 60 * n, 0.1 * n) for n in range(10)))],
        people=[UserUsage(text, 7200, 7200, 360, energy=3.6e6, jobs=1, incidents=1)],
        devices=[gpu_now(gpu=one.gpus[0], workloads=((text, text, 0.5),))],
        intended=[Expectation(Scope.JOB, text, text, ("idle",), text, text, NOW - 60, NOW + 86400, 7, 3)],
    )
