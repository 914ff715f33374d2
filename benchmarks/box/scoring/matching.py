"""Which incident is for which condition. Pure; times are seconds of the run.

An incident is judged by the moments at which it opened and was put under another rule: somebody may have been told
then. One that first opened while nothing was wrong is false however long it stays, and one that was never under a rule
that is there for what it opened in is told under another rule, which is no hit. A condition is found where an incident
was open for it: under its own rule at any time of its extent, or by opening in it under another one. An incident that
only lasts on from something else has not found it.

A condition's extent reaches past its end: incidents may open for as long as it still is in the rule's windows, and stay
open for as long as clearing takes, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.box.scoring.story import Span, Story
from benchmarks.box.scoring.timing import SETTLING


@dataclass(frozen=True)
class Extent:
    """Something that is wrong with a subject, and the time in which an incident of it is about it.

    It really was there from `since` to `ended`: until then any rule may tell of it, after that its own, which may begin
    to do so until `opens_until` and have it open until `until`. `earliest` is when its rule can open at first. `rules`
    are those under which it is rightly told; the first is its own.
    """

    since: float
    ended: float
    opens_until: float
    until: float
    earliest: float
    rules: tuple[str, ...]
    causes: frozenset[str]
    must: bool
    main: frozenset[str] = frozenset()

    def opened_by(self, at: float, rule: str) -> bool:
        """Whether something that was said under a rule at an instant was said of it."""
        until = self.opens_until if rule in self.rules else min(self.opens_until, self.ended + SETTLING)
        return self.since <= at <= until


@dataclass(frozen=True)
class Found:
    """How a condition was found: when under its own rule, and when by any word of an incident that opened for it."""

    at: float | None
    first_word: float | None
    named: bool
    beside: bool

    @property
    def found(self) -> bool:
        return self.first_word is not None


def explains(story: Story, extents: Sequence[Extent]) -> list[Extent]:
    """The conditions that an incident is about: those in whose extent it first opened, first those of its rule.

    Once it is true, what it is reopened or renamed for later is its business, too.
    """
    if not any(_opened_in(story, extent) for extent in extents):
        return []
    met = [extent for extent in extents if any(span.meets(extent.since, extent.until) for span in story.spans)]
    return sorted(met, key=lambda extent: (not named(story, extent), not extent.must, extent.since))


def outcome(story: Story, about: Sequence[Extent]) -> str:
    """What an incident that is about something is worth: `true`, `allowed`, or `other rule` where it was never under a
    rule that is there for what it opened in.
    """
    rightly = [extent for extent in about if _opened_in(story, extent) and told_rightly(story, extent)]
    if not rightly:
        return "other rule"
    return "true" if any(extent.must for extent in rightly) else "allowed"


def _opened_in(story: Story, extent: Extent) -> bool:
    return extent.opened_by(story.openings[0], story.spans[0].rule)


def told_rightly(story: Story, extent: Extent) -> bool:
    """Whether the incident was, at some time of the extent, under a rule that is there for the condition."""
    return any(_spans(story, extent, extent.rules))


def named(story: Story, extent: Extent) -> bool:
    """Whether the incident was under the condition's own rule at some time of its extent."""
    return any(_spans(story, extent, extent.rules[:1]))


def _spans(story: Story, extent: Extent, rules: Sequence[str]) -> list[Span]:
    """Those under some rules that tell of it: what begins after it has left the windows is of something else."""
    return [
        span
        for span in story.spans
        if span.rule in rules and span.start <= extent.opens_until and span.meets(extent.since, extent.until)
    ]


def find(extent: Extent, stories: Sequence[Story]) -> Found:
    """How a condition was found, by the first of the subject's incidents that tells of it."""
    own = [at for story in stories for at in _own_times(story, extent)]
    kept = [at for story in stories for at in _kept(story, extent)]
    within = [
        span.start
        for story in stories
        for span in story.spans
        if span.start == span.opened and extent.opened_by(span.start, span.rule)
    ]
    return Found(
        at=min(own, default=None),
        first_word=min((*own, *within, *kept), default=None),
        named=any(named(story, extent) for story in stories),
        beside=bool(own or kept),
    )


def _own_times(story: Story, extent: Extent) -> list[float]:
    """When it began to be told under its own rule, alone or beside another one."""
    rule = extent.rules[0]
    primary = [span.start for span in _spans(story, extent, (rule,))]
    joined = [at for at, other in story.joined if other == rule and extent.opened_by(at, rule)]
    return [max(at, extent.since) for at in (*primary, *joined)]


def _kept(story: Story, extent: Extent) -> list[float]:
    """When an incident was open for it that had its rule beside others, where nothing was kept of when rules joined."""
    if story.joined or extent.rules[0] not in story.contributing - {span.rule for span in story.spans}:
        return []
    return [max(span.start, extent.since) for span in story.spans if span.meets(extent.since, extent.until)]


def cause_of(span: Span, extents: Sequence[Extent], *, main: bool = False) -> str:
    """What a word on the cause is worth: `right`, `wrong`, `among`, `not among`, or empty. With `main`, only what took
    most of the time is right.

    It is compared with the conditions of the rule under which it was said, else with all that the incident is about.
    """
    own = [extent for extent in extents if span.rule in extent.rules and span.meets(extent.since, extent.until)]
    truth = frozenset().union(*(extent.main if main else extent.causes for extent in own or extents))
    if not truth or not span.causes:
        return ""
    if len(span.causes) == 1:
        return "right" if span.causes[0] in truth else "wrong"
    return "not among" if truth.isdisjoint(span.causes) else "among"
