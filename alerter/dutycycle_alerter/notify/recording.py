"""Writes what came of an attempt at a message: the message's own row, threads, and the histories of its incidents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.incidents.model import Event, EventKind
from dutycycle_alerter.notify.model import OPERATORS, Parcel, Receipt
from dutycycle_alerter.printable import printable
from dutycycle_alerter.store import deliveries, incidents
from dutycycle_alerter.store.deliveries import Begun

_LONGEST_ERROR = 300


def shown(text: str) -> str:
    """What a receiver says, for one line."""
    return printable(text, _LONGEST_ERROR)


class Record:
    """Of one attempt, at a time, in the transaction of whoever asks."""

    def __init__(self, connection: sa.Connection, receiver: str, number: int, begun: Begun, now: float) -> None:
        self._connection = connection
        self._receiver = receiver
        self._number = number
        self._begun = begun
        self._parcel = begun.parcel
        self._now = now

    def delivered(self, receipt: Receipt) -> None:
        """It succeeded; nothing is written where somebody else's attempt did before."""
        if receipt.refused and not receipt.addresses and not self._begun.reached:
            # Each was refused, one after the other: nobody knows of it.
            deliveries.fail(self._connection, self._number, self._now, "refused for all")
        elif not deliveries.finish(self._connection, self._number, self._now):
            return
        self._keep(receipt.threads)
        events = self._settled(receipt.addresses, receipt.refused)
        # A receiver without addresses told somebody all the same.
        if not events and not self._parcel.settled:
            events = [self._told(())]
        self._note(self._begun.loud, events)

    def failed(self, error: DeliveryError, reason: str, *, given_up: bool, next_at: float) -> None:
        """It did not, or not for all: what was settled is kept, and the rest tried again or given up."""
        self._keep(error.threads)
        deliveries.settle(self._connection, self._number, error.addresses, error.refused)
        self._note(self._begun.loud, self._settled(error.addresses, error.refused))
        if not given_up:
            deliveries.postpone(self._connection, self._number, next_at, reason)
            return
        reached = self._begun.reached or bool(error.addresses)
        # Without addresses a receiver tells of one incident after the other.
        told = [] if reached else [number for number in self._begun.loud if number in error.threads]
        untold = [number for number in self._begun.loud if number not in told]
        self._note(told, [self._told(())])
        if not (error.permanent and error.refused):
            other = "the other " if reached and self._parcel.to == OPERATORS else ""
            text = f"{self._receiver} could not notify {other}{_whom(self._parcel)}: {reason}"
            self._note(untold, [self._event(EventKind.NOT_TOLD, text, ())])
        if reached or (told and not untold):
            # Who has it goes on hearing of its incidents.
            deliveries.finish(self._connection, self._number, self._now)
        else:
            deliveries.fail(self._connection, self._number, self._now, reason)

    def _settled(self, taken: Iterable[str], refused: Mapping[str, str]) -> list[Event]:
        """What is new since the attempts before."""
        addresses = [address for address in taken if address not in self._parcel.settled]
        events = [self._told(addresses)] if addresses else []
        for address, reason in refused.items():
            if address not in self._parcel.settled:
                text = f"{self._receiver} could not notify {printable(address, 120)}: {shown(reason)}"
                events.append(self._event(EventKind.NOT_TOLD, text, [address]))
        return events

    def _keep(self, threads: Mapping[int, Mapping[str, str]]) -> None:
        deliveries.keep_threads(self._connection, self._receiver, self._parcel.to, threads, self._now)

    def _note(self, numbers: Iterable[int], events: Sequence[Event]) -> None:
        incidents.note(self._connection, [(number, event) for number in numbers for event in events])

    def _told(self, addresses: Sequence[str]) -> Event:
        return self._event(EventKind.TOLD, f"notified {_whom(self._parcel)} by {self._receiver}", addresses)

    def _event(self, kind: EventKind, text: str, addresses: Sequence[str]) -> Event:
        to = self._parcel.to
        data = {"receiver": self._receiver, "audience": to.to.value, "user": to.user, "addresses": list(addresses)}
        return Event(self._now, kind, text, data=data)


def _whom(parcel: Parcel) -> str:
    return "operators" if parcel.to == OPERATORS else "the user of the job"
