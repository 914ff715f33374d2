"""The couriers of all receivers, made and let go as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dutycycle_alerter.notify.announcing import Announcer
from dutycycle_alerter.notify.composing import Composition
from dutycycle_alerter.notify.composing.pictures import Series
from dutycycle_alerter.notify.composing.weekly import Weekly
from dutycycle_alerter.notify.delivering import Courier
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import Receiver
from dutycycle_alerter.notify.receivers.building import receivers
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.keys import signing_key
from dutycycle_alerter.store.transactions import Transactions
from dutycycle_alerter.views import DeliveryCounts


@dataclass(frozen=True, slots=True)
class Contents:
    """Where messages get what is not in their incidents: curves, the weekly report, and whether a recording is played.

    Without them mails have no pictures, there is no report, and nothing is a replay.
    """

    series: Series | None = None
    weekly: Weekly | None = None
    replay: bool = False


class Couriers:
    """Tells of incidents during one term. `settings` are scaled (wall seconds), `clock` is wall time."""

    def __init__(self, settings: Settings, store: Transactions, clock: Callable[[], float], contents: Contents) -> None:
        """Raises ConfigError, StoreError."""
        self.announcer = Announcer(settings, store)
        self.announcer.begin(clock())
        key = signing_key(store) if settings.notify.receivers else b""
        made = _made(settings, key, contents, clock)
        self.all = tuple(
            Courier(settings, one, made[one.name], self.announcer, store, clock) for one in settings.notify.receivers
        )

    def counts(self) -> Mapping[str, DeliveryCounts]:
        """What became of messages so far, by receiver."""
        return {courier.name: courier.counts for courier in self.all}

    def stop(self) -> None:
        """Begin nothing more."""
        for courier in self.all:
            courier.stop()

    def close(self) -> None:
        """Let go of the receivers, when none of them is used."""
        for courier in self.all:
            courier.close()


def check_receivers(settings: Settings) -> None:
    """See that every receiver can be used as it is configured, and let go of them. Raises ConfigError."""
    for receiver in _made(settings, b"", Contents(), lambda: 0.0).values():
        receiver.close()


def _made(settings: Settings, key: bytes, contents: Contents, clock: Callable[[], float]) -> Mapping[str, Receiver]:
    if not settings.notify.receivers:
        return {}
    links = Links(settings.web.public_url, key, settings.notify.dashboard_url)
    composer = Composition(
        settings, links, series=contents.series, weekly=contents.weekly, replay=lambda: contents.replay
    )
    return receivers(settings.notify, composer, links, clock=clock)
