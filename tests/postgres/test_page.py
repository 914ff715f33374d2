"""While PostgreSQL is gone or says nothing, page, API and the alerter's own metrics say so; then they are as before."""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC

import pytest

from dutycycle_alerter.store import patient, postgresql
from dutycycle_alerter.store.database import open_database
from dutycycle_alerter.store.reader import StoreReader
from dutycycle_alerter.web import shared
from dutycycle_alerter.web.app import create_app
from tests.alerter.store.test_incidents import NOW, add, incident
from tests.alerter.web.conftest import serving
from tests.postgres.server import PASSWORD, PostgresServer


def killed(server: PostgresServer) -> tuple[Callable[[], None], Callable[[], None]]:
    return server.kill, server.start


def frozen(server: PostgresServer) -> tuple[Callable[[], None], Callable[[], None]]:
    return server.freeze, server.thaw


def test_a_store_that_does_not_answer_is_told_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "THERE_LIMIT", 0.5)
    monkeypatch.setattr(postgresql, "_ANSWER_LIMIT", 0.5)
    # What the scrape before read would do for a second.
    monkeypatch.setattr(shared, "_FRESH", 0.0)
    with (
        PostgresServer() as server,
        closing(open_database(f"{server.url(server.create())}?connect_timeout=2", time_scale=1)) as database,
    ):
        add(database, incident())
        store = StoreReader(database, lambda: NOW)
        with serving(create_app(store, store, clock=lambda: NOW, zone=UTC)) as client:

            def get(path: str) -> tuple[int, str]:
                answer = client.get(path)
                return answer.status, answer.data.decode()

            for end, begin in (killed(server), frozen(server)):
                assert "slurm/1" in get("/")[1]
                assert "dutycycle_alerter_store_up 1.0" in get("/metrics")[1]
                end()
                try:
                    answers = {path: get(path) for path in ("/", "/api/v1/incidents", "/incidents/1", "/metrics")}
                finally:
                    begin()
                assert "dutycycle_alerter_store_up 0.0" in answers["/metrics"][1]
                assert answers.pop("/metrics")[0] == 200
                for status, text in answers.values():
                    assert (status, "The store does not answer" in text) == (503, True)
                    assert PASSWORD not in text
                assert "slurm/1" in get("/incidents/1")[1]
