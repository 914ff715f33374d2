"""What is to be said of the policies themselves: expired or about to, maintenance that goes on, jobs left out, by a
policy or because somebody said that it was intended.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.incidents.expectations import Expectation, Scope
from dutycycle_alerter.policies.applying import Applied, PoliciesInForce
from dutycycle_alerter.policies.exceptions import expires_at
from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.settings import Policy
from dutycycle_alerter.settings.calendar import zone_of

log = logging.getLogger(__name__)

EXPIRES_SOON = 14 * 86400.0
"""Seconds before its end from which on a policy's end is told."""

EXPECTATION_ENDS_SOON = 86400.0
"""The same for what people said was intended, on the scale that people are shown: it holds for a week or so."""

_MOST = 20
"""Expectations that are told of one by one."""


class NoticeKind(StrEnum):
    """What a notice is about."""

    EXPIRED = "expired"
    EXPIRING = "expiring"
    MAINTENANCE = "maintenance"
    EXCLUDED = "excluded"
    EXPECTED = "expected"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Notice:
    """One line for operators. `jobs` is how many it is about, 0 where it is about none."""

    kind: NoticeKind
    text: str
    jobs: int = 0


def notices(policies: PoliciesInForce, applied: Iterable[Applied]) -> tuple[Notice, ...]:
    """All that is to be said after a pass, in a fixed order. Pure."""
    given = list(applied)
    return (
        *_ends(policies),
        *_maintenance(policies, given),
        *_excluded(given),
        *_expected(policies, given),
        *_refused(given),
    )


class NoticeLog:
    """Logs what is new of the notices on the policies themselves, once each while it holds."""

    def __init__(self) -> None:
        self._said: frozenset[str] = frozenset()

    def tell(self, given: Iterable[Notice]) -> None:
        """Log what was not there the last time. Figures of jobs change every minute: they are not logged."""
        lasting = (NoticeKind.EXPIRED, NoticeKind.EXPIRING, NoticeKind.MAINTENANCE)
        texts = {notice.text: notice for notice in given if notice.kind in lasting}
        for text in texts.keys() - self._said:
            log.warning("%s", printable(text, 500))
        self._said = frozenset(texts)


def _ends(policies: PoliciesInForce) -> Iterable[Notice]:
    configured = policies.settings.policies
    for policy in configured.exceptions:
        at = expires_at(policy, configured)
        if at is None or policy.expires is None:
            continue
        until = policy.expires.isoformat()
        if at <= policies.now:
            yield Notice(NoticeKind.EXPIRED, f"policy {policy.name} expired ({until}) and has no effect any more")
        elif at - policies.now <= EXPIRES_SOON:
            yield Notice(NoticeKind.EXPIRING, f"policy {policy.name} expires soon ({until})")


def _maintenance(policies: PoliciesInForce, given: list[Applied]) -> Iterable[Notice]:
    zone = zone_of(policies.settings.policies.timezone)
    jobs = Counter(one.maintenance.name for one in given if one.maintenance is not None)
    for quiet in policies.calendar.open():
        until = datetime.fromtimestamp(quiet.until, UTC).astimezone(zone)
        text = f"maintenance {quiet.name} until {until:%Y-%m-%d %H:%M %Z}: {quiet.reason}"
        yield Notice(NoticeKind.MAINTENANCE, text, jobs[quiet.name])


def _excluded(given: list[Applied]) -> Iterable[Notice]:
    found: dict[str, Policy] = {}
    jobs: Counter[str] = Counter()
    for one in given:
        policies = {policy.name: policy for policy in one.excluded.values()}
        found |= policies
        jobs.update(policies.keys())
    for name, count in sorted(jobs.items()):
        policy = found[name]
        until = "" if policy.expires is None else f" until {policy.expires.isoformat()}"
        text = f"{_jobs(count)} excluded from {_listed(policy.rules)} by policy {name}{until}"
        yield Notice(NoticeKind.EXCLUDED, text, count)
    wished = sum(bool(one.wished) for one in given)
    if wished:
        yield Notice(NoticeKind.EXCLUDED, f"{_jobs(wished)} excluded as the jobs ask, which the policies allow", wished)


def _expected(policies: PoliciesInForce, given: list[Applied]) -> Iterable[Notice]:
    """Those that had an effect in this pass, most jobs first."""
    jobs: Counter[Expectation] = Counter()
    for one in given:
        jobs.update(set(one.expected.values()))
    listed = sorted(jobs.items(), key=lambda item: (-item[1], item[0].id))
    for said, count in listed[:_MOST]:
        whose = "" if said.scope is Scope.JOB else f" of user {printable(said.subject, NAME_LIMIT)}"
        what = f"{_jobs(count)}{whose} excluded from {_listed(said.rules)}"
        yield Notice(NoticeKind.EXPECTED, f"{what}, as {policies.expected.who(said)}: {said.reason}", count)
    if (more := sum(count for _, count in listed[_MOST:])) > 0:
        yield Notice(NoticeKind.EXPECTED, f"{_jobs(more)} excluded by {len(listed) - _MOST:,} more expectations", more)
    soon = policies.now + EXPECTATION_ENDS_SOON / policies.settings.time_scale
    ending = [said for said in jobs if said.expires_at <= soon]
    for said in sorted(ending, key=lambda said: (said.expires_at, said.id))[:_MOST]:
        yield Notice(NoticeKind.EXPIRING, f"expectation {said.id} expires soon ({policies.expected.end(said)})")


def _refused(given: list[Applied]) -> Iterable[Notice]:
    refused = sum(bool(one.refused) for one in given)
    if refused:
        text = f"{_jobs(refused)} asked to be left out of a rule that fires; the policies do not allow it"
        yield Notice(NoticeKind.REFUSED, text, refused)


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _listed(rules: tuple[str, ...]) -> str:
    if not rules:
        return "all rules"
    names = [rule_name(rule) for rule in rules]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
