"""Whatever is answered in an engine's place: columns that are right, or one line that says what is wrong."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql import decode
from dutycycle_alerter.promql.client import Client
from dutycycle_alerter.promql.decode import KnownSeries, decode_matrix, decode_vector
from dutycycle_alerter.settings.prometheus import Prometheus
from tests.alerter.raw_http import OK, Behaviour, answering, dripping, endless, hanging, server, whole

JSON = b"Content-Type: application/json\r\n"
TOKEN = "s3cret-token"
LONG = "x" * 100_000


def said(content: Any, status: str = "200 OK", kind: bytes = JSON) -> Behaviour:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return answering(whole(body, status, kind))


def vector(*results: Any, **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "vector", "result": [*results]}, **more}


def matrix(*results: Any, **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": [*results]}, **more}


def failure(kind: str, text: str) -> dict[str, str]:
    return {"status": "error", "errorType": kind, "error": text}


@contextmanager
def asking(behave: Behaviour, **settings: Any) -> Iterator[Client]:
    with server(behave, "/prefix") as url:
        client = Client(Prometheus(url=url, **{"timeout": 60, **settings}))
        try:
            yield client
        finally:
            client.close()


GOOD = {"metric": {"node": "n1", "gpu": "0"}, "value": [1700000000.5, "0.5"]}


@pytest.mark.parametrize(
    ("answer", "keys", "values"),
    [
        (vector(), [], []),
        (vector(GOOD), [("n1",)], ["0.5"]),
        (vector(GOOD, GOOD), [("n1",), ("n1",)], ["0.5", "0.5"]),
        (vector({"value": [1, "1e309"], "metric": {}, "new": {"a": [1]}}, stats={}, new=[{}]), [("",)], ["inf"]),
        (vector({"metric": {"node": "é\ud83d\ude00"}, "value": [1, "-Inf"]}), [("é😀",)], ["-inf"]),
        (vector({"metric": {"node": LONG}, "value": [1, "NaN"]}), [(LONG,)], ["nan"]),
        (vector(GOOD, isPartial=False, warnings=None), [("n1",)], ["0.5"]),
        (
            b'{"status":"error","status":"success","data":null,"data":{"result":[],"resultType":"vector"}}',
            [],
            [],
        ),
    ],
    ids=["none", "one", "twice", "unknown keys", "emoji", "long", "not partial", "keys twice"],
)
def test_an_unusual_answer_is_read(answer: Any, keys: list[Any], values: list[str]) -> None:
    with asking(said(answer)) as client:
        read = client.instant("x", at=0, labels=("node",))
    assert (read.keys, [str(value) for value in read.values.tolist()]) == (keys, values)


def test_a_packed_answer_is_read() -> None:
    body = gzip.compress(json.dumps(vector(GOOD)).encode())
    with asking(said(body, kind=JSON + b"Content-Encoding: gzip\r\n")) as client:
        assert client.instant("x", at=0, labels=("gpu",)).keys == [("0",)]


def test_what_an_engine_has_to_say_beside_is_kept_and_bounded() -> None:
    told = ["PromQL warning: one\x1b[2J\n", f"PromQL warning: {LONG}"]
    answer = vector(warnings=told, infos=[f"PromQL info: {number}" for number in range(1000)])
    with asking(said(answer)) as client:
        warnings = client.instant("x", at=0, labels=()).warnings
    assert warnings[0].isprintable()
    assert warnings[0].startswith("PromQL warning: one")
    assert (len(warnings), max(map(len, warnings)), warnings[2]) == (10, 300, "PromQL info: 0")


@pytest.mark.parametrize("before", [0, 1000])
def test_an_answer_of_which_some_storage_says_that_it_failed_is_refused_unless_that_is_wanted(before: int) -> None:
    answer = vector(GOOD, warnings=[*["PromQL info: x"] * before, "remote_read: server down"])
    with (
        asking(said(answer)) as client,
        pytest.raises(SourceError, match="may not be the whole one: remote_read: server down"),
    ):
        client.instant("x", at=0, labels=())
    with asking(said(answer), params={"partial_response": "true"}) as client:
        read = client.instant("x", at=0, labels=())
    assert (len(read.keys), read.warnings[0]) == (1, "remote_read: server down")


NESTED = b"[" * 200_000
SHAPES: dict[str, Any] = {
    "nothing": b"",
    "cut off": json.dumps(vector(GOOD)).encode()[:-10],
    "rest": json.dumps(vector(GOOD)).encode() + b"}",
    "two": json.dumps(vector(GOOD)).encode() * 2,
    "null": None,
    "list": [],
    "number": 1,
    "text": "vector",
    "no status": {"data": {"resultType": "vector", "result": []}},
    "no data": {"status": "success"},
    "null data": {"status": "success", "data": None},
    "error with 200": failure("internal", "broken"),
    "error with data": vector() | {"status": "error", "error": "broken"},
    "no result": {"status": "success", "data": {"resultType": "vector"}},
    "null result": {"status": "success", "data": {"resultType": "vector", "result": None}},
    "object": {"status": "success", "data": {"resultType": "vector", "result": {}}},
    "other type": matrix(),
    "scalar": {"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}},
    "partial": vector(GOOD, isPartial=True),
    "null series": vector(None),
    "list series": vector([1, "1"]),
    "no metric": vector({"value": [1, "1"]}),
    "null metric": vector({"metric": None, "value": [1, "1"]}),
    "number label": vector({"metric": {"node": 1}, "value": [1, "1"]}),
    "null label": vector({"metric": {"node": None}, "value": [1, "1"]}),
    "no value": vector({"metric": {}}),
    "null value": vector({"metric": {}, "value": None}),
    "number value": vector({"metric": {}, "value": [1, 1]}),
    "text time": vector({"metric": {}, "value": ["1", "1"]}),
    "no number": vector({"metric": {}, "value": [1, "many"]}),
    "empty number": vector({"metric": {}, "value": [1, ""]}),
    "one of two": vector({"metric": {}, "value": [1]}),
    "three of two": vector({"metric": {}, "value": [1, "1", "1"]}),
    "good, then bad": vector(GOOD, {"metric": {}, "value": [1, None]}),
    "histogram": vector({"metric": {}, "histogram": [1, {"count": "1", "sum": "1"}]}),
    "bad UTF-8": json.dumps(vector(GOOD)).encode().replace(b"n1", b"n\xff"),
    "half a pair": json.dumps(vector(GOOD)).encode().replace(b"n1", rb"\ud800"),
    "UTF-16": json.dumps(vector(GOOD)).encode("utf-16"),
    "deep": NESTED,
    "deep within": b'{"status":"success","new":' + NESTED,
    "deep label": b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"other":' + NESTED,
    "deep objects": b'{"data":' * 100_000,
    "warnings": vector(warnings="partial"),
    "page": b"<!DOCTYPE html><html>",
}


@pytest.mark.parametrize("answer", SHAPES.values(), ids=SHAPES)
def test_what_is_no_vector_is_an_error(answer: Any) -> None:
    with asking(said(answer)) as client, pytest.raises(SourceError) as error:
        client.instant("x", at=0, labels=("node",))
    text = str(error.value)
    assert "/prefix/api/v1/query: " in text
    assert (text.isprintable(), len(text) < 600) == (True, True)


@pytest.mark.parametrize(
    "series",
    [
        {"metric": {}},
        {"metric": {}, "values": None},
        {"metric": {}, "value": [1, "1"]},
        {"metric": {}, "values": [1, "1"]},
        {"metric": {}, "values": [[1, 1]]},
        {"metric": {}, "values": [[1, "1"], None]},
        {"metric": {}, "values": [[1, "x"]]},
        {"metric": {}, "values": [[1, "1"]], "histograms": [[1, {}]]},
        {"metric": {}, "histograms": [[1, {}]]},
    ],
    ids=str,
)
def test_what_is_no_matrix_is_an_error(series: Any) -> None:
    with asking(said(matrix(series))) as client, pytest.raises(SourceError, match="api/v1/query: "):
        client.raw("x[1m]", at=0, labels=("node",))


def test_a_series_without_samples_is_one() -> None:
    answer = matrix({"metric": {"node": "a"}, "values": []}, {"metric": {"node": "b"}, "values": [[1, "2"]]})
    with asking(said(answer)) as client:
        read = client.raw("x[1m]", at=0, labels=("node",))
    assert (read.keys, read.offsets.tolist(), read.times.tolist()) == ([("a",), ("b",)], [0, 0, 1], [1.0])


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KNOWN = st.sampled_from(["status", "data", "resultType", "result", "metric", "value", "values", "success", "vector"])


@given(st.recursive(JSON_VALUES | KNOWN, lambda inner: st.lists(inner) | st.dictionaries(KNOWN, inner), max_leaves=20))
def test_any_json_is_columns_or_an_error(content: Any) -> None:
    for wrapped in (content, vector(content), matrix(content)):
        body = json.dumps(wrapped).encode()
        for read in (decode_vector, decode_matrix):
            try:
                read(body, ("node",), KnownSeries())
            except SourceError as error:
                assert str(error).isprintable()  # noqa: PT017 - most of them are errors


@given(
    st.binary()
    | st.builds(lambda at, junk: at[:30] + junk + at[30:], st.just(json.dumps(vector(GOOD)).encode()), st.binary())
)
def test_any_bytes_are_columns_or_an_error(body: bytes) -> None:
    try:
        decode_vector(body, ("node",), KnownSeries())
    except SourceError as error:
        assert str(error).isprintable()  # noqa: PT017 - most of them are errors


HTML = b"Content-Type: text/html; charset=utf-8\r\n"


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        (said(b"<html>Sign in</html>", kind=HTML), "answered text/html, not JSON: is this a PromQL engine's url?"),
        (said(vector(), kind=b""), "answered no content type, not JSON"),
        (said(b"", "204 No Content"), "answered 204"),
        (
            said(b"", "302 Found", b"Location: https://sso.example/login?next=s3cret-token\r\n"),
            r"https://sso.example/login\)",
        ),
        (said(b"", "308 Permanent Redirect", b"Location: /prefix/\r\n"), "answered 308, elsewhere: redirects are not"),
        (said(b"", "301 Moved", b"Location: https://[nowhere\r\n"), "answered 301"),
        (said(failure("bad_data", "parse error"), "400 Bad Request"), r"answered 400 bad_data: parse error$"),
        (said(b"no org id", "401 Unauthorized", b"Content-Type: text/plain\r\n"), "answered 401 .*X-Scope-OrgID"),
        (said(b"<html>", "403 Forbidden", HTML), "answered 403 .*credentials"),
        (said(b"404 page not found", "404 Not Found", b"Content-Type: text/plain\r\n"), "answered 404 .*/prometheus"),
        (said(b"", "405 Method Not Allowed"), "answered 405 .*path"),
        (said(b"", "413 Too Large"), "answered 413 .*shards"),
        (
            said(failure("execution", "query processing would load too many samples into memory"), "422 Unprocessable"),
            "answered 422 execution: query processing would load too many samples into memory .*shards",
        ),
        (said(failure("execution", "found duplicate series"), "422 Unprocessable"), "found duplicate series$"),
        (said(b"", "429 Too Many Requests"), "answered 429$"),
        (said(failure("internal", "boom"), "500 Internal Server Error"), "answered 500 internal: boom$"),
        (said(failure("timeout", "query timed out"), "503 Unavailable"), "query timed out .*recording rules"),
        (said(b"<html>", "504 Gateway Timeout", HTML), "answered 504 .*timeout"),
        (said(failure("timeout", LONG + "\x1b[2J"), "503 Unavailable"), "…"),
        (said({"status": "error", "errorType": [], "error": 1}, "500 No"), "answered 500$"),
        (said(NESTED, "500 No"), "answered 500$"),
        (said(failure("bad_data", f"header {TOKEN} is wrong"), "400 Bad Request"), r"header \*\*\* is wrong"),
        (said(failure("a", TOKEN) | {"status": "error"}, "200 OK"), r"answered: \*\*\*"),
        (answering(), "query: ."),
        (answering(b"SSH-2.0-OpenSSH_9.2\r\n"), "query: ."),
        (answering(OK + b"Content-Length: 100\r\n\r\n{"), "query: ."),
        (said(b"no gzip", kind=JSON + b"Content-Encoding: gzip\r\n"), "query: ."),
        (endless(b"x" * 65536), "larger than 1 MiB"),
        (said(gzip.compress(b" " * 2**26), kind=JSON + b"Content-Encoding: gzip\r\n"), "larger than 1 MiB"),
    ],
)
def test_a_failure_is_told_in_one_line_with_what_helps(behave: Behaviour, why: str) -> None:
    with (
        asking(behave, max_bytes=2**20, bearer_token=TOKEN) as client,
        pytest.raises(SourceError, match=why) as error,
    ):
        client.instant("x", at=0, labels=())
    text = str(error.value)
    assert "/prefix/api/v1/query: " in text
    assert (text.isprintable(), len(text) < 600, TOKEN in text) == (True, True, False)
    assert error.value.__suppress_context__


@pytest.mark.parametrize(
    "behave",
    [
        hanging(b""),
        hanging(whole(json.dumps(vector(GOOD)).encode(), extra=JSON)[:-2]),
        dripping(b"HTTP/1.1 200 OK\r\nX: "),
        dripping(b"HTTP/1.1 200 OK\r\n" + JSON + b"\r\n" + json.dumps(vector(GOOD)).encode()[:-1], b" "),
        dripping(b"HTTP/1.1 503 No\r\n" + JSON + b'\r\n{"error":"'),
    ],
    ids=["silence", "silence within", "dripping header", "dripping body", "dripping error"],
)
def test_an_engine_that_never_ends_is_left_at_the_time_out(behave: Behaviour) -> None:
    with asking(behave, timeout=0.5) as client:
        with pytest.raises(SourceError, match="no complete answer within"):
            client.instant("x", at=0, labels=())
        assert (client.queries, client.seconds >= 0.5) == (1, True)


def test_texts_are_one_object_however_often_they_come() -> None:
    known = KnownSeries()
    other = {"metric": {"node": "n1", "gpu": "1"}, "value": [1, "1"]}
    keys = [
        key
        for results in ([GOOD] * 3, [GOOD, other])
        for key in decode_vector(json.dumps(vector(*results)).encode(), ("node", "gpu"), known).keys
    ]
    assert keys == [("n1", "0")] * 4 + [("n1", "1")]
    assert len({id(key[0]) for key in keys}) == 1


def test_the_same_series_have_the_same_keys_whatever_their_values() -> None:
    known = KnownSeries()
    first = decode_vector(json.dumps(vector(GOOD)).encode(), ("node",), known)
    again = decode_matrix(json.dumps(matrix({"metric": GOOD["metric"], "values": []})).encode(), ("node",), known)
    assert first.keys is again.keys
    assert decode_vector(json.dumps(vector(GOOD)).encode(), ("gpu",), known).keys == [("0",)]


def test_series_that_two_rounds_did_not_ask_for_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every job that comes or goes the answers are others: they must not add up."""
    monkeypatch.setattr(decode, "_FEW_TEXTS", 4)
    known = KnownSeries()
    lasting = json.dumps(vector(GOOD)).encode()
    first = decode_vector(lasting, ("node",), known).keys
    for job in range(100):
        passing = {"metric": {"workload": f"slurm/{job}"}, "value": [1, "1"]}
        assert decode_vector(json.dumps(vector(passing)).encode(), ("workload",), known).keys == [(f"slurm/{job}",)]
        assert decode_vector(lasting, ("node",), known).keys is first
        known.turn()
        assert len(known._keys) == known._size <= 3
        assert len(known._texts) <= 8
    for _ in range(2):
        known.turn()
    assert known._keys == {}
    assert known._size == 0
    assert decode_vector(lasting, ("node",), known).keys == first


def test_known_series_are_forgotten_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "_MOST_KEYS", 10)
    known = KnownSeries()
    for turn in range(3):
        for number in range(7):
            series = [{"metric": {"node": f"n{number}-{place}"}, "value": [1, "1"]} for place in range(4)]
            read = decode_vector(json.dumps(vector(*series)).encode(), ("node",), known)
            assert read.keys == [(f"n{number}-{place}",) for place in range(4)], turn
    assert sum(len(keys) for keys in known._keys.values()) == known._size <= 10
    assert len(known._texts) <= 15
