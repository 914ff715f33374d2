"""Answers of an API server that are no list, no object or no status: refused, never taken for an empty one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.kubernetes import objects
from dutycycle_alerter.kubernetes.nodes import NodeDecoder
from dutycycle_alerter.kubernetes.objects import MalformedError, decode_event, decode_metadata, decode_page
from tests.alerter.kubernetes.decoded import AT, GPUS, decode


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("2026-11-20T22:14:21Z", AT),
        ("2026-11-20T22:14:21.5Z", AT + 0.5),
        ("2026-11-20T22:14:21.123456789Z", AT + 0.123456),
        ("2026-11-20T23:14:21+01:00", AT),
        ("0001-01-01T00:00:00Z", None),
        ("2026-11-20T22:14:21", None),
        ("2026-11-20", None),
        ("2026-13-20T22:14:21Z", None),
        ("9" * 5000, None),
        ("", None),
        (None, None),
    ],
)
def test_times(time: str | None, seconds: float | None) -> None:
    assert objects.seconds(time) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Sign in</html>",
        b'{"kind": "Status", "metadata": {}, "status": "Failure"}',
        b'{"kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": []}',
        b'{"kind": "PodList", "metadata": {"resourceVersion": "5"}}',
        b'{"kind": "PodList", "metadata": {}, "items": []}',
        b'{"kind": "PodList", "items": []}',
        b'{"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "a"',
    ],
)
def test_what_is_no_list_is_not_an_empty_one(body: bytes) -> None:
    """Else every pod would be gone."""
    with pytest.raises(MalformedError):
        decode_page(body, "PodList")


def test_who_a_malformed_object_is() -> None:
    body = b'{"metadata": {"name": "a", "uid": "b", "resourceVersion": "7", "labels": 3}}'
    assert objects.identify(body) == objects.Seen("b", "a", "7")
    assert objects.identify(b"[]") == objects.Seen("", "", "")


@given(st.binary(max_size=200))
def test_bytes_are_read_or_refused(body: bytes) -> None:
    for reader in (decode, NodeDecoder(GPUS), decode_event, decode_metadata, lambda some: decode_page(some, "PodList")):
        with pytest.raises(MalformedError):
            reader(body)
    assert objects.decode_status(body).code == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"404 page not found\n", "404 page not found"),
        (b"<html>\n<b>No</b></html>", ""),
        (b"two\nlines", ""),
        (b'{"message": 5}', ""),
        (b"\xff\x00", ""),
        (b"", ""),
        (b'{"message": "pods is forbidden", "details": null}', "pods is forbidden"),
    ],
)
def test_what_a_server_says_of_its_refusal(body: bytes, message: str) -> None:
    assert objects.decode_status(body).message == message
