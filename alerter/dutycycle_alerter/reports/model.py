"""What a report is asked for, and what it says. Seconds and joules are on the scale that people are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Protocol

from dutycycle_alerter.usage import GroupUsage, known_sum


class Kind(StrEnum):
    """The reports."""

    USERS = "users"
    ACCOUNTS = "accounts"
    MODELS = "models"
    WASTE = "waste"
    RULES = "rules"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which report: hours that begin within [since, until) of wall time, of one cluster or one user where these are
    not None. What is not anybody's (the fleet, the rules) is left out of a report on one user.
    """

    kind: Kind
    since: float
    until: float
    cluster: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Use by user, account or model, most wasted first. `ledger_from` is the ledger's first hour; None: it is empty."""

    asked: Asked
    rows: tuple[GroupUsage, ...]
    ledger_from: float | None = None
    gpus_seen: bool = True
    """Whether any GPU was seen in the range. Where none was, use is unknown and not zero."""

    @property
    def totals(self) -> GroupUsage:
        """The sum of all rows; what no row knows is None."""
        return total(self.rows)


@dataclass(frozen=True, slots=True)
class WhereHours:
    """Where GPU-seconds went. All but `spread` are disjoint; their sum is `whole`. None is not known.

    Of allocated GPUs: `busy`, `idle` (they did nothing), `low` (they worked now and then), `untold` (not busy, from
    before the two were told apart) and `unmeasured`. Of the others: `waited` (free while others waited for as many),
    `free` (otherwise), `drained`, `down` and `unknown`. `spread` is the part of the allocated ones of jobs on more
    nodes than they need, of the `placed` for which that is known.
    """

    busy: float = 0.0
    idle: float | None = None
    low: float | None = None
    untold: float = 0.0
    unmeasured: float = 0.0
    waited: float | None = None
    free: float | None = None
    drained: float | None = None
    down: float | None = None
    unknown: float | None = None
    spread: float | None = None
    placed: float = 0.0

    @property
    def whole(self) -> float:
        """All GPU-seconds of which something is known."""
        names = [field.name for field in fields(self) if field.name not in ("spread", "placed")]
        return known_sum(getattr(self, name) for name in names) or 0.0


@dataclass(frozen=True, slots=True)
class IncidentWaste:
    """The incidents of one rule, or of one cause, from their beginning on: the GPU-seconds that were wasted, and the
    joules that their jobs drew meanwhile, for work or not.
    """

    name: str
    incidents: int
    wasted: float
    energy: float


@dataclass(frozen=True, slots=True)
class WasteReport:
    """Where GPU-hours went, and the waste of the incidents about efficiency that were opened in the range: by rule, and
    by cause (several, where the evidence did not decide).
    """

    asked: Asked
    hours: WhereHours
    rules: tuple[IncidentWaste, ...] = ()
    causes: tuple[IncidentWaste, ...] = ()
    ledger_from: float | None = None


@dataclass(frozen=True, slots=True)
class RuleOutcomes:
    """What became of the incidents of one primary rule that were opened in the range.

    Of how many some person was `told` (a program that took it is none), and somebody said so: `acknowledged`,
    `snoozed`, `intended` (and did not take it back since); `wrong` are those of the told that were intended. What
    became of them adds up to `opened`: `closed` by a person, `closed_as_intended`, `cleared` by themselves, `ended`
    with the job, `excluded` by a policy, `lost` sight of, `active` still. The medians are seconds since the opening:
    to the first acknowledgement, and to the clearing; None where there is none.
    """

    name: str
    opened: int = 0
    told: int = 0
    acknowledged: int = 0
    snoozed: int = 0
    intended: int = 0
    wrong: int = 0
    closed: int = 0
    closed_as_intended: int = 0
    cleared: int = 0
    ended: int = 0
    excluded: int = 0
    lost: int = 0
    active: int = 0
    to_acknowledge: float | None = None
    to_clear: float | None = None

    @property
    def wrong_share(self) -> float | None:
        """The share (0..1) of the told that were intended; None where nobody was told."""
        return self.wrong / self.told if self.told else None


@dataclass(frozen=True, slots=True)
class RulesReport:
    """How often each rule was right."""

    asked: Asked
    rows: tuple[RuleOutcomes, ...]
    ledger_from: float | None = None


Report = UsageReport | WasteReport | RulesReport


class Reports(Protocol):
    """Who answers with reports, from the store."""

    def usage_report(self, asked: Asked) -> UsageReport:
        """Use by user, account or model, as `asked.kind` says."""
        ...

    def waste_report(self, asked: Asked) -> WasteReport:
        """Where GPU-hours went."""
        ...

    def rules_report(self, asked: Asked) -> RulesReport:
        """How often each rule was right."""
        ...


def read(reports: Reports, asked: Asked) -> Report:
    """The report that is asked for."""
    if asked.kind is Kind.WASTE:
        return reports.waste_report(asked)
    if asked.kind is Kind.RULES:
        return reports.rules_report(asked)
    return reports.usage_report(asked)


def total(rows: Sequence[GroupUsage]) -> GroupUsage:
    """The sum of some rows. Jobs of several rows are counted in each."""
    return GroupUsage(
        name="",
        allocated=sum(row.allocated for row in rows),
        observed=sum(row.observed for row in rows),
        busy=sum(row.busy for row in rows),
        energy=known_sum(row.energy for row in rows),
        idle=known_sum(row.idle for row in rows),
        spread=known_sum(row.spread for row in rows),
        jobs=sum(row.jobs for row in rows),
        incidents=sum(row.incidents for row in rows),
        unallocated=known_sum(row.unallocated for row in rows),
        drained=known_sum(row.drained for row in rows),
        down=known_sum(row.down for row in rows),
    )
