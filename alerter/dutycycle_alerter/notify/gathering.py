"""From notices that wait to parcels: what goes out now, what goes together, what waits longer, what nobody needs any
more. Pure: of one receiver, at one instant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import ceil

from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.notify.model import ParcelKind, Recipient, To
from dutycycle_alerter.notify.routing import PROGRAMS, THREADED, interval_of
from dutycycle_alerter.settings.notify import ReceiverSettings

AT_ONCE = 100
"""Incidents in one message to a program."""


UNSUBSCRIBED = "unsubscribed"
"""Why a notice is dropped: its user hears only of what is critical."""

NOT_THEIRS = "the job is not theirs"
"""Why a notice is dropped: its user was taken for that of the job, until another became known."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notice that waits, with what its incident is like now. `critical` is what that is to its recipient: policies
    may give the user of a job another severity than operators see. `user` is that of its job.
    """

    id: int
    to: Recipient
    bundle: str
    incident_id: int
    due_at: float
    digest: str
    state: State
    critical: bool
    is_report: bool = False
    user: str = ""

    @property
    def about(self) -> tuple[int, Recipient]:
        """The incident, and who is told of it."""
        return self.incident_id, self.to


@dataclass(frozen=True, slots=True)
class Past:
    """What happened with a receiver before.

    `last` is when the newest message of each bundle was put together; `sent` how many messages each recipient had
    within a day, those that wait included and those that went on in a thread not. `ready` are the bundles of messages
    that wait for their first attempt, `held` the incidents of those that wait for any. `told` are the incidents that
    each recipient was told of, or will be by such a message; `threads` those of which the receiver keeps a thread.
    `muted` are users.
    """

    last: Mapping[tuple[Recipient, str], float] = field(default_factory=dict)
    sent: Mapping[Recipient, int] = field(default_factory=dict)
    ready: Set[tuple[Recipient, str]] = frozenset()
    held: Set[tuple[int, Recipient]] = frozenset()
    told: Set[tuple[int, Recipient]] = frozenset()
    threads: Set[tuple[int, Recipient]] = frozenset()
    muted: Set[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Portion:
    """A parcel to be: its notices go together. `goes_on` tells that it changes what is there already, in a thread."""

    to: Recipient
    kind: ParcelKind
    notices: tuple[Waiting, ...]
    goes_on: bool = False

    @property
    def urgent(self) -> bool:
        """Whether it tells of something critical that is not over."""
        return any(notice.critical and notice.state.active for notice in self.notices)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What goes out, and which notices are dropped, with the reason. What is in neither waits."""

    portions: tuple[Portion, ...]
    dropped: Mapping[int, str]


def timely(waiting: Iterable[Waiting], longest: Callable[[str], float], *, now: float) -> list[Waiting]:
    """The notices, those due now that are due further ahead than any wait is: they are from before the clock was set
    back. `longest` says how long a notice of a digest (empty: of none) may wait.
    """
    return [replace(item, due_at=now) if item.due_at > now + longest(item.digest) else item for item in waiting]


def gather(receiver: ReceiverSettings, waiting: Sequence[Waiting], past: Past, *, now: float) -> Gathered:
    """Put together what is due of one receiver's notices, which are in their order."""
    dropped = dict(_unneeded(receiver.kind, waiting, past))
    left: defaultdict[Recipient, list[Waiting]] = defaultdict(list)
    for notice in waiting:
        # What is new of an incident comes after what was there before, and holds up nothing else.
        if notice.id not in dropped and notice.about not in past.held:
            left[notice.to].append(notice)
    portions = [portion for to, notices in left.items() for portion in _of_recipient(receiver, to, notices, past, now)]
    return Gathered(tuple(portions), dropped)


def _unneeded(kind: str, waiting: Iterable[Waiting], past: Past) -> Iterator[tuple[int, str]]:
    """Nobody is told of what was over before they could be; who reads it all later, in a digest or by a program, is.
    And nobody is of another's job.
    """
    for notice in waiting:
        if notice.to.to is To.OWNER and notice.to.user != notice.user:
            yield notice.id, NOT_THEIRS
        elif notice.to.to is To.OWNER and notice.to.user in past.muted and not notice.critical:
            yield notice.id, UNSUBSCRIBED
        elif notice.digest or kind in PROGRAMS or notice.is_report or notice.about in past.told:
            continue
        elif notice.state is State.RESOLVED:
            yield notice.id, "resolved before it was sent"
        elif notice.state is State.SNOOZED:
            yield notice.id, "snoozed before it was sent"


def _of_recipient(
    receiver: ReceiverSettings, to: Recipient, notices: Sequence[Waiting], past: Past, now: float
) -> list[Portion]:
    slots: defaultdict[str, list[Waiting]] = defaultdict(list)
    bundles: defaultdict[str, list[Waiting]] = defaultdict(list)
    for notice in notices:
        if not notice.digest:
            bundles[notice.bundle].append(notice)
        elif notice.due_at <= now:
            slots[notice.digest].append(notice)
    program = receiver.kind in PROGRAMS
    digests = [
        Portion(to, ParcelKind.DIGEST, part)
        for slot in slots.values()
        for part in (_chunks(slot) if program else [tuple(slot)])
    ]
    going = [part for bundle, part in bundles.items() if _goes(to, bundle, part, past, now)]
    free = [part for bundle, part in bundles.items() if (to, bundle) not in past.ready]
    wanted = digests + _portions(receiver, to, going, free, past)
    limit = receiver.daily_limit(user=to.to is To.OWNER)
    if limit is None:
        return wanted
    counted = [portion for portion in wanted if not portion.goes_on]
    going_on = [portion for portion in wanted if portion.goes_on]
    return _within(limit, past.sent.get(to, 0), to, counted) + going_on


def _within(limit: int, sent: int, to: Recipient, wanted: list[Portion]) -> list[Portion]:
    """What is too much for a day waits for a place, and then comes as one. The last places are for what is critical."""
    places = limit - sent
    ordinary = places - reserve(limit)
    if len(wanted) <= ordinary:
        return wanted
    if ordinary > 0:
        return [_joined(to, wanted)]
    urgent = [portion for portion in wanted if portion.urgent]
    if len(urgent) <= places:
        return urgent
    return [_joined(to, urgent)] if places > 0 else []


def reserve(limit: int) -> int:
    """Of a day's messages those that only something critical gets: a fifth, at least one; of a single one none."""
    return min(limit - 1, ceil(limit / 5))


def _goes(to: Recipient, bundle: str, part: Sequence[Waiting], past: Past, now: float) -> bool:
    if (to, bundle) in past.ready or min(notice.due_at for notice in part) > now:
        return False
    last = past.last.get((to, bundle))
    # One in the future is from before the clock was set.
    return last is None or last > now or now >= last + interval_of(bundle)


def _portions(
    receiver: ReceiverSettings, to: Recipient, going: list[list[Waiting]], free: list[list[Waiting]], past: Past
) -> list[Portion]:
    """Bundles that go out now, each by itself; those that are `free` to come along do where they are so many that one
    digest is better.
    """
    if receiver.kind in PROGRAMS:
        return [Portion(to, ParcelKind.INCIDENTS, part) for bundle in going for part in _chunks(bundle)]
    single: list[list[Waiting]] = []
    if receiver.kind in THREADED:
        # A thread is gone on with, however many there are: it ends with the outcome.
        single = [part for part in going if part[0].about in past.threads]
        going = [part for part in going if part[0].about not in past.threads]
        free = [part for part in free if part[0].about not in past.threads]
    if going and len({notice.incident_id for part in free for notice in part}) > receiver.digest_above:
        whole = [Portion(to, ParcelKind.DIGEST, _in_order(free))]
    else:
        whole = [Portion(to, ParcelKind.INCIDENTS, tuple(part)) for part in going]
    return whole + [Portion(to, ParcelKind.INCIDENTS, tuple(part), goes_on=True) for part in single]


def _chunks(bundle: list[Waiting]) -> list[tuple[Waiting, ...]]:
    """By incident, at most `AT_ONCE` of them in each."""
    by_incident: dict[int, list[Waiting]] = {}
    for notice in bundle:
        by_incident.setdefault(notice.incident_id, []).append(notice)
    groups = list(by_incident.values())
    return [_in_order(groups[start : start + AT_ONCE]) for start in range(0, len(groups), AT_ONCE)]


def _joined(to: Recipient, portions: list[Portion]) -> Portion:
    if len(portions) == 1:
        return portions[0]
    return Portion(to, ParcelKind.DIGEST, _in_order(portion.notices for portion in portions))


def _in_order(parts: Iterable[Sequence[Waiting]]) -> tuple[Waiting, ...]:
    return tuple(sorted((notice for part in parts for notice in part), key=lambda notice: notice.id))
