"""The whole alerter tells: from exporters on real sockets to a program that takes webhooks, beside a receiver that
hangs, over two alerters of which one evaluates, and not at all with a configuration that cannot be used.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.app import Alerter
from dutycycle_alerter.errors import ConfigError, LeaseLostError
from dutycycle_alerter.evaluator import check
from dutycycle_alerter.incidents.model import EventKind
from dutycycle_alerter.notify.model import Parcel
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.database import Database
from dutycycle_alerter.store.lease import Lease, Term
from dutycycle_alerter.views import IncidentFilter
from tests.alerter.exporters import FakeExporter, serving
from tests.alerter.notify.listening import Listening, listening
from tests.alerter.notify.outbox import MINUTE, Office, configured, idle, receiver, route
from tests.alerter.waiting import wait_until

SCALE = 600.0


@contextmanager
def hanging() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


@pytest.fixture
def hook() -> Iterator[Listening]:
    with listening() as heard:
        yield heard


def documents(heard: Listening) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in heard.requests]


def test_what_exporters_show_is_told_and_a_receiver_that_hangs_holds_up_nothing(
    tmp_path: Path, hook: Listening
) -> None:
    exporter = FakeExporter("gpu01", 1, time_scale=SCALE)
    exporter.allocate("slurm/1", 0, start=1.0)

    shown = time.monotonic()

    def page() -> str:
        nonlocal shown
        before, shown = shown, time.monotonic()
        exporter.run(shown - before, 0.0)
        return exporter.page()

    with serving(page) as (target,), hanging() as silent:
        settings = Settings.model_validate(
            {
                "database": f"sqlite:///{tmp_path / 'store.sqlite3'}",
                "time_scale": SCALE,
                "source": {"targets": [target]},
                "notify": {
                    "people": {"address": "{user}@example.org"},
                    "owners": {"wasted_gpu_hours": 0},
                    "receivers": [
                        {"name": "users", "email": {"to": ["ops@example.org"]}},
                        {"name": "hangs", "webhook": {"url": silent, "timeout": "1s"}},
                        {"name": "hook", "webhook": {"url": hook.url}},
                    ],
                    "routes": [
                        {"receiver": "users", "audience": "owner", "group_wait": "7d"},
                        {"receiver": "hangs", "group_wait": "1s"},
                        {"receiver": "hook", "group_wait": "1s"},
                    ],
                },
            }
        )
        with Alerter(settings) as alerter:
            wait_until(lambda: hook.requests)
            wait_until(lambda: alerter.deliveries()["hangs"].retried)
            passes = alerter.tasks()["pass"].runs
            wait_until(lambda: alerter.tasks()["pass"].runs > passes + 3)
            (item,) = alerter.store.incidents(IncidentFilter(rule="idle"))[0]
            alerter.store.acknowledge(item.id, actor="bob")
            wait_until(lambda: any("acknowledged" in request.body.decode() for request in hook.requests))
            wait_until(lambda: alerter.deliveries()["hook"].sent >= 2)
            assert alerter.deliveries()["hook"].failing_since is None
            assert alerter.store.outbox()["hangs"].notices >= 1
            assert alerter.store.outbox()["users"].notices == 1, "of a pass alone users hear"
            told = {event.text for event in alerter.store.events(item.id) if event.kind is EventKind.TOLD}
            assert told == {"notified operators by hook"}


MISSING = "/nonexistent/secret"
UNUSABLE = {
    "email": ({"to": ["a@b"], "username": "x", "password_file": MISSING}, "password_file"),
    "slack": ({"token_file": MISSING, "channel": "#x"}, "token_file"),
    "slack_webhook": ({"url_file": MISSING}, "url_file"),
    "alertmanager": ({"url": "http://a", "ca_file": MISSING}, "ca_file"),
    "webhook": ({"url": "http://a", "secret_file": MISSING}, "secret_file"),
    "apprise": ({"urls_file": MISSING}, "urls_file"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_receiver_that_cannot_be_used_is_an_error_at_the_start_that_names_it(tmp_path: Path, kind: str) -> None:
    values, key = UNUSABLE[kind]
    settings = Settings.model_validate(
        {
            "database": f"sqlite:///{tmp_path / 'store.sqlite3'}",
            "notify": {"receivers": [{"name": "mine", kind: values}]},
        }
    )
    with pytest.raises(ConfigError, match=f"receiver mine: {kind}.{key}: {MISSING}"):
        check(settings.scaled())
    with pytest.raises(ConfigError, match="receiver mine"):
        Alerter(settings).__enter__()


@pytest.mark.parametrize("people", [{"map_file": MISSING}])
def test_people_who_cannot_be_looked_up_are_an_error_at_the_start(people: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=MISSING):
        check(configured(route("email"), people=people).scaled())


def test_every_kind_of_receiver_is_made_and_let_go() -> None:
    check(configured(receivers=[receiver(kind) for kind in UNUSABLE if kind != "apprise"]).scaled())


def term(database: Database, name: str, *, alone: bool = False) -> Term:
    taken = Lease(database, name, 3600, alone=alone).take()
    assert taken is not None
    return taken


@pytest.mark.parametrize("moment", ["before it begins", "while it is sent"])
def test_who_lost_the_lease_neither_begins_nor_records_a_delivery(database: Database, moment: str) -> None:
    """What it had begun it may still send: then the next one sends it again, with the same key."""
    mine = term(database, "a")
    first = Office(database, configured(route("email")), store=mine)
    first.open(idle(1))
    first.clock.advance(2 * MINUTE)
    taken: list[Term] = []

    def lose(_: Parcel) -> None:
        taken.append(term(database, "b", alone=True))

    if moment == "while it is sent":
        first.inboxes["email"].fails = lose  # type: ignore[assignment]
    else:
        taken.append(term(database, "b", alone=True))
    with pytest.raises(LeaseLostError):
        first.turn()
    sent = first.got("email")
    assert len(sent) == (moment == "while it is sent")
    second = Office(database, configured(route("email")), store=taken[0], clock=first.clock)
    second.turn()
    assert len(second.got("email")) == (moment == "before it begins"), "what is on its way has some time to arrive"
    second.go(2 * MINUTE)
    (got,) = second.got("email")
    assert [item.parcel.key for item in sent] in ([], [got.parcel.key])
    assert got.parcel.attempt == len(sent) + 1
    first.turn()
    second.go(20 * MINUTE)
    assert (len(first.got("email")), len(second.got("email"))) == (len(sent), 1)
