"""Two results side by side: which incidents are new, which are gone, and which differ in what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from dutycycle_alerter.backtest.trial import Found, Result


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which an incident differs: `what` it is, and how it was and would be, as text for people or None.

    Times (`opened`, `resolved`) are Unix seconds; None is not yet, or never.
    """

    what: str
    before: str | float | None
    after: str | float | None


@dataclass(frozen=True, slots=True)
class Changed:
    """The same trouble of the same job under both configurations."""

    before: Found
    after: Found
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the new configuration changes; `added`, `gone` and `changed` are in order of waste, most first."""

    added: tuple[Found, ...]
    gone: tuple[Found, ...]
    changed: tuple[Changed, ...]
    same: int


def compare(before: Result, after: Result) -> Comparison:
    """Pair the incidents of each job that overlap in time, in their order; the rest were added or are gone."""
    old, new = _by_subject(before.found), _by_subject(after.found)
    added: list[Found] = []
    gone: list[Found] = []
    pairs: list[Changed] = []
    for subject in {**old, **new}:
        left = list(new.get(subject, ()))
        for one in old.get(subject, ()):
            other = next((candidate for candidate in left if _overlap(one, candidate)), None)
            if other is None:
                gone.append(one)
            else:
                left.remove(other)
                pairs.append(Changed(one, other, tuple(_differences(one, other))))
        added += left
    changed = [pair for pair in pairs if pair.differences]
    return Comparison(
        added=tuple(sorted(added, key=_waste)),
        gone=tuple(sorted(gone, key=_waste)),
        changed=tuple(sorted(changed, key=lambda pair: _waste(pair.after))),
        same=len(pairs) - len(changed),
    )


def _by_subject(found: Iterable[Found]) -> dict[str, list[Found]]:
    subjects: defaultdict[str, list[Found]] = defaultdict(list)
    for one in sorted(found, key=lambda one: one.incident.opened_at):
        subjects[one.incident.subject].append(one)
    return subjects


def _overlap(one: Found, other: Found) -> bool:
    return one.incident.started_at <= _end(other) and other.incident.started_at <= _end(one)


def _end(found: Found) -> float:
    return float("inf") if found.incident.resolved_at is None else found.incident.resolved_at


def _differences(before: Found, after: Found) -> Iterable[Difference]:
    one, other = before.incident, after.incident
    for what, was, would_be in (
        ("rule", one.rule, other.rule),
        ("severity", one.severity.value, other.severity.value),
        ("cause", one.diagnosis.summary, other.diagnosis.summary),
        ("opened", one.opened_at, other.opened_at),
        ("resolved", one.resolved_at, other.resolved_at),
        ("resolution", one.resolution and one.resolution.value, other.resolution and other.resolution.value),
        ("mailed", None if before.mail is None else before.mail.at, None if after.mail is None else after.mail.at),
    ):
        if was != would_be:
            yield Difference(what, was, would_be)


def _waste(found: Found) -> tuple[float, float, str]:
    return -found.incident.wasted, found.incident.started_at, found.incident.subject
