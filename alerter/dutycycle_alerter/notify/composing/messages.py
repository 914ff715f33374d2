"""From a parcel to what its message says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutycycle_alerter import figures
from dutycycle_alerter.headline import rule_name
from dutycycle_alerter.incidents.model import Incident, Severity
from dutycycle_alerter.notify.composing.content import Count, Message, Report, Story
from dutycycle_alerter.notify.composing.stories import Teller
from dutycycle_alerter.notify.model import Item, Parcel, ParcelKind, Picture
from dutycycle_alerter.notify.reasons import sentences
from dutycycle_alerter.settings.notify import News

IN_FULL = 3
"""More incidents than this in one message are told in a few lines each."""
_TOP = 10
"""So many of a digest are named."""
_MOST = 30
"""So many of any other message: with names as long and as hostile as they may be, a template can put them out."""


@dataclass(frozen=True, slots=True)
class Saying:
    """What messages have in common: their teller, the page's address and whether the data is a recording's."""

    teller: Teller
    public_url: str
    replay: bool

    def message(
        self,
        parcel: Parcel,
        *,
        pictures: Mapping[int, Picture] | None = None,
        report: Report | None = None,
        threaded: bool = False,
        unsubscribe: str = "",
    ) -> Message:
        """The whole of it. `pictures` are by the number of the incident that each shows; `threaded`: what is new is
        said beside it; `unsubscribe` is an address.
        """
        ordered = worst_first(parcel.items)
        shown = ordered[: _TOP if parcel.kind is ParcelKind.DIGEST else _MOST]
        return Message(
            kind=parcel.kind.value,
            to=parcel.to.to.value,
            user=self.teller.voice.name(parcel.to.user),
            stories=tuple(self._story(item, pictures or {}) for item in shown),
            total=len(ordered) + parcel.left_out,
            counted=len(ordered),
            resolved=sum(not item.incident.state.active for item in ordered),
            counts=self._counts(ordered),
            gpu_hours=self._hours(ordered, more=parcel.left_out > 0),
            list_url=self._list_url(parcel),
            report=report,
            replay=self.replay,
            threaded=threaded,
            because=self._because(ordered),
            unsubscribe=self.teller.voice.link(unsubscribe),
            now=self.teller.moment(self.teller.now),
            zone=figures.zone_name(self.teller.now, self.teller.zone),
        )

    def one(self, item: Item) -> Message:
        """About one incident, beside any parcel."""
        to = self.teller.to
        return self.message(Parcel("", ParcelKind.INCIDENTS, to, (item,), self.teller.now))

    def _because(self, items: Sequence[Item]) -> tuple[str, ...]:
        new = any(News.OPENED in item.news for item in items)
        return tuple(map(self.teller.voice.said, sentences([item.because for item in items], new=new)))

    def _story(self, item: Item, pictures: Mapping[int, Picture]) -> Story:
        picture = pictures.get(item.incident.id)
        if picture is None:
            return self.teller.story(item)
        return self.teller.story(item, picture=picture.name, picture_alt=picture.alt)

    def _counts(self, items: Sequence[Item]) -> tuple[Count, ...]:
        """By rule, the one that wasted most first."""
        by_rule: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            by_rule[item.incident.rule].append(item)
        return tuple(
            Count(
                rule=self.teller.voice.name(rule_name(rule)),
                incidents=len(those),
                critical=sum(item.incident.severity is Severity.CRITICAL for item in those),
                gpu_hours=self._hours(those),
            )
            for rule, those in sorted(by_rule.items(), key=lambda pair: -sum(item.incident.wasted for item in pair[1]))
        )

    def _hours(self, items: Sequence[Item], *, more: bool = False) -> str:
        """GPU-hours of jobs together, and `more` than they; empty where there is no job among them."""
        wasted = [item.incident.wasted for item in items if item.incident.about == "job"]
        return ("over " if more else "") + figures.hours(sum(wasted) * self.teller.time_scale) if wasted else ""

    def _list_url(self, parcel: Parcel) -> str:
        if not self.public_url or not (parcel.items or parcel.kind is ParcelKind.REPORT):
            return ""
        page = "/users" if parcel.kind is ParcelKind.REPORT else "/"
        return self.teller.voice.link(f"{self.public_url}{page}")


def worst_first(items: Sequence[Item]) -> list[Item]:
    """Critical faults of GPUs and nodes, then what wasted most; of equal ones the worse, then the older."""
    return sorted(
        items,
        key=lambda item: (
            not _breaks(item.incident),
            -item.incident.wasted,
            -item.incident.severity.rank,
            item.incident.id,
        ),
    )


def _breaks(incident: Incident) -> bool:
    """Whether hardware is failing now: it wastes nothing that could be counted, and jobs fail on it."""
    return incident.about != "job" and incident.state.active and incident.severity is Severity.CRITICAL
