"""Delivers what waits for one receiver: each message until the receiver took it, and not faster than it can be had.

A message is put together in one transaction, an attempt begins in a second, and what came of it is written in a third;
in between the receiver is asked, while no transaction is open. Whoever dies or loses the lease in between leaves a
message whose attempt is tried again with the same key: only where no acknowledgement had arrived it is sent twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from dutycycle_alerter.errors import AlerterError, DeliveryError
from dutycycle_alerter.incidents.model import Incident, State
from dutycycle_alerter.notify.announcing import Announcer
from dutycycle_alerter.notify.faring import Faring
from dutycycle_alerter.notify.gathering import gather, timely
from dutycycle_alerter.notify.model import Receiver
from dutycycle_alerter.notify.recording import Record, shown
from dutycycle_alerter.notify.routing import Routing, interval_of
from dutycycle_alerter.notify.weekly import WeeklyReports
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.notify import ReceiverSettings
from dutycycle_alerter.store import deliveries, incidents, outbox, sent
from dutycycle_alerter.store.deliveries import Begun, Pending
from dutycycle_alerter.store.transactions import Transactions
from dutycycle_alerter.views import DeliveryCounts

log = logging.getLogger(__name__)

STEPS = ("gathering", "gathered", "beginning", "begun", "delivered", "recording", "recorded")
"""What a turn has reached, in order: messages put together and committed, an attempt begun and committed, the receiver
done with it, what came of it written and committed.
"""

AT_ONCE = 50
"""Messages of one turn."""

_REFRESH = 0
"""In place of a message's number."""

_MOST_WAITING = 10_000
"""Notices that are looked at in one turn."""

_PUT_AT_ONCE = 500
"""Messages that are put together in one turn."""

_FIRST_BACK_OFF = 10.0
_DAY = 86400.0
_PATIENCE = 5
"""Attempts at a message that fails by an error of our own: then it is given up, and others have their turn."""

_LONGEST_PAUSE = 3600.0
"""Seconds for which a receiver may ask to be left alone, unless back-off is longer."""


@runtime_checkable
class Refreshed(Protocol):
    """A receiver that wants to hear of active incidents again and again."""

    def refresh(self, active: Sequence[Incident], now: float) -> None:
        """Raises DeliveryError."""
        ...


class Courier:
    """One receiver's deliveries, by one thread at a time. `settings` are scaled (wall seconds), `clock` is wall time.

    `reached` is told each of `STEPS`: a test that kills the process there sees whether anything is lost.
    """

    def __init__(
        self,
        settings: Settings,
        of: ReceiverSettings,
        receiver: Receiver,
        announcer: Announcer,
        store: Transactions,
        clock: Callable[[], float],
        *,
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        notify = settings.notify
        self.name = of.name
        self._of = of
        self._receiver = receiver
        self._announcer = announcer
        self._store = store
        self._clock = clock
        self._reached = reached
        self._time_scale = settings.time_scale
        self._give_up_after = notify.give_up_after
        self._routing = Routing(notify, settings.time_scale)
        self._reports = [WeeklyReports(settings, item, store) for item in notify.weekly if item.receiver == of.name]
        self._longest_pause = max(notify.retry_longest, _LONGEST_PAUSE / settings.time_scale)
        self._faring = Faring(
            first=_FIRST_BACK_OFF / settings.time_scale, longest=notify.retry_longest, pause=self._longest_pause
        )
        self._refresh_at = 0.0
        self._stopped = threading.Event()

    @property
    def counts(self) -> DeliveryCounts:
        """What became of messages so far."""
        return self._faring.counts

    def stop(self) -> None:
        """Begin nothing more: the turn that runs ends after the message that is on its way."""
        self._stopped.set()

    def close(self) -> None:
        """Let go of the receiver, when no turn runs."""
        self._receiver.close()

    def turn(self) -> None:
        """Put together what is due, and deliver what can be. Raises StoreError, LeaseLostError."""
        self._announcer.catch_up(self._clock())
        for reports in self._reports:
            reports.put(self._clock())
        self._gather(self._clock())
        with self._store.read() as connection:
            due = deliveries.due(connection, self.name, self._clock(), longest=2 * self._longest_pause, limit=AT_ONCE)
        for item in due:
            if self._stopped.is_set() or self._faring.waits(self._clock()):
                break
            self._deliver(item)
        if isinstance(self._receiver, Refreshed) and not self._stopped.is_set():
            self._refresh(self._receiver, self._clock())

    # What is sent

    def _gather(self, now: float) -> None:
        if not self._faring.takes_new(now):
            return
        with self._store.read() as connection:
            first = outbox.first_due(connection, self.name).items()
            # What is due further ahead than any wait is is from before the clock was set back.
            if all(now < due_at <= now + self._longest_wait(digest) for digest, due_at in first):
                return
            # Nobody else puts together, so that what is there stays; and looking keeps no writer waiting.
            found = outbox.waiting(connection, self.name, most=_MOST_WAITING)
            waiting = timely(found, self._longest_wait, now=now)
            day = now - _DAY / self._time_scale
            longest = max((interval_of(item.bundle) for item in waiting), default=0.0)
            past = sent.past(
                connection,
                self.name,
                waiting,
                day=day,
                oldest=day - 2 * self._give_up_after,
                longest=now - longest,
            )
        gathered = gather(self._of, waiting, past, now=now)
        # Of very many some, so that the transaction is short.
        portions = sorted(gathered.portions, key=lambda item: not item.urgent)[:_PUT_AT_ONCE]
        if self._faring.down:
            # What waits for the receiver to come back comes as one; one message may show whether others fare better.
            portions = [] if past.ready else portions[:1]
        if not portions and not gathered.dropped:
            return
        with self._store.write() as connection:
            outbox.drop(connection, gathered.dropped)
            deliveries.put(connection, self.name, portions, now)
            self._reached("gathering")
        self._reached("gathered")
        if portions and self._faring.down:
            self._faring.given_new(now)

    def _longest_wait(self, digest: str) -> float:
        return self._routing.longest_wait(self.name, digest)

    def _refresh(self, receiver: Refreshed, now: float) -> None:
        """Tell what is active. Somebody who snoozed an incident does not want to hear of it there either.

        Where messages wait, that does for one refresh more at most: else what is active would end there by itself.
        """
        if self._of.alertmanager is None:
            return
        every = self._of.alertmanager.refresh
        late = now >= self._refresh_at + every or now < self._refresh_at - every  # or the clock was set
        if not late and (now < self._refresh_at or self._faring.waits(now)):
            return
        self._refresh_at = now + every
        with self._store.read() as connection:
            active = [
                item
                for item in incidents.active(connection)
                if item.state is not State.SNOOZED
                and any(where.receiver.name == self.name for where in self._routing.operators(item))
            ]
        try:
            receiver.refresh(active, now)
        except AlerterError as error:
            wants = error.retry_after if isinstance(error, DeliveryError) else None
            self._faring.failure(_REFRESH, now, shown(str(error)), wants)
        else:
            self._faring.success(_REFRESH)

    # One message

    def _deliver(self, item: Pending) -> None:
        now = self._clock()
        with self._store.write() as connection:
            next_at = now + self._faring.back_off(item.attempts + 1)
            begun = deliveries.begin(connection, item.id, next_at=next_at)
            self._reached("beginning")
        self._reached("begun")
        if begun is None:
            return
        try:
            receipt = self._receiver.deliver(begun.parcel)
        except DeliveryError as error:
            self._not_delivered(item, begun, error)
        except AlerterError as error:
            # A template of the site, a password's file, the store: ours to put right, and it may be soon.
            self._not_delivered(item, begun, DeliveryError(str(error)))
        except Exception as error:
            log.exception("%s: a message failed unexpectedly", self.name)
            permanent = begun.parcel.attempt >= _PATIENCE
            self._not_delivered(
                item, begun, DeliveryError(f"{type(error).__name__} (see the log)", permanent=permanent)
            )
        else:
            self._reached("delivered")
            with self._store.write() as connection:
                Record(connection, self.name, item.id, begun, self._clock()).delivered(receipt)
                self._reached("recording")
            self._reached("recorded")
            self._faring.success(item.id, sent=1)

    def _not_delivered(self, item: Pending, begun: Begun, error: DeliveryError) -> None:
        self._reached("delivered")
        now, reason = self._clock(), shown(str(error))
        given_up = error.permanent or now - item.at > self._give_up_after
        with self._store.write() as connection:
            next_at = now + max(self._faring.back_off(begun.parcel.attempt), self._faring.heeded(error.retry_after))
            Record(connection, self.name, item.id, begun, now).failed(error, reason, given_up=given_up, next_at=next_at)
            self._reached("recording")
        self._reached("recorded")
        log.warning("%s: a message was not delivered, and is %s: %s", self.name, _fate(given_up), reason)
        if error.permanent:
            self._faring.refused(item.id)
        elif (error.addresses or error.threads) and not given_up:
            self._faring.partly(item.id, now, reason, error.retry_after)
        else:
            self._faring.failure(item.id, now, reason, error.retry_after, given_up=given_up)


def _fate(given_up: bool) -> str:
    return "given up" if given_up else "tried again"
