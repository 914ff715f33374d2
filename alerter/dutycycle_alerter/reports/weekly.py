"""The operators' weekly report: one week beside the one before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Protocol

from dutycycle_alerter import figures
from dutycycle_alerter.incidents.model import Severity, State
from dutycycle_alerter.reports.model import Asked, Kind, Reports, RuleOutcomes, WhereHours
from dutycycle_alerter.reports.shown import ledger_begins
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.usage import (
    LOW_UTILIZATION_PERCENT,
    GroupUsage,
    hours_under,
    users_histogram,
    users_under,
    users_unmeasured,
)

TOP = 10


class WeeklyReader(Reports, Protocol):
    """What the weekly report is read from."""

    def active_counts(self) -> Mapping[tuple[str, Severity, State], int]:
        """How many incidents are not resolved, by rule, severity and state."""
        ...


@dataclass(frozen=True, slots=True)
class WeeklyReport:
    """A range [since, until) of wall time; seconds and joules are on the scale that people are shown.

    `gpus_seen` is whether any GPU was seen in the range: where none was, use is unknown. `before` are the totals of the
    range of the same length before it; None where no GPU was seen in it, or where the ledger, which begins at
    `ledger_from` (None: it is empty), has nothing of it. `top` are the ten users who wasted most; `histogram` counts
    the measured ones by bins of 5 points of mean utilization, `under` of whom are below 15 % and held `hours_under` of
    the measured GPU-seconds; of `unmeasured` users nothing was measured. `rules` are those that opened something,
    `costs` the prices.
    """

    since: float
    until: float
    gpus_seen: bool
    totals: GroupUsage
    before: GroupUsage | None
    histogram: tuple[int, ...]
    under: int
    hours_under: float
    unmeasured: int
    top: tuple[GroupUsage, ...]
    where: WhereHours
    rules: tuple[RuleOutcomes, ...]
    open_incidents: int
    ledger_from: float | None
    costs: Costs

    @property
    def measured(self) -> int:
        """How many users something was measured of."""
        return sum(self.histogram)

    @property
    def share_under(self) -> float | None:
        """The share 0..1 of the measured GPU-hours that users below 15 % held: what their number weighs. None where
        there is no such user.
        """
        return self.hours_under / self.totals.observed if self.under and self.totals.observed else None

    @property
    def empty(self) -> bool:
        """Whether nobody held a GPU, in either range as far as it is known."""
        return not self.totals.allocated and not (self.before and self.before.allocated)

    def figures(self) -> tuple[tuple[str, str, str], ...]:
        """What to say at the head: (name, in this range, in the one before)."""
        before = self.before
        return tuple(
            (
                name,
                said(self.totals) if self.gpus_seen else figures.UNKNOWN,
                figures.UNKNOWN if before is None else said(before),
            )
            for name, said in _FIGURES
        )

    def lines(self, zone: tzinfo | None) -> tuple[str, ...]:
        """Sentences for an email's body, with times of `zone`; no text from outside is in them."""
        where = self.where
        spread = None if where.spread is None or not where.placed else where.spread / where.placed
        return (
            self._people(),
            f"GPU-hours allocated and idle: {self._hours(where.idle)}.",
            f"GPU-hours free while jobs waited for GPUs: {self._hours(where.waited)}.",
            f"GPU-hours of jobs on more nodes than they need: {figures.hours(where.spread)}"
            + ("." if spread is None else f" ({figures.percent(spread)} of those for which it is known)."),
            f"Incidents that are open now: {self.open_incidents:,}.",
            *filter(None, [ledger_begins(self.ledger_from, self.since - (self.until - self.since), zone)]),
        )

    def _people(self) -> str:
        """How many users do badly, and how much of the GPUs that is about: many may have held next to nothing."""
        said = f"Under {LOW_UTILIZATION_PERCENT:.0f} % utilization: {self.under} of "
        said += figures.count(self.measured, "measured user")
        if self.share_under is not None:
            said += f", with {figures.percent(self.share_under)} of the measured GPU-hours"
        if self.unmeasured:
            said += f". Not measured: {figures.count(self.unmeasured, 'more user')}"
        return f"{said}."

    def _hours(self, seconds: float | None) -> str:
        """GPU-hours with their share of all and what they cost, as far as these are known."""
        if seconds is None:
            return figures.UNKNOWN
        costs, whole = self.costs, self.where.whole
        more = [f"{figures.percent(seconds / whole)} of all"] if whole else []
        if costs.gpu_hour is not None:
            more.append(f"{figures.money(costs.gpu_hour * seconds / 3600)} {costs.currency}")
        return figures.hours(seconds) + (f" ({', '.join(more)})" if more else "")


def weekly(reader: WeeklyReader, since: float, until: float, costs: Costs) -> WeeklyReport:
    """The report on [since, until) of wall time. Raises StoreError."""
    asked = Asked(Kind.USERS, since, until)
    report = reader.usage_report(asked)
    before = reader.usage_report(replace(asked, since=since - (until - since), until=since))
    known = before.gpus_seen and before.ledger_from is not None and before.ledger_from < since
    return WeeklyReport(
        since=since,
        until=until,
        gpus_seen=report.gpus_seen,
        totals=report.totals,
        before=before.totals if known else None,
        histogram=tuple(users_histogram(report.rows)),
        under=users_under(report.rows),
        hours_under=hours_under(report.rows),
        unmeasured=users_unmeasured(report.rows),
        top=report.rows[:TOP],
        where=reader.waste_report(replace(asked, kind=Kind.WASTE)).hours,
        rules=reader.rules_report(replace(asked, kind=Kind.RULES)).rows,
        open_incidents=sum(reader.active_counts().values()),
        ledger_from=report.ledger_from,
        costs=costs,
    )


_FIGURES: tuple[tuple[str, Callable[[GroupUsage], str]], ...] = (
    ("GPU-hours allocated", lambda used: figures.hours(used.allocated)),
    (
        "Mean utilization",
        lambda used: figures.percent(None if used.mean_percent is None else used.mean_percent / 100),
    ),
    ("GPU-hours wasted", lambda used: figures.hours(used.wasted if used.observed else None)),
    ("Energy", lambda used: figures.energy(used.energy)),
    ("Jobs", lambda used: f"{used.jobs:,}"),
    ("Incidents", lambda used: f"{used.incidents:,}"),
)
