"""An incident's story as spans of time: when it was open, under which rule, and naming which causes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from benchmarks.box.model import SeenIncident, Told

_OPENINGS = ("opened", "reopened")
_SETTING_RULE = (*_OPENINGS, "primary changed")


@dataclass(frozen=True)
class Span:
    """From `start` to `end`, with the primary rule and the causes named; the incident had opened at `opened`."""

    start: float
    end: float
    rule: str
    causes: tuple[str, ...]
    opened: float

    def meets(self, since: float, until: float) -> bool:
        """Whether they have an instant in common, the ends included."""
        return self.start <= until and self.end >= since


@dataclass(frozen=True)
class Story:
    """What an incident was, from its first opening on; times as the incident's."""

    spans: tuple[Span, ...]
    """One after the other, at least one; a gap between two is a time in which it was resolved."""
    openings: tuple[float, ...]
    joined: tuple[tuple[float, str], ...]
    """When which rule came to stand beside the primary one, as far as it was told."""
    contributing: frozenset[str]
    reclassified: int
    recaused: int

    @property
    def reopened(self) -> int:
        return len(self.openings) - 1


def story(incident: SeenIncident, end: float) -> Story:
    """The story of an incident in a run that was watched until `end`."""
    told = _complete(incident)
    spans: list[Span] = []
    rule, causes, since, opened = "", (), None, incident.opened
    for event in told:
        if since is not None and event.at > since:
            spans.append(Span(since, event.at, rule, causes, opened))
        if event.kind in _OPENINGS:
            opened = event.at
        if event.kind in _SETTING_RULE and event.rule:
            rule = event.rule
        causes = event.causes or causes
        if event.kind == "resolved":
            since = None
        elif since is not None or event.kind in _OPENINGS:
            since = event.at
    last = end if incident.resolved is None else incident.resolved
    if since is not None:
        spans.append(Span(since, max(since, last), rule, causes, opened))
    spans = [*_joined(spans)] or [Span(incident.opened, incident.opened, rule, causes, incident.opened)]
    return Story(
        spans=tuple(spans),
        openings=tuple(event.at for event in told if event.kind in _OPENINGS),
        joined=tuple((event.at, event.rule) for event in told if event.kind == "rule opened"),
        contributing=frozenset({*incident.contributing, *(span.rule for span in spans)}),
        reclassified=sum(a.rule != b.rule for a, b in pairwise(spans)),
        recaused=sum(a.rule == b.rule and a.causes != b.causes for a, b in pairwise(spans)),
    )


def _complete(incident: SeenIncident) -> list[Told]:
    """Its events in the order of time. One that does not begin by opening gets that: events are kept for a while only.
    The last word is the incident's own.
    """
    told = sorted(incident.told, key=lambda event: event.at)
    if not told or told[0].kind not in _OPENINGS:
        rule = next((event.rule for event in told if event.kind in _SETTING_RULE and event.rule), incident.rule)
        causes = incident.causes if not told else ()
        told = [Told(incident.opened, "opened", rule, causes, incident.severity), *told]
    if not any(event.kind in _SETTING_RULE and event.rule for event in told):
        told[0] = Told(told[0].at, told[0].kind, incident.rule, told[0].causes or incident.causes, incident.severity)
    if not any(event.causes for event in told):
        told[0] = Told(told[0].at, told[0].kind, told[0].rule, incident.causes, incident.severity)
    return told


def _joined(spans: Iterable[Span]) -> Iterable[Span]:
    """Neighbours that say the same as one."""
    held: Span | None = None
    for span in spans:
        if held is not None and held.end == span.start and _says(held) == _says(span):
            held = replace(held, end=span.end)
            continue
        if held is not None:
            yield held
        held = span
    if held is not None:
        yield held


def _says(span: Span) -> tuple[object, ...]:
    return span.rule, span.causes, span.opened
