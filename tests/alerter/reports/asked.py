"""Reports of a made-up week, and what answers with them instead of a store."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dutycycle_alerter.reports.model import (
    Asked,
    IncidentWaste,
    Kind,
    RuleOutcomes,
    RulesReport,
    UsageReport,
    WasteReport,
    WhereHours,
)
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.usage import GroupUsage

HOUR = 3600.0
UNTIL = 1_750_000_000.0
SINCE = UNTIL - 7 * 86400
COSTS = Costs(gpu_hour=2.5, currency="EUR", co2_grams_per_kwh=380)
WEEK = Asked(Kind.USERS, SINCE, UNTIL)

PEOPLE = (
    GroupUsage("alice", 800 * HOUR, 780 * HOUR, 78 * HOUR, 4e8, 500 * HOUR, 160 * HOUR, jobs=12, incidents=3),
    GroupUsage("bob", 400 * HOUR, 400 * HOUR, 360 * HOUR, 9e8, 0.0, 0.0, jobs=4),
    GroupUsage("", 20 * HOUR, 20 * HOUR, 1 * HOUR, idle=18 * HOUR, jobs=2),
    GroupUsage("carol", 10 * HOUR, 0.0, 0.0, jobs=1),
)
MODELS = (
    replace(PEOPLE[0], name="H200", unallocated=90 * HOUR, drained=8 * HOUR, down=0.0),
    GroupUsage("A100", 0.0, 0.0, 0.0, unallocated=10 * HOUR, drained=0.0, down=2 * HOUR),
)
WHERE = WhereHours(
    busy=439 * HOUR,
    idle=518 * HOUR,
    low=243 * HOUR,
    unmeasured=30 * HOUR,
    waited=40 * HOUR,
    free=60 * HOUR,
    drained=8 * HOUR,
    down=2 * HOUR,
    unknown=0.0,
    spread=160 * HOUR,
    placed=1200 * HOUR,
)


def report(kind: Kind) -> UsageReport | WasteReport | RulesReport:
    """The week's report."""
    asked = replace(WEEK, kind=kind)
    if kind is Kind.WASTE:
        rules = (IncidentWaste("idle", 2, 400 * HOUR, 2e8), IncidentWaste("stalled", 1, 30 * HOUR, 1e8))
        causes = (IncidentWaste("no process", 2, 400 * HOUR, 2e8), IncidentWaste("data loading", 1, 30 * HOUR, 1e8))
        return WasteReport(asked, WHERE, rules, causes, SINCE - 86400)
    if kind is Kind.RULES:
        rows = (
            RuleOutcomes(
                "partially_idle",
                opened=18,
                told=9,
                acknowledged=5,
                snoozed=1,
                intended=3,
                wrong=3,
                closed=2,
                closed_as_intended=3,
                cleared=4,
                ended=3,
                excluded=2,
                lost=1,
                active=3,
                to_acknowledge=1800.0,
                to_clear=7200.0,
            ),
            RuleOutcomes("hung", 1, active=1),
        )
        return RulesReport(asked, rows, SINCE - 86400)
    people = {Kind.USERS: PEOPLE, Kind.ACCOUNTS: PEOPLE, Kind.MODELS: MODELS}[kind]
    return UsageReport(asked, people, SINCE - 86400)


def nothing(kind: Kind, ledger_from: float | None = None) -> UsageReport | WasteReport | RulesReport:
    """A report without anything in it."""
    asked = replace(WEEK, kind=kind)
    if kind is Kind.WASTE:
        return WasteReport(asked, WhereHours(), ledger_from=ledger_from)
    return RulesReport(asked, ()) if kind is Kind.RULES else UsageReport(asked, (), ledger_from)


@dataclass
class Weeks:
    """Answers the same, whatever is asked; `before` in the range before `SINCE`."""

    before: tuple[GroupUsage, ...] = PEOPLE[1:2]
    opened: int = 4
    ledger_from: float | None = SINCE - 90 * 86400

    def usage_report(self, asked: Asked) -> UsageReport:
        return UsageReport(asked, PEOPLE if asked.since >= SINCE else self.before, self.ledger_from)

    def waste_report(self, asked: Asked) -> WasteReport:
        return replace(report(Kind.WASTE), asked=asked)  # type: ignore[return-value]

    def rules_report(self, asked: Asked) -> RulesReport:
        return replace(report(Kind.RULES), asked=asked)  # type: ignore[return-value]
