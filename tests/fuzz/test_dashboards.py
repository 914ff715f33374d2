"""What the dashboards' commands read: answers of Grafana and of the alerter, addresses, and files with tokens."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import example
from hypothesis import strategies as st

from dutycycle_dashboards.errors import AlerterError, GrafanaError, UsageError
from dutycycle_dashboards.publishing.address import base_url, token
from dutycycle_dashboards.publishing.alerter_api import Alerter
from dutycycle_dashboards.publishing.comparing import difference
from dutycycle_dashboards.publishing.grafana import Grafana
from dutycycle_dashboards.publishing.inert import inert
from dutycycle_dashboards.publishing.marks import key_of, mark
from tests.fuzz.hostile import RAW, documents, jsons, texts
from tests.fuzz.running import fuzz

INCIDENT = {
    "id": 7,
    "started_at": "2026-11-20T08:30:00Z",
    "resolved_at": "2026-11-20T10:00:00+01:00",
    "cluster": "lab",
    "rule": "idle",
    "severity": "warning",
    "user": "ada",
    "subject": "slurm/7",
    "title": "All 8 GPUs are idle",
    "resolution": "ended",
    "wasted_gpu_hours": 12.5,
    "gpus": [{"node": "n1", "workload": "slurm/7"}],
}
PAGES = (
    {"incidents": [INCIDENT, {**INCIDENT, "id": 8, "resolved_at": None}], "total": 2},
    {"incidents": [], "total": 0},
)
TIMES = ('"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59-23:59"', '"1969-12-31T23:59:59Z"', '"2026-11-20"', "1e9")


class _Opener:
    """Answers every page with the same bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.asked = 0

    @contextmanager
    def open(self, *_: object, **__: object) -> Iterator[io.BytesIO]:
        self.asked += 1
        yield io.BytesIO(self._body)


@fuzz(body=jsons(PAGES, raw=TIMES))
@example(body=json.dumps({**PAGES[0], "total": 65534}).encode())
def test_a_page_of_incidents_is_marks_or_refused(body: bytes) -> None:
    source = Alerter("http://alerter.example", "t0ken-do-not-show")
    source._opener = opener = _Opener(body)  # type: ignore[assignment]
    found = []
    try:
        for incident in source.incidents(7 * 86400.0):
            found.append(incident)
    except AlerterError as error:
        assert "http://alerter.example" in str(error), "names the address"
        assert len(str(error)) < 1000
    assert opener.asked <= 20
    assert len({one["id"] for one in found}) == len(found), "each once"
    for incident in found:
        try:
            made = mark(incident)
        except (ValueError, OverflowError):
            continue
        assert made.start > 0
        assert made.end is None or made.end >= made.start
        assert made.text
        assert len(made.text) <= 300
        assert made.text.isprintable()
        assert not set(made.text) & set("<>&$")
        assert sum(len(tag.encode()) + 3 for tag in made.tags) <= 490
        assert all(tag.isprintable() for tag in made.tags)
        assert key_of(made.tags) == made.key or len(made.key[0]) > 80 or not made.key[0].strip()


class _Answered(Grafana):
    """A Grafana that has answered already: the client that asks it is not of this environment."""

    def __init__(self, answer: object) -> None:
        self._url, self._token = "https://grafana.example", "t0ken-do-not-show"
        self._answer = answer

    def _asked(self, what: str, call: Callable[[], Any]) -> Any:
        return self._answer


BOARD = {
    "uid": "dutycycle-fleet",
    "title": "Fleet",
    "schemaVersion": 41,
    "version": 3,
    "panels": [{"id": 1}],
    "tags": [],
}
ANSWERS = (
    {"dashboard": BOARD, "meta": {"version": 3, "folderUid": "dutycycle", "provisioned": False}},
    [{"id": 1, "time": 1, "timeEnd": 2, "text": "a", "tags": ["dutycycle", "incident:7", "cluster:lab"]}],
    {"message": "Not found", "status": "name-exists", "version": 4},
)


@fuzz(body=jsons(ANSWERS, raw=RAW), status=st.integers(100, 999))
def test_an_answer_of_grafana_is_understood_or_refused(body: bytes, status: int) -> None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return  # the client's, whose errors `_asked` translates
    grafana = _Answered(answer)
    for call in (
        lambda: grafana.dashboard("dutycycle-fleet"),
        lambda: grafana.annotations(["dutycycle"], since=1, until=2, limit=3),
        lambda: grafana.save({"uid": "dutycycle-fleet"}, folder="f", overwrite=False, message=""),
    ):
        try:
            found: Any = call()
        except GrafanaError as error:
            assert str(error).startswith("https://grafana.example answers, but not as Grafana does")
            continue
        for one in found if isinstance(found, list) else ():
            key_of(one.tags)
            assert one.number > 0
        if hasattr(found, "model"):
            assert isinstance(found.version, int)
            assert difference(found.model, found.model) == ""
            difference(found.model, BOARD)
    error = grafana._refusal("reading", status, answer)
    assert error.status == status
    assert len(str(error)) < 1000
    assert str(error).isprintable()


URLS = ("https://grafana.example/path/", "http://localhost:3000", "http://[::1]:3000", "https://user:pw@host")


@fuzz(text=texts(URLS, tokens=["//", "[", ":99999", "@", "?", "#", "http:"]), secret=st.booleans())
@example(text="Http://localhost:3000/", secret=True)
@example(text="http://local\nhost:3000/", secret=True)
@example(text=f"http://{'{' * 3000}", secret=True)
@example(text=f"http://localhost:{'{' * 3000}", secret=True)
def test_an_address_is_one_to_which_a_token_may_go_or_refused(text: str, secret: bool) -> None:
    try:
        url = base_url(text, "--url", secret=secret)
    except UsageError as error:
        assert str(error).startswith("--url: "), "names the option"
        assert len(str(error)) < 2000
        return
    assert url.startswith(("http://", "https://"))
    assert url.isprintable()
    assert " " not in url
    assert not url.endswith("/")


@fuzz(content=documents([b"glsa_0123456789abcdef\n", b"\r\n"]))
def test_a_file_holds_one_token_or_is_refused(content: bytes, directory: Path) -> None:
    path = directory / "token"
    path.write_bytes(content)
    try:
        found = token(path, "--token-file")
    except UsageError as error:
        assert str(error).startswith(f"--token-file: {path} "), "names the option and the file"
        return
    assert found
    assert found.isascii()
    assert found.isprintable()
    assert " " not in found


@fuzz(text=st.text(max_size=200) | texts(["<b>x</b>"]), limit=st.integers(1, 100))
def test_what_grafana_shows_obeys_nothing(text: str, limit: int) -> None:
    shown = inert(text, limit)
    assert len(shown) <= limit
    assert shown.isprintable()
    assert not set(shown) & set("<>&$")
