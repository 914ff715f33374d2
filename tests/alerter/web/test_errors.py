"""What is answered when something is wrong: a page for people, an object for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.alerter.web.conftest import Client, Live
from tests.alerter.web.doubles import FixedReader, full_reader
from tests.alerter.web.html import parse

Serve = Callable[..., Client]


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("/nowhere", 404, "There is no such page"),
        ("/incidents/4711", 404, "There is no such incident"),
        ("/incidents/abc", 404, "There is no such page"),
        ("/incidents/0", 422, "incident_id"),
        (f"/incidents/{10**30}", 422, "incident_id"),
        ("/incidents/7?done=hacked", 422, "done"),
        ("/?page=0", 422, "page: Input should be greater than or equal to 1"),
        ("/?page=10001", 422, "page"),
        ("/?page=x", 422, "page"),
        ("/?state=closed", 422, "state"),
        ("/?severity=awful", 422, "severity"),
        (f"/?user={'x' * 201}", 422, "user: String should have at most 200 characters"),
        (f"/?rule={'x' * 65}", 422, "rule"),
        (f"/?text={'x' * 201}", 422, "text"),
        ("/users?range=1y", 422, "range"),
        ("/gpus?page=-1", 422, "page"),
    ],
)
def test_what_cannot_be_answered_is_said_on_a_page(serve: Serve, path: str, code: int, says: str) -> None:
    answer = serve(full_reader("")).get(path)
    page = parse(answer.data.decode())
    assert answer.status == code
    assert says in page.all("main")[0].words
    assert page.all("main")[0].all("a")[0].attributes["href"] == "/"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/nowhere", 404),
        ("/api/v1/incidents/4711", 404),
        ("/api/v1/incidents/0", 422),
        ("/api/v1/incidents?limit=1001", 422),
        ("/api/v1/incidents?limit=0", 422),
        ("/api/v1/incidents?offset=-1", 422),
        ("/api/v1/incidents?state=closed", 422),
        ("/api/v1/incidents?state=" + "&state=".join(["open"] * 5), 422),
        (f"/api/v1/incidents?text={'x' * 201}", 422),
        ("/api/v1/users?since=yesterday", 422),
        ("/api/v1/users?since=0s", 422),
        ("/api/v1/users?since=1000d", 422),
        (f"/api/v1/users?since={'1s' * 5000}", 422),
    ],
)
def test_programs_get_the_same_as_json(serve: Serve, path: str, code: int) -> None:
    answer = serve(full_reader("")).get(path)
    assert answer.status == code
    assert answer.headers["content-type"] == "application/json"
    error = json.loads(answer.data)["error"]
    assert error["code"] == code
    assert error["message"]


@pytest.mark.parametrize("path", ["/", "/users", "/gpus", "/incidents/7"])
def test_a_store_that_does_not_answer_is_said_and_nothing_is_shown_as_empty(serve: Serve, path: str) -> None:
    answer = serve(FixedReader(broken=True)).get(path)
    page = parse(answer.data.decode())
    assert answer.status == 503
    assert page.all("h1")[0].words == "The store does not answer"
    assert "disk I/O error" in page.words
    assert not page.all("section")


@pytest.mark.parametrize("path", ["incidents", "incidents/7", "users", "gpus", "status"])
def test_the_api_says_so_too(serve: Serve, path: str) -> None:
    answer = serve(FixedReader(broken=True)).get(f"/api/v1/{path}")
    assert answer.status == 503
    assert "disk I/O error" in json.loads(answer.data)["error"]["message"]


def test_a_defect_shows_no_stack_trace(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    reader = full_reader("")
    reader.found = [object()]  # type: ignore[list-item]
    answer = serve(reader).get("/api/v1/incidents")
    assert answer.status == 500
    assert "Traceback" not in answer.data.decode()
    assert "AttributeError" not in answer.data.decode()
    # It is logged after it was answered.
    deadline = time.monotonic() + 60
    while "AttributeError" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "AttributeError" in caplog.text


@pytest.mark.parametrize(
    "path", ["/xyzzy", "/?page=xyzzy", "/?state=xyzzy", "/incidents/7?done=xyzzy", "/api/v1/xyzzy"]
)
def test_what_was_asked_for_is_not_repeated(serve: Serve, path: str) -> None:
    answer = serve(full_reader("")).get(path)
    assert answer.status in (404, 422)
    assert "xyzzy" not in answer.data.decode()


def test_health_does_not_depend_on_the_store_and_readiness_does(serve: Serve) -> None:
    good, broken = serve(full_reader("")), serve(FixedReader(broken=True))
    assert [client.get("/-/healthy").status for client in (good, broken)] == [200, 200]
    assert [client.get("/-/ready").status for client in (good, broken)] == [200, 503]
    assert broken.get("/-/ready").data == b"not ready: the store does not answer\n"


def test_head_is_answered_where_get_is(live: Live) -> None:
    for path in ("/", "/users", "/gpus", "/-/healthy", "/-/ready", f"/incidents/{live.incident_of('bob')}"):
        answer = live.client.request("HEAD", path)
        assert (answer.status, answer.data) == (200, b"")
