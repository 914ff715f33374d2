"""Incidents, parcels and receivers for tests of Alertmanager."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from dutycycle_alerter.incidents.model import Incident, Resolution, State
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import OPERATORS, Item, Parcel, ParcelKind
from dutycycle_alerter.notify.receivers.alertmanager import (
    AlertmanagerReceiver,
)
from dutycycle_alerter.settings.notify import Alertmanager
from tests.alerter.notify.listening import PlainComposer
from tests.alerter.web import doubles
from tests.fakes.alertmanager import matcher

LINKS = Links("https://gpus.example.org", b"key")
Receivers = Callable[..., AlertmanagerReceiver]


ids = itertools.count(1)


def incident(**changes: Any) -> Incident:
    """One of its own, in a cluster of its own, open for an hour."""
    number, now = next(ids), time.time()
    values = {
        "id": number,
        "cluster": f"c{number}",
        "subject": f"c{number}/slurm/1",
        "scheduler": "slurm",
        "opened_at": now - 3600,
        "started_at": now - 7200,
    }
    return doubles.incident(**(values | changes))


def parcel(*incidents: Incident, kind: ParcelKind = ParcelKind.INCIDENTS) -> Parcel:
    return Parcel("p1", kind, OPERATORS, tuple(Item(one, ()) for one in incidents), time.time())


def resolved(one: Incident) -> Incident:
    return replace(one, state=State.RESOLVED, resolved_at=time.time(), resolution=Resolution.CLEARED)


def of(one: Incident) -> str:
    return matcher("incident", str(one.id))


def making() -> Iterator[Receivers]:
    """Makes receivers for a URL with these settings, closed at the end."""
    made = []

    def make(url: str, *, clock: Callable[[], float] = time.time, **settings: Any) -> AlertmanagerReceiver:
        made.append(
            AlertmanagerReceiver("site", Alertmanager(url=url, **settings), PlainComposer(), LINKS, clock=clock)
        )
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()
