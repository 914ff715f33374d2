"""What who has role `own` does not see of their own jobs: operators' addresses, others on the same GPU, the store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dutycycle_alerter.incidents.expectations import Expectation, Scope
from dutycycle_alerter.incidents.model import Event, EventKind
from dutycycle_alerter.web.access.seen import OwnReader
from tests.alerter.web.conftest import Client
from tests.alerter.web.doubles import NOW, FixedReader, gpu_now, incident
from tests.alerter.web.people import AUTH, bearer


def told(kind: EventKind, audience: str, text: str) -> Event:
    return Event(NOW, kind, text, data={"audience": audience, "addresses": ["root@example.org"]})


def test_the_history_has_no_addresses_of_who_was_taken_for_the_user() -> None:
    history = [
        Event(NOW, EventKind.TOLD, f"notified {user}", data={"audience": "owner", "user": user, "addresses": [user]})
        for user in ("bob", "alice")
    ]
    seen = OwnReader(FixedReader(found=[incident()], history=history), "alice").events(7)
    assert [event.data.get("addresses") for event in seen] == [None, ["alice"]]


def test_the_history_has_no_addresses_of_operators() -> None:
    history = [
        Event(NOW, EventKind.OPENED, "opened"),
        told(EventKind.TOLD, "operators", "notified operators by mail"),
        told(EventKind.NOT_TOLD, "operators", "mail could not notify root@example.org: full"),
        told(EventKind.TOLD, "owner", "notified the user of the job by mail"),
    ]
    seen = OwnReader(FixedReader(found=[incident()], history=history), "alice").events(7)
    assert [event.text for event in seen] == [
        "opened",
        "operators were notified",
        "operators could not be notified",
        "notified the user of the job by mail",
    ]
    assert "root@example.org" not in repr(seen[:3])
    assert seen[3] == history[3]


def test_of_a_shared_gpu_it_has_no_sums_over_others() -> None:
    alone = gpu_now()
    shared = gpu_now(workloads=(("slurm/1", "alice", 0.5), ("slurm/2", "bob", 0.5)))
    others = gpu_now(workloads=(("slurm/2", "bob", 1.0),))
    seen = OwnReader(FixedReader(devices=[alone, shared, others]), "alice").gpus()
    assert len(seen) == 2
    assert seen[0] == alone
    assert seen[1].workloads == (("slurm/1", "alice", 0.5),)
    assert (seen[1].processes, seen[1].memory_used, seen[1].power) == (None, None, None)


def test_what_the_store_says_is_for_operators(serve: Callable[..., Client], caplog: pytest.LogCaptureFixture) -> None:
    client = serve(FixedReader(broken=True), auth=AUTH)
    for path, headers, says in (
        ("/", bearer("olga"), True),
        ("/", bearer("alice"), False),
        ("/api/v1/gpus", bearer("vic"), False),
        ("/-/ready", {}, False),
    ):
        answer = client.get(path, **headers)
        assert answer.status == 503
        assert ("gone.sqlite3" in answer.data.decode()) is says
        assert "store does not answer" in answer.data.decode()
    assert "gone.sqlite3" in caplog.text


def test_of_what_was_intended_it_asks_for_its_users_alone() -> None:
    said = [
        Expectation(Scope.USER, "", user, ("idle",), "a course", "olga", NOW, NOW + 60) for user in ("alice", "bob")
    ]
    reader = FixedReader(intended=said)
    seen = OwnReader(reader, "alice")
    assert seen.expectations() == seen.expectations(user="alice") == said[:1]
    assert list(seen.expectations(user="bob")) == []
