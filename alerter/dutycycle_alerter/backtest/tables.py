"""A result by rule and by user."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from dutycycle_alerter.backtest.trial import Result
from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.settings import Rules


@dataclass(frozen=True, slots=True)
class RuleRow:
    """The incidents of one rule at one severity; `wasted` is GPU-seconds."""

    rule: str
    severity: Severity
    incidents: int
    wasted: float


@dataclass(frozen=True, slots=True)
class UserRow:
    """One user's incidents and mails; `wasted` is GPU-seconds within the incidents."""

    user: str
    incidents: int
    mails: int
    wasted: float


def by_rule(result: Result) -> list[RuleRow]:
    """In the order of precedence, the worst severity first."""
    order = {rule: place for place, rule in enumerate(Rules.ORDER)}
    found: defaultdict[tuple[str, Severity], list[float]] = defaultdict(list)
    for one in result.found:
        found[one.incident.rule, one.incident.severity].append(one.incident.wasted)
    rows = [RuleRow(rule, severity, len(wasted), sum(wasted)) for (rule, severity), wasted in found.items()]
    return sorted(rows, key=lambda row: (order.get(row.rule, len(order)), row.rule, -row.severity.rank))


def by_user(result: Result) -> list[UserRow]:
    """Most wasted first; those without a name are one, without mails."""
    wasted: defaultdict[str, list[float]] = defaultdict(list)
    for one in result.found:
        wasted[one.incident.user].append(one.incident.wasted)
    mails = Counter(mail.user for mail in result.mails)
    rows = [UserRow(user, len(parts), mails[user], sum(parts)) for user, parts in wasted.items()]
    return sorted(rows, key=lambda row: (-row.wasted, row.user))
