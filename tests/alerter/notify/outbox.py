"""An outbox over a real store in a test's own time: incidents that change, and receivers that keep what they get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, OpenRule, Resolution, Severity, State, Step
from dutycycle_alerter.notify.announcing import Announcer
from dutycycle_alerter.notify.delivering import Courier
from dutycycle_alerter.notify.model import Parcel, ParcelKind, Receipt
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.notify import News, Notify
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.store.transactions import Transactions
from tests.alerter.store.test_incidents import NOW, incident
from tests.fakes.clock import FakeClock

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

KINDS: Mapping[str, Mapping[str, Any]] = {
    "slack": {"token": "xoxb-1", "channel": "#gpus"},
    "slack_webhook": {"url": "https://hooks.example.org/1"},
    "email": {"to": ["ops@example.org"]},
    "alertmanager": {"url": "http://alertmanager.example.org"},
    "webhook": {"url": "http://hook.example.org"},
    "apprise": {"urls": ["json://example.org"]},
}


def receiver(kind: str, name: str = "", **fields: object) -> dict[str, object]:
    """A receiver as configured, called by its kind unless it has a name."""
    return {"name": name or kind, kind: dict(KINDS[kind]), **fields}


def route(to: str, audience: str = "operators", **fields: object) -> dict[str, object]:
    """A route as configured."""
    return {"receiver": to, "audience": audience, **fields}


def configured(
    *routes: Mapping[str, object],
    receivers: Sequence[Mapping[str, object]] = (),
    time_scale: float = 1,
    **notify: object,
) -> Settings:
    """Settings, not scaled. Receivers that are not given are those of the routes, each called by its kind, and every
    user has an address.
    """
    made = list(receivers) or [receiver(kind) for kind in dict.fromkeys(str(item["receiver"]) for item in routes)]
    people = {"address": "{user}@example.org"}
    return Settings.model_validate(
        {"time_scale": time_scale, "notify": {"people": people, "receivers": made, "routes": list(routes), **notify}}
    )


def notify(*routes: Mapping[str, object], **fields: Any) -> Notify:
    """Its section alone, scaled."""
    return configured(*routes, **fields).scaled().notify


@dataclass(frozen=True)
class Got:
    """A message as a receiver got it."""

    at: float
    parcel: Parcel

    @property
    def numbers(self) -> list[int]:
        """Of its incidents."""
        return [item.incident.id for item in self.parcel.items]

    @property
    def news(self) -> list[list[News]]:
        """What it tells of each of them."""
        return [[telling.news for telling in item.tellings] for item in self.parcel.items]


@dataclass
class Inbox:
    """A receiver in memory. `fails` is asked before a message is taken: an error that it returns is raised."""

    clock: Callable[[], float]
    got: list[Got] = field(default_factory=list)
    asked: list[Got] = field(default_factory=list)
    fails: Callable[[Parcel], Exception | None] = lambda _: None
    threads: bool = False
    addresses: tuple[str, ...] = ("ops@example.org",)
    refused: Mapping[str, str] = field(default_factory=dict)
    closed: bool = False

    def deliver(self, parcel: Parcel) -> Receipt:
        self.asked.append(Got(self.clock(), parcel))
        error = self.fails(parcel)
        if error is not None:
            raise error
        self.got.append(Got(self.clock(), parcel))
        kept = (
            {item.incident.id: {"ts": f"{item.incident.id}.0"} for item in parcel.items}
            if self.threads and parcel.kind is ParcelKind.INCIDENTS
            else {}
        )
        return Receipt(kept, self.addresses, self.refused)

    def close(self) -> None:
        self.closed = True

    def down(self, *, retry_after: float | None = None) -> None:
        """From now on nothing is taken."""
        self.fails = lambda _: DeliveryError("connection refused", retry_after=retry_after)

    def up(self) -> None:
        """It works again."""
        self.fails = lambda _: None


class Office:
    """The outbox of one configuration: `change` is what a pass or a person does, `turn` what couriers do."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        store: Transactions | None = None,
        clock: FakeClock | None = None,
        inboxes: Mapping[str, Inbox] | None = None,
    ) -> None:
        self.database = database
        self.clock = clock or FakeClock(NOW)
        self.settings = settings.scaled()
        self.store = store or database
        self.announcer = Announcer(self.settings, self.store)
        self.announcer.begin(self.clock())
        self.inboxes = dict(inboxes or {})
        self.couriers: dict[str, Courier] = {}
        for one in self.settings.notify.receivers:
            inbox = self.inboxes.setdefault(one.name, Inbox(self.clock, threads=one.kind == "slack"))
            self.couriers[one.name] = Courier(self.settings, one, inbox, self.announcer, self.store, self.clock)
        self.reader = StoreReader(database, self.clock)

    def open(self, *items: Incident) -> list[Incident]:
        """A pass opens incidents."""
        steps = []
        for item in items:
            opened = replace(item, opened_at=self.clock(), known_at=self.clock(), updated_at=self.clock())
            text = f"{item.rule}: {item.diagnosis.summary}"
            steps.append((None, Step(opened, (Event(self.clock(), EventKind.OPENED, text),))))
        return self._saved(steps)

    def change(self, item: Incident, kind: EventKind, text: str = "", **changes: object) -> Incident:
        """A pass changes one."""
        before = self.read(item)
        after = replace(before, updated_at=self.clock(), known_at=self.clock(), **changes)  # type: ignore[arg-type]
        return self._saved([(before, Step(after, (Event(self.clock(), kind, text or kind.value),)))])[0]

    def resolve(self, *items: Incident) -> None:
        """A pass finds that they cleared."""
        steps = []
        for item in items:
            before = self.read(item)
            after = replace(
                before, state=State.RESOLVED, resolution=Resolution.CLEARED, resolved_at=self.clock(), rules=()
            )
            steps.append((before, Step(after, (Event(self.clock(), EventKind.RESOLVED, "the condition cleared"),))))
        self._saved(steps)

    def run_pass(self) -> None:
        """A pass that changes nothing."""
        self._saved([])

    def read(self, item: Incident) -> Incident:
        found = self.reader.incident(item.id)
        assert found is not None
        return found

    def turn(self, *names: str) -> None:
        """The couriers, once."""
        for name, courier in self.couriers.items():
            if not names or name in names:
                courier.turn()

    def go(self, seconds: float, *, step: float = 10.0) -> None:
        """Let time pass, with a turn every `step`."""
        until = self.clock() + seconds
        while self.clock() < until:
            self.clock.advance(min(step, until - self.clock()))
            self.turn()

    def got(self, name: str) -> list[Got]:
        return self.inboxes[name].got

    def events(self, item: Incident, *kinds: EventKind) -> list[Event]:
        return [event for event in self.reader.events(item.id) if event.kind in kinds]

    def _saved(self, steps: list[tuple[Incident | None, Step]]) -> list[Incident]:
        with self.store.write() as connection:
            saved = incidents.save_all(connection, steps)
            self.announcer.announce(connection, self.clock())
        return [item for item in saved if item is not None]


def idle(number: int = 1, *, severity: Severity = Severity.WARNING, rule: str = "idle", **changes: object) -> Incident:
    """An incident to be opened: job `number` of alice."""
    return incident(f"slurm/{number}", severity=severity, rule=rule, rules=(OpenRule(rule, NOW, severity),), **changes)


def office(database: Database, *routes: dict[str, object], **fields: object) -> Office:
    """With these routes."""
    return Office(database, configured(*routes, **fields))  # type: ignore[arg-type]
