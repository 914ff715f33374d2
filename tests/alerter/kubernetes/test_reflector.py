"""A list and watch step by step: which request follows which answer, and what is fresh in between."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from dutycycle_alerter.kubernetes import reflector
from dutycycle_alerter.kubernetes.client import refused
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.kubernetes.objects import Status
from dutycycle_alerter.kubernetes.pace import Pace
from dutycycle_alerter.kubernetes.pods import PodDecoder, gpu_resources
from dutycycle_alerter.kubernetes.reflector import Reflector
from dutycycle_alerter.kubernetes.tables import PodTable
from tests.alerter.kubernetes.watched import CALM as PACE
from tests.alerter.kubernetes.watched import until
from tests.fakes.clock import FakeClock
from tests.fakes.kubernetes import builders

EXPIRED = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}'
CALM = replace(PACE, settle=0.0, first_pause=0.001, longest_pause=0.002)
SETTLING = "connected again, what was missed is still coming"


def page(*uids: str, version: str = "10", more: str = "", **fields: Any) -> bytes:
    items = [builders.pod(uid, uid=uid) for uid in uids]
    metadata = {"resourceVersion": version, "continue": more}
    return json.dumps({"kind": "PodList", "metadata": metadata, "items": items, **fields}).encode()


def event(told: str, uid: str, version: str) -> bytes:
    content = builders.pod(uid, uid=uid)
    content["metadata"]["resourceVersion"] = version
    return json.dumps({"type": told, "object": content}).encode()


def bookmark(version: str) -> bytes:
    content = {"kind": "Pod", "metadata": {"resourceVersion": version}, "spec": {"containers": None}, "status": {}}
    return json.dumps({"type": "BOOKMARK", "object": content}).encode()


class Lines:
    """A watch that tells these lines, and then ends, fails, or stays."""

    def __init__(self, told: Iterable[bytes], end: Exception | None, over: queue.SimpleQueue[None]) -> None:
        self._told = told
        self._end = end
        self._over = over

    def lines(self) -> Iterator[bytes]:
        yield from self._told
        if isinstance(self._end, EOFError):
            return
        if self._end is not None:
            raise self._end
        self._over.get()

    def cut(self) -> None:
        self._over.put(None)


class Script:
    """A client whose answers are told beforehand: bytes for a list; lines and an end for a watch; an error for either.
    The last watch stays.
    """

    shown = "Kubernetes"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.renewed = 0
        self.told = False
        self._over: queue.SimpleQueue[None] = queue.SimpleQueue()

    def get(self, path: str, query: Mapping[str, str]) -> bytes:
        found = self._next(query)
        assert isinstance(found, bytes), f"a list was asked for, and a watch expected: {query}"
        return found

    def watch(self, path: str, query: Mapping[str, str], silence: float, longest: float) -> Lines:
        if not self.answers:
            self.asked.append(dict(query))
            self.told = True
            return Lines((), None, self._over)
        found = self._next(query)
        assert isinstance(found, tuple), f"a watch was asked for, and a list expected: {query}"
        return Lines(found[:-1], found[-1], self._over)

    def renew(self) -> None:
        self.renewed += 1

    def _next(self, query: Mapping[str, str]) -> Any:
        self.asked.append(dict(query))
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


class Run:
    """A reflector that follows a script to its end."""

    def __init__(self, *answers: Any, pace: Pace = CALM, **fields: Any) -> None:
        self.script = Script(*answers)
        self.table = PodTable(PodDecoder(gpu_resources("nvidia.com/gpu")), lambda _: None, 3600.0)
        self.reflector = Reflector(
            self.script,  # type: ignore[arg-type]
            "/api/v1/pods",
            {},
            kind="PodList",
            what="pods",
            table=self.table,
            pace=pace,
            **fields,
        )

    def __enter__(self) -> Run:
        self.reflector.start()
        until(lambda: self.script.told and not self.reflector.problem())
        return self

    def __exit__(self, *_: object) -> None:
        self.reflector.close(30)

    def versions(self) -> list[str]:
        """What was asked for, in order: the resource versions of watches, the pages of lists."""
        return [
            f"watch {query['resourceVersion']}" if "watch" in query else f"list {query.get('continue', '')}"
            for query in self.script.asked
        ]

    def pods(self) -> dict[str, bool]:
        """Whether each is gone."""
        return {uid: pod.gone for uid, pod in self.table.pods().items()}


ENDED = EOFError()


def test_pages_are_put_together_and_watched_from_the_first() -> None:
    """Whatever the server did with later pages, no change is missed."""
    with Run(page("a", more="x"), page("b", more="y", version="11"), page("c", version="12")) as run:
        assert run.versions() == ["list ", "list x", "list y", "watch 10"]
        assert run.pods() == {"a": False, "b": False, "c": False}
        assert [query.get("limit") for query in run.script.asked[:3]] == ["3", "3", "3"]
        assert run.script.asked[3]["allowWatchBookmarks"] == "true"
        assert 30 <= int(run.script.asked[3]["timeoutSeconds"]) <= 45


def test_a_watch_that_ends_goes_on_from_its_last_event_or_bookmark() -> None:
    with Run(page("a"), (event("ADDED", "b", "12"), ENDED), (bookmark("17"), ENDED), (bookmark(""), ENDED)) as run:
        assert run.versions() == ["list ", "watch 10", "watch 12", "watch 17", "watch 17"]
        assert not run.reflector.failures
        assert run.reflector.lists == 1


@pytest.mark.parametrize(
    "expired",
    [(EXPIRED, ENDED), (event("ADDED", "b", "12"), EXPIRED, ENDED), refused("there", 410, Status())],
    ids=["at once", "later", "without a watch"],
)
def test_a_place_that_expired_is_listed_anew(expired: Any) -> None:
    with Run(page("a"), expired, page("c", version="20")) as run:
        assert run.versions()[2:] == ["list ", "watch 20"]
        assert run.pods() == {"a": True, "c": False} | ({"b": True} if "b" in run.pods() else {})
        assert run.reflector.failures == {"expired": 1}


def test_pages_that_expire_begin_again_with_larger_ones() -> None:
    with Run(page("a", more="x"), refused("there", 410, Status()), page("b"), pace=replace(CALM, page=500)) as run:
        assert run.versions() == ["list ", "list x", "list ", "watch 10"]
        assert [query.get("limit") for query in run.script.asked[:3]] == ["500", "500", "2000"]
        assert run.pods() == {"b": False}


def test_nothing_is_gone_by_half_a_list() -> None:
    cut = ApiError("cut off", Failure.CUT)
    run = Run(page("a", "b"), (EXPIRED, ENDED), page("a", more="x"), cut, page("a", "b", version="30"))
    with run:
        assert run.pods() == {"a": False, "b": False}
        assert run.versions()[-2:] == ["list ", "watch 30"]


@pytest.mark.parametrize(
    "odd",
    [
        b"<html>",
        page("c", kind="NodeList"),
        page("c", version=""),
        page("c", items=5),
        json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "5"}}).encode(),
    ],
)
def test_what_is_no_list_takes_nothing_away(odd: bytes) -> None:
    with Run(page("a"), (EXPIRED, ENDED), odd, page("a", version="30")) as run:
        assert run.pods() == {"a": False}
        assert run.reflector.failures == {"expired": 1, "garbage": 1}


def test_pages_that_go_in_a_circle() -> None:
    with Run(page("a", more="x"), page("b", more="x"), page("a")) as run:
        assert run.reflector.failures == {"garbage": 1}


@pytest.mark.parametrize("line", [b"{", b"5", b'{"type": "PATCHED", "object": {}}', b'{"type": "ADDED"}', b"\xff"])
def test_a_line_that_is_no_event_goes_on_from_before(line: bytes) -> None:
    with Run(page("a"), (event("ADDED", "b", "12"), line, ENDED), (event("ADDED", "c", "13"), ENDED)) as run:
        assert run.versions() == ["list ", "watch 10", "watch 12", "watch 13"]
        assert run.reflector.failures == {"garbage": 1}
        assert set(run.pods()) == {"a", "b", "c"}


def test_a_malformed_object_is_passed_over() -> None:
    odd = b'{"type": "MODIFIED", "object": {"metadata": {"uid": "a", "resourceVersion": "12"}, "spec": 5}}'
    with Run(page("a"), (odd, ENDED)) as run:
        assert run.versions() == ["list ", "watch 10", "watch 12"]
        assert (run.pods(), run.table.malformed) == ({"a": False}, 1)


def test_a_place_that_the_server_cannot_bear_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server answers 500 to a resource version that it cannot read, and so it does to much else for a while."""
    monkeypatch.setattr(reflector, "_LONG", 0.0)
    no = refused("there", 500, Status())
    with Run(page("a"), no, no, no, page("a", version="20")) as run:
        assert run.versions() == ["list ", "watch 10", "watch 10", "watch 10", "list ", "watch 20"]


@pytest.mark.parametrize(
    "fault",
    [
        (ApiError("cut off", Failure.CUT),),
        (b"no event", ENDED),
        (b'{"type": "ERROR", "object": {"kind": "Status", "code": 500}}', ENDED),
        ApiError("400", Failure.REFUSED),
        ApiError("no lines", Failure.GARBAGE),
    ],
)
def test_a_watch_that_fails_again_and_again_from_its_place_is_listed_anew(fault: Any) -> None:
    with Run(page("a"), fault, fault, fault, page("a", version="20")) as run:
        assert run.versions() == ["list ", "watch 10", "watch 10", "watch 10", "list ", "watch 20"]


@pytest.mark.parametrize(
    "failure",
    [
        Failure.THROTTLED,
        Failure.SERVER,
        Failure.UNREACHABLE,
        Failure.TIMEOUT,
        Failure.CUT,
        Failure.UNAUTHORIZED,
        Failure.FORBIDDEN,
        Failure.CREDENTIALS,
    ],
)
def test_a_server_that_has_too_much_to_do_is_not_asked_for_all(failure: Failure) -> None:
    """Nor is one that starts, or whose proxy is away: where the watch was does as well later."""
    no = ApiError("no", failure)
    with Run(page("a"), *[no] * 9, (event("ADDED", "b", "12"), ENDED)) as run:
        assert run.versions() == ["list ", *["watch 10"] * 10, "watch 12"]
        assert run.reflector.lists == 1


def test_a_watch_that_ended_and_does_not_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server takes the next one and does not answer: nothing is known to have failed, and it is not fresh."""
    monkeypatch.setattr(reflector, "_GRACE", 0.0)
    monkeypatch.setattr(reflector, "_SHORT", 0.0)
    answer = threading.Event()
    run = Run(page("a"), (bookmark("11"), ENDED))
    watch = run.script.watch

    def hang(path: str, query: Mapping[str, str], silence: float, longest: float) -> Lines:
        if query["resourceVersion"] == "11":
            answer.wait(30)
        return watch(path, query, silence, longest)

    run.script.watch = hang  # type: ignore[method-assign]
    run.reflector.start()
    until(lambda: "the watch ended, and the next has not begun yet" in run.reflector.problem())
    answer.set()
    until(lambda: not run.reflector.problem())
    run.reflector.close(30)


def test_a_silent_watch_is_followed_by_a_list() -> None:
    """A server that begins watches and says nothing would look well after each."""
    with Run(page("a"), ApiError("silent", Failure.SILENT), page("a", version="20")) as run:
        assert run.versions() == ["list ", "watch 10", "list ", "watch 20"]


def test_a_watch_that_ends_at_once_is_a_failure() -> None:
    """Else it would be begun again without end."""
    with Run(page("a"), (ENDED,), (ENDED,), pace=replace(CALM, first_pause=0.01)) as run:
        assert run.reflector.failures == {"cut": 2}


@pytest.mark.parametrize("failure", [Failure.UNAUTHORIZED, Failure.TLS, Failure.CREDENTIALS])
def test_credentials_are_read_again(failure: Failure) -> None:
    with Run(ApiError("no", failure), page("a")) as run:
        assert run.script.renewed == 1


def test_a_failure_is_logged_when_it_begins_and_when_it_becomes_another(caplog: pytest.LogCaptureFixture) -> None:
    """As where a connection is cut off since a certificate has expired. What lasts for a pass is warned of there."""
    caplog.set_level("INFO", "dutycycle_alerter")
    cut, expired = ApiError("cut off", Failure.CUT), ApiError("has expired", Failure.TLS)
    with Run(page("a"), cut, cut, expired, expired, cut):
        pass
    assert [entry.getMessage() for entry in caplog.records] == ["cut off", "has expired", "cut off"]


def test_an_error_of_our_own_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    with Run(KeyError("oops"), page("a")) as run:
        assert run.reflector.failures == {"internal": 1}
    assert "oops" in caplog.text


@pytest.mark.parametrize("slow", [False, True])
def test_what_was_missed_is_waited_for(monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    """After a failure, and after a long list, the watch is open before its news have come."""
    clock = FakeClock()
    monkeypatch.setattr(reflector, "elapsed", clock)
    if slow:
        monkeypatch.setattr(reflector, "_AT_ONCE", -1.0)
    run = Run(page("a"), *([] if slow else [ApiError("cut off", Failure.CUT)]), pace=replace(CALM, settle=0.3))
    run.reflector.start()
    until(lambda: SETTLING in run.reflector.problem())
    clock.advance(0.4)
    assert not run.reflector.problem()
    run.reflector.close(30)


def silent() -> Any:
    return Lines((), None, queue.SimpleQueue())


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> tuple[Run, FakeClock]:
    """A watch at the true pace that has begun, driven by the test instead of by its thread, and its clock."""
    clock = FakeClock()
    monkeypatch.setattr(reflector, "elapsed", clock)
    run = Run(page("a"), page("a", "b", version="20"), pace=Pace())
    run.reflector._list()
    run.reflector._opened(silent())
    assert not run.reflector.problem(), "a list that took no time misses nothing"
    return run, clock


def test_after_a_stop_nothing_is_fresh_until_what_was_told_meanwhile_is_read(followed: tuple[Run, FakeClock]) -> None:
    """A process that was stopped finds it all waiting. The first line alone may be the end of a pod whose job goes on
    in another, of which a later line tells.
    """
    (run, clock), take = followed, followed[0].reflector._take
    for told in (bookmark("11"), event("MODIFIED", "a", "12")):
        clock.advance(61)
        assert not run.reflector.problem(), "a bookmark is not due"
        take(told)
        assert not run.reflector.problem()
    clock.advance(63)
    assert "silent for 63 s; what it said may not be read yet" in run.reflector.problem(), "before the first line"
    take(event("DELETED", "a", "13"))
    assert SETTLING in run.reflector.problem()
    clock.advance(1.9)
    take(event("ADDED", "b", "14"))
    assert SETTLING in run.reflector.problem()
    clock.advance(0.2)
    assert not run.reflector.problem()
    assert run.pods() == {"a": True, "b": False}


def test_who_asks_while_the_first_line_after_a_stop_is_taken_is_not_told_that_all_is_known(
    followed: tuple[Run, FakeClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    (run, clock), told = followed, []
    change = run.table.change

    def changed(*arguments: Any) -> str:
        told.append(run.reflector.problem())
        version = change(*arguments)
        told.append(run.reflector.problem())
        return version

    monkeypatch.setattr(run.table, "change", changed)
    clock.advance(63)
    run.reflector._take(event("DELETED", "a", "11"))
    assert all(told)
    assert SETTLING in run.reflector.problem()


def test_a_watch_that_the_server_ended_during_a_stop_is_not_fresh_with_the_next(
    followed: tuple[Run, FakeClock],
) -> None:
    run, clock = followed
    clock.advance(600)
    run.reflector._opened(silent())
    assert SETTLING in run.reflector.problem()
    clock.advance(2.1)
    assert not run.reflector.problem()
    # It told some of it before it ended: the rest comes with the next.
    clock.advance(600)
    run.reflector._take(event("DELETED", "a", "11"))
    clock.advance(1.9)
    run.reflector._opened(silent())
    clock.advance(1.9)
    assert SETTLING in run.reflector.problem()
    clock.advance(0.2)
    assert not run.reflector.problem()
    run.reflector._opened(silent())
    assert not run.reflector.problem(), "one watch follows the other without a doubt"


def test_a_list_makes_up_for_a_stop(followed: tuple[Run, FakeClock]) -> None:
    run, clock = followed
    clock.advance(600)
    run.reflector._list()
    run.reflector._opened(silent())
    assert not run.reflector.problem()


def test_silence_is_noticed_before_the_request_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(reflector, "elapsed", clock)
    with Run(page("a"), pace=replace(CALM, silence=0.2)) as run:
        clock.advance(0.3)
        assert "silent for" in run.reflector.problem()
        assert run.pods() == {"a": False}


def test_pauses_grow_and_are_not_alike() -> None:
    run = Run(pace=Pace(first_pause=1.0, longest_pause=30.0))
    fail = run.reflector._failed
    pauses = [fail(ApiError("no", Failure.SERVER)) for _ in range(8)]
    for pause, most in zip(pauses, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert most / 2 <= pause <= most
    asked = [fail(ApiError("no", Failure.THROTTLED, retry_after=60.0)) for _ in range(5)]
    assert all(60 <= pause <= 66 for pause in asked)
    assert len(set(pauses) | set(asked)) == 13


def test_a_refusal_is_believed_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server refuses everybody for a moment after its start, and is then asked again as after any failure."""
    clock = FakeClock()
    monkeypatch.setattr(reflector, "elapsed", clock)
    run = Run(pace=Pace(first_pause=1.0, longest_pause=30.0), denied_pause=600.0).reflector
    refusal = ApiError("no", Failure.FORBIDDEN)
    for seconds in (0.0, 40.0, 19.0):
        clock.advance(seconds)
        assert run._failed(refusal) <= 30.0
        assert not run.denied
    clock.advance(1.0)
    assert run._failed(refusal) == 600.0
    assert run.denied
    run._hear()
    assert run._failed(refusal) <= 30.0
    assert not run.denied
