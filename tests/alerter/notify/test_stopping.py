"""The end of a term: what is not on its way to a receiver yet is left to whoever evaluates next."""

from __future__ import annotations

import time

import pytest

from dutycycle_alerter.evaluator import Evaluator
from dutycycle_alerter.notify.delivering import Courier
from dutycycle_alerter.scheduler import Scheduler
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.lease import Lease
from tests.alerter.notify.outbox import configured, route


def test_a_term_that_ends_lets_couriers_begin_nothing_more_before_it_waits_for_them(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(Courier, "stop", lambda courier: said.append(f"stop {courier.name}"))
    monkeypatch.setattr(Courier, "close", lambda courier: said.append(f"close {courier.name}"))
    monkeypatch.setattr(Scheduler, "cancel", lambda *_: said.append("wait"))
    database, scheduler = open_database(sqlite_url), Scheduler()
    term = Lease(database, "a", 3600.0).take()
    assert term is not None
    settings = configured(route("webhook")).scaled()
    Evaluator(settings, term, time.time, scheduler, lost=lambda: None).close()
    database.close()
    assert said == ["stop webhook", "wait", "wait", "close webhook"]
