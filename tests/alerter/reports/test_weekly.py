"""The weekly report: one range beside the one before, and what a mail says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC

import pytest

from dutycycle_alerter.incidents.model import Severity, State
from dutycycle_alerter.reports.model import Asked, UsageReport
from dutycycle_alerter.reports.weekly import TOP, weekly
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.usage import GroupUsage
from tests.alerter.reports.asked import COSTS, HOUR, PEOPLE, SINCE, UNTIL, Weeks


@dataclass
class Reader(Weeks):
    """A store with open incidents."""

    def active_counts(self) -> Mapping[tuple[str, Severity, State], int]:
        return {("idle", Severity.WARNING, State.OPEN): self.opened - 1, ("hung", Severity.CRITICAL, State.SNOOZED): 1}


def test_a_week_stands_beside_the_one_before() -> None:
    found = weekly(Reader(), SINCE, UNTIL, Costs())
    assert found.before is not None
    assert (found.totals.allocated, found.before.allocated) == (1230 * HOUR, 400 * HOUR)
    assert {name: (now, before) for name, now, before in found.figures()}["GPU-hours wasted"] == ("761", "40.0")
    assert (found.measured, found.under, found.open_incidents) == (2, 1, 4)
    assert [user.name for user in found.top] == ["alice", "bob", "", "carol"]
    assert found.lines(UTC) == (
        (
            "Under 15 % utilization: 1 of 2 measured users, with 65 % of the measured GPU-hours. "
            "Not measured: 1 more user."
        ),
        "GPU-hours allocated and idle: 518 (39 % of all).",
        "GPU-hours free while jobs waited for GPUs: 40.0 (3.0 % of all).",
        "GPU-hours of jobs on more nodes than they need: 160 (13 % of those for which it is known).",
        "Incidents that are open now: 4.",
    )


def test_many_users_who_held_next_to_nothing_are_said_to_have_held_next_to_nothing() -> None:
    """A course's short jobs are no crisis: their number is said with what it weighs."""

    @dataclass
    class Course(Reader):
        def usage_report(self, asked: Asked) -> UsageReport:
            students = [GroupUsage(f"student{n}", 120.0, 120.0, 0.0, jobs=1) for n in range(60)]
            others = [GroupUsage(f"user{n}", 190 * HOUR, 190 * HOUR, 95 * HOUR) for n in range(52)]
            absent = [GroupUsage(f"absent{n}", HOUR, 0.0, 0.0) for n in range(4)]
            return UsageReport(asked, (*others, *students, *absent), self.ledger_from)

    assert weekly(Course(), SINCE, UNTIL, Costs()).lines(UTC)[0] == (
        "Under 15 % utilization: 60 of 112 measured users, with under 0.1 % of the measured GPU-hours. "
        "Not measured: 4 more users."
    )


def test_where_nobody_is_under_the_bound_nothing_is_said_to_be_held() -> None:
    @dataclass
    class Good(Reader):
        def usage_report(self, asked: Asked) -> UsageReport:
            return UsageReport(asked, PEOPLE[1:2], self.ledger_from)

    assert weekly(Good(), SINCE, UNTIL, Costs()).lines(UTC)[0] == "Under 15 % utilization: 0 of 1 measured user."


def test_hours_that_nobody_used_have_their_cost_where_a_price_is_configured() -> None:
    assert weekly(Reader(), SINCE, UNTIL, COSTS).lines(UTC)[1:3] == (
        "GPU-hours allocated and idle: 518 (39 % of all, 1,295.00 EUR).",
        "GPU-hours free while jobs waited for GPUs: 40.0 (3.0 % of all, 100.00 EUR).",
    )


@pytest.mark.parametrize(
    ("begins", "wasted_before", "noted"),
    [
        (2 * SINCE - UNTIL, "40.0", False),
        (SINCE - HOUR, "40.0", True),
        (SINCE, "unknown", True),
        (SINCE + 5 * HOUR, "unknown", True),
        (None, "unknown", False),
    ],
)
def test_a_week_that_was_not_recorded_is_unknown_and_of_one_in_part_that_is_said(
    begins: float | None, wasted_before: str, noted: bool
) -> None:
    found = weekly(Reader(ledger_from=begins), SINCE, UNTIL, Costs())
    assert {name: before for name, _, before in found.figures()}["GPU-hours wasted"] == wasted_before
    said = [line for line in found.lines(UTC) if line.startswith("The ledger begins at ")]
    assert bool(said) is noted
    assert (found.before is None) is (wasted_before == "unknown")
    if begins == SINCE:
        assert said == ["The ledger begins at 2025-06-08 15:06 UTC: nothing earlier is known."]


def test_the_range_before_is_as_long_and_ends_where_this_one_begins() -> None:
    asked: list[Asked] = []

    @dataclass
    class Noting(Reader):
        def usage_report(self, one: Asked) -> UsageReport:
            asked.append(one)
            return super().usage_report(one)

    weekly(Noting(), SINCE, UNTIL, Costs())
    assert [(one.since, one.until) for one in asked] == [(SINCE, UNTIL), (2 * SINCE - UNTIL, SINCE)]


def test_ten_users_at_most_and_a_week_without_any() -> None:
    @dataclass
    class Many(Reader):
        def usage_report(self, asked: Asked) -> UsageReport:
            return UsageReport(asked, PEOPLE[:1] * (TOP + 5))

    assert len(weekly(Many(), SINCE, UNTIL, Costs()).top) == TOP

    @dataclass
    class Nobody(Reader):
        def usage_report(self, asked: Asked) -> UsageReport:
            rows: tuple[GroupUsage, ...] = ()
            return UsageReport(asked, rows)

    found = weekly(Nobody(), SINCE, UNTIL, Costs())
    assert found.empty
    assert {name: now for name, now, _ in found.figures()}["Mean utilization"] == "unknown"


def test_a_week_in_which_no_gpu_was_seen_is_unknown() -> None:
    @dataclass
    class Silent(Reader):
        since: float = SINCE

        def usage_report(self, asked: Asked) -> UsageReport:
            found = super().usage_report(asked)
            return replace(found, rows=(), gpus_seen=False) if asked.since == self.since else found

    found = weekly(Silent(), SINCE, UNTIL, Costs())
    assert {now for _, now, _ in found.figures()} == {"unknown"}
    assert weekly(Silent(since=2 * SINCE - UNTIL), SINCE, UNTIL, Costs()).before is None
