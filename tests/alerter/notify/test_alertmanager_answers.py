"""What Alertmanager, or what stands in its place, may answer, and who is let in."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.receivers.alertmanager import (
    MOST_ALERTS,
)
from dutycycle_alerter.settings.notify import Alertmanager
from tests.alerter import raw_http
from tests.alerter.notify.alerting import Receivers, incident, making, parcel
from tests.alerter.notify.listening import listening


@pytest.fixture
def receivers() -> Iterator[Receivers]:
    yield from making()


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({"username": "dutycycle", "password": "open sesame"}, "Basic ZHV0eWN5Y2xlOm9wZW4gc2VzYW1l"),
        ({"bearer_token": "abc"}, "Bearer abc"),
        ({"bearer_token": "a\\c"}, "Bearer a\\c"),
        ({"bearer_token": "aéc名"}, "Bearer aéc名"),
        ({"bearer_token_file": "FILE"}, "Bearer from-a-file"),
        ({}, None),
    ],
)
def test_credentials(receivers: Receivers, tmp_path: Path, settings: dict[str, Any], header: str | None) -> None:
    path = tmp_path / "token"
    path.write_text("from-a-file\n")
    given = {name: path if one == "FILE" else one for name, one in settings.items()}
    with listening() as heard:
        receivers(heard.url, **given).deliver(parcel(incident()))
        sent = heard.requests[0].headers.get("authorization")
        assert sent == header or (sent is not None and sent.encode("latin-1").decode() == header)


def test_a_token_that_cannot_be_read_is_named_and_nothing_is_sent(receivers: Receivers, tmp_path: Path) -> None:
    with listening() as heard:
        with pytest.raises(DeliveryError, match=f"bearer_token_file {tmp_path / 'gone'}") as error:
            receivers(heard.url, bearer_token_file=tmp_path / "gone").deliver(parcel(incident()))
        assert not error.value.permanent
        assert heard.requests == []


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"url": "http://am:9093/api/v2"}, "before /api/v2"),
        ({"url": "http://am:9093/?token=x"}, "before /api/v2"),
        ({"url": "am:9093"}, "expected a URL"),
        ({"username": "u"}, "needs password_file"),
        ({"password": "p"}, "and that a username"),
        ({"username": "u", "password": "p", "bearer_token": "t"}, "exclude each other"),
        ({"username": "u:v", "password": "p"}, "no names with a colon"),
        ({"username": "u", "password": "p"}, "not sent unencrypted"),
        ({"bearer_token_file": "/x"}, "not sent unencrypted"),
        ({"bearer_token": "tops3cret\n"}, "the end of a line"),
        ({"bearer_token": "tops3cret\x7f"}, "control character"),
        ({"bearer_token": "tops3cret\udcff"}, "control character"),
        ({"bearer_token": ""}, "is empty"),
        ({"labels": {"my-team": "x"}}, "should match pattern"),
        ({"labels": {"incident": "x"}}, "incident is ours"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why) as error:
        Alertmanager(**({"url": "http://am:9093"} | settings))
    assert "tops3cret" not in str(error.value.errors(include_url=False, include_input=False, include_context=False))


_JSON = b"Content-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("answer", "why", "permanent", "after"),
    [
        (
            raw_http.whole(b'"invalid label set\\u001b"', "400 Bad Request", _JSON),
            "400: invalid label set␛",
            True,
            None,
        ),
        (
            raw_http.whole(b'{"code":601,"message":"must be of type uri"}', "422 Unprocessable Entity", _JSON),
            "422: must be of type uri",
            True,
            None,
        ),
        (raw_http.whole(b"no", "401 Unauthorized"), r"401 \(check username and password_file", False, None),
        (raw_http.whole(b"no", "403 Forbidden"), "bearer_token_file", False, None),
        (raw_http.whole(b"<html>", "404 Not Found"), r"It must end before /api/v2", False, None),
        (raw_http.whole(b"", "413 Too Large"), "smaller requests", False, None),
        (
            raw_http.whole(b"", "302 Found", b"Location: https://sso.example.org/in?t=1\r\n"),
            "sso.example.org",
            False,
            None,
        ),
        (raw_http.whole(b"", "429 Too Many", b"Retry-After: 17\r\n"), "answered 429", False, 17),
        (raw_http.whole(b"", "503 Unavailable", b"Retry-After: soon\r\n"), "answered 503", False, None),
        (raw_http.whole(b'"' + b"x" * 9999 + b'"', "400 Bad Request", _JSON), "400: x{299}…$", True, None),
        (raw_http.whole(b"[" * 99999, "400 Bad Request", _JSON), "answered 400$", True, None),
        (raw_http.whole(b"\xff\xfe{", "500 Oh", _JSON), "answered 500$", False, None),
        (raw_http.whole(b"x" * 2**21, "500 Oh"), "larger than 1 MiB", False, None),
        (
            raw_http.whole(b"<html>", "200 OK", b"Content-Type: text/html; charset=utf-8\r\n"),
            "is the url right",
            False,
            None,
        ),
        (b"nonsense\r\n\r\n", "site: Alertmanager at http://127.0.0.1", False, None),
        (b"", "site: Alertmanager at http://127.0.0.1", False, None),
    ],
)
def test_what_is_not_taken(receivers: Receivers, answer: bytes, why: str, permanent: bool, after: float | None) -> None:
    with raw_http.server(raw_http.answering(answer), "") as url:
        for send in (
            lambda one: receivers(url, bearer_token="s3cret").deliver(parcel(one)),
            lambda one: receivers(url, bearer_token="s3cret").refresh([one], time.time()),
        ):
            with pytest.raises(DeliveryError, match=why) as error:
                send(incident())
            assert (error.value.permanent, error.value.retry_after) == (permanent, after)
            assert len(str(error.value)) < 500
            assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    "token", ["tops3cret\n", "tops3cret\r\nX: y", "top\\s3cret\n", "tops3crét\n", "tops3cret\udcff"]
)
def test_a_token_that_no_header_can_hold_is_not_shown(receivers: Receivers, token: str) -> None:
    """The settings refuse it; this is the last door."""
    receiver = receivers("http://127.0.0.1:1")
    unchecked = Alertmanager(url="http://127.0.0.1:1").model_copy(update={"bearer_token": SecretStr(token)})
    receiver._settings = unchecked
    with pytest.raises(DeliveryError, match="the header Authorization cannot be sent") as error:
        receiver.deliver(parcel(incident()))
    assert "s3cr" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_secret_that_is_answered_is_not_shown(receivers: Receivers) -> None:
    answer = raw_http.whole(b'"no Bearer s3cret here"', "400 Bad Request", _JSON)
    shown = pytest.raises(DeliveryError, match=re.escape("no Bearer *** here"))
    with raw_http.server(raw_http.answering(answer), "") as url, shown:
        receivers(url, bearer_token="s3cret").deliver(parcel(incident()))


@pytest.mark.parametrize(
    "behave",
    [raw_http.hanging(b""), raw_http.dripping(b"HTTP/1.1 500 Oh\r\n\r\n"), raw_http.dripping(b"HTTP/1.1 200 OK\r\n")],
    ids=["silent", "dripping", "dripping headers"],
)
def test_a_slow_server_is_given_up(receivers: Receivers, behave: raw_http.Behaviour) -> None:
    with raw_http.server(behave, "") as url, pytest.raises(DeliveryError, match="no complete answer within") as error:
        receivers(url, timeout=0.3).deliver(parcel(incident()))
    assert not error.value.permanent


def test_a_batch_that_is_not_wanted_keeps_no_other_from_being_refreshed(receivers: Receivers) -> None:
    with listening() as heard:
        heard.status = 400
        receiver = receivers(heard.url)
        with pytest.raises(DeliveryError, match="answered 400"):
            receiver.refresh([incident() for _ in range(MOST_ALERTS + 1)], time.time())
        assert len(heard.requests) == 2
        heard.status = 500
        with pytest.raises(DeliveryError, match="answered 500"):
            receiver.refresh([incident() for _ in range(MOST_ALERTS + 1)], time.time())
        assert len(heard.requests) == 3
