"""What people marked as intended: of which job or user, of which rules, why and until when. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from dutycycle_alerter.errors import ExpectationError, TransitionError
from dutycycle_alerter.incidents.model import Event, EventKind, Incident
from dutycycle_alerter.printable import printable
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.settings.policies import JOB_RULES, Expectations

SHORTEST_REASON, LONGEST_REASON = 3, 500
"""Characters of a reason."""


class Scope(StrEnum):
    """What was intended: that one job, or all jobs of its user in its cluster."""

    JOB = "job"
    USER = "user"


class Covered(StrEnum):
    """Of which rules it was intended: those that were open in the incident, or all that judge jobs."""

    OPEN = "open"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What somebody said was intended. Until it expires or is withdrawn, the rules do not judge what it covers.

    `subject` is a job's id or a user's name, as the store has it; `rules` are those that were open in the incident of
    which it was said (`incident_id`, None once that is forgotten), or all that judge jobs. Times in Unix seconds;
    `withdrawn_at` None where nobody took it back. `id` is 0 until stored.
    """

    scope: Scope
    cluster: str
    subject: str
    rules: tuple[str, ...]
    reason: str
    actor: str
    at: float
    expires_at: float
    incident_id: int | None = None
    id: int = 0
    withdrawn_at: float | None = None
    withdrawn_by: str = ""

    def in_force(self, now: float) -> bool:
        """Whether it still counts. Not `at` either: who said it may have a clock that is ahead."""
        return self.withdrawn_at is None and now < self.expires_at


def expected_of(
    incident: Incident,
    *,
    scope: Scope,
    actor: str,
    reason: str,
    now: float,
    until: float,
    limits: Expectations,
    time_scale: float = 1.0,
    covered: Covered = Covered.OPEN,
) -> Expectation:
    """What somebody says of an incident, active or resolved, as an expectation. `limits` are scaled (wall seconds).

    Raises TransitionError where an incident has nothing that could be intended, ExpectationError where the reason or
    the end is not allowed.
    """
    rules = tuple(rule.rule for rule in incident.rules) or (incident.rule,)
    if incident.about != "job" or not set(rules) <= set(JOB_RULES):
        raise TransitionError(f"incident {incident.id} is of a {incident.about}: no fault is intended")
    if scope is Scope.USER and not limits.of_users:
        raise ExpectationError("this site takes no expectations of users: say it of the job")
    subject = incident.subject if scope is Scope.JOB else incident.user
    if not subject:
        raise TransitionError(f"whose job incident {incident.id} is of is not known: say it of the job")
    return Expectation(
        scope=scope,
        cluster=incident.cluster,
        subject=subject,
        rules=rules if covered is Covered.OPEN else JOB_RULES,
        reason=checked_reason(reason),
        actor=actor,
        at=now,
        expires_at=_checked_end(until, now, limits, time_scale),
        incident_id=incident.id,
    )


def checked_reason(text: str) -> str:
    """The reason without spaces around it. Raises ExpectationError where it is no line that a person can read."""
    if len(text) > 4 * LONGEST_REASON:  # however much of it is space
        raise ExpectationError(f"a reason has at most {LONGEST_REASON} characters")
    text = text.strip()
    if not SHORTEST_REASON <= len(text) <= LONGEST_REASON:
        raise ExpectationError(f"a reason has {SHORTEST_REASON} to {LONGEST_REASON} characters, this one {len(text)}")
    shown = printable(text)
    if "\ufffd" in shown or any("\u2400" <= character <= "\u2421" for character in shown) or len(shown) < len(text):
        raise ExpectationError("a reason is one line of visible characters")
    return text


def extending(known: Iterable[Expectation], said: Expectation) -> Expectation:
    """What is to be kept: `said`, or the one in force in which the same person said the same of the same incident,
    extended. What others said, or of other rules, is theirs: it stands beside it.

    The latest word counts, but for the end: what was said for longer holds for longer.
    """
    for before in known:
        if before.in_force(said.at) and _what(before) == _what(said):
            return replace(said, id=before.id, expires_at=max(before.expires_at, said.expires_at))
    return said


def withdrawn(expectation: Expectation, *, actor: str, now: float) -> Expectation:
    """The expectation, taken back. Raises TransitionError where it is over."""
    if not expectation.in_force(now):
        how = "expired" if expectation.withdrawn_at is None else "was withdrawn"
        raise TransitionError(f"expectation {expectation.id} {how} already")
    return replace(expectation, withdrawn_at=now, withdrawn_by=actor)


def in_history(said: Expectation, *, now: float) -> Event:
    """What an incident's history tells of it: when it is said of the incident, or when it closes one that it covers."""
    data = {
        "scope": said.scope.value,
        "until": said.expires_at,
        "rules": list(said.rules),
        "expectation": said.id,
    }
    return Event(now, EventKind.INTENDED, said.reason, actor=said.actor, data=data)


def _what(one: Expectation) -> tuple[object, ...]:
    return one.scope, one.cluster, one.subject, frozenset(one.rules), one.actor, one.incident_id


def _checked_end(until: float, now: float, limits: Expectations, time_scale: float) -> float:
    if not now < until:  # NaN is no time either
        raise ExpectationError("an expectation ends at a time to come")
    if until > now + limits.longest:
        raise ExpectationError(f"an expectation lasts {format_duration(limits.longest * time_scale)} at most")
    return until
