"""Which incident is for which condition. Pure; times are seconds of the run.

An incident is judged by the moment at which it first opened: somebody may have been told then, so one that opened while
nothing was wrong is false however long it stays. A condition is found where an incident was open for it: under its own
rule at any time of its extent, or by opening in it under another one. An incident that only lasts on from something
else has not found it.

A condition's extent reaches past its end for as long as it still is in the rule's windows, and clearing takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.box.scoring.story import Story


@dataclass(frozen=True)
class Extent:
    """Something that is wrong with a subject, and the time in which an incident of it is about it.

    `earliest` is when its rule can open at first. `rules` are those under which it is rightly told; the first is its
    own.
    """

    since: float
    until: float
    earliest: float
    rules: tuple[str, ...]
    causes: frozenset[str]
    must: bool


@dataclass(frozen=True)
class Found:
    """How a condition was found; `at` is when, None where it was not."""

    at: float | None
    named: bool

    @property
    def found(self) -> bool:
        return self.at is not None


def explains(story: Story, extents: Sequence[Extent]) -> list[Extent]:
    """The conditions that an incident is about: those in whose extent it first opened, first those of its rule.

    Once it is true, what it is reopened or renamed for later is its business, too.
    """
    opening = story.openings[0]
    if not any(extent.since <= opening <= extent.until for extent in extents):
        return []
    met = [extent for extent in extents if any(span.meets(extent.since, extent.until) for span in story.spans)]
    return sorted(met, key=lambda extent: (not named(story, extent), not extent.must, extent.since))


def named(story: Story, extent: Extent) -> bool:
    """Whether the incident was under the condition's own rule at some time of its extent."""
    return any(span.rule in extent.rules and span.meets(extent.since, extent.until) for span in story.spans)


def find(extent: Extent, stories: Sequence[Story]) -> Found:
    """How a condition was found, by the first of the subject's incidents that tells of it."""
    times = [at for story in stories if (at := _told_at(story, extent)) is not None]
    return Found(min(times, default=None), any(named(story, extent) for story in stories))


def _told_at(story: Story, extent: Extent) -> float | None:
    primary = [
        span.start for span in story.spans if span.rule in extent.rules and span.meets(extent.since, extent.until)
    ]
    within = [at for at in story.openings if extent.since <= at <= extent.until]
    beside = [at for at, rule in story.joined if rule in extent.rules and extent.since <= at <= extent.until]
    times = [max(at, extent.since) for at in (*primary, *within, *beside)]
    if times:
        return min(times)
    if story.contributing.isdisjoint(extent.rules):
        return None
    # It stood beside another rule; when it joined was not kept.
    meeting = [max(span.start, extent.since) for span in story.spans if span.meets(extent.since, extent.until)]
    return min(meeting, default=None)


def cause_of(story: Story, extents: Sequence[Extent]) -> str:
    """What an incident's last word on the cause is worth: `right`, `wrong`, `among`, `not among`, or empty.

    It is compared with the conditions of the rule under which it was then, else with all that it is about.
    """
    last = story.spans[-1]
    own = [extent for extent in extents if last.rule in extent.rules and last.meets(extent.since, extent.until)]
    truth = frozenset().union(*(extent.causes for extent in own or extents))
    if not truth or not last.causes:
        return ""
    if len(last.causes) == 1:
        return "right" if last.causes[0] in truth else "wrong"
    return "not among" if truth.isdisjoint(last.causes) else "among"
