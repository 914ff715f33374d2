"""A program of the site gets JSON whose sender it can prove, and every answer of it is understood."""

import base64
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter import __version__
from dutycycle_alerter.cli.options import set_up_logging
from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.composing.composition import Composition
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import OPERATORS, Item, Parcel, ParcelKind
from dutycycle_alerter.notify.receivers.webhook import WebhookReceiver
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.notify import Webhook
from tests.alerter import raw_http
from tests.alerter.notify.listening import Listening, PlainComposer, listening
from tests.alerter.web.doubles import incident

SECRET = "s3cret of both"
PAGE = (Path(__file__).parents[3] / "docs/webhook.md").read_text()
Receivers = Callable[..., WebhookReceiver]


@pytest.fixture
def heard() -> Iterator[Listening]:
    with listening() as heard:
        yield heard


@pytest.fixture
def receivers() -> Iterator[Receivers]:
    """Makes receivers for a URL, closed at the end; `said` is what the composer adds."""
    made = []

    def make(
        url: str,
        *,
        said: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.time,
        **settings: Any,
    ) -> WebhookReceiver:
        made.append(WebhookReceiver("tickets", Webhook(url=url, **settings), PlainComposer(said or {}), clock=clock))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


def parcel(user: str = "alice", kind: ParcelKind = ParcelKind.INCIDENTS) -> Parcel:
    return Parcel("p-17", kind, OPERATORS, (Item(incident(user=user), ()),), time.time())


@pytest.fixture(scope="module")
def genuine() -> Callable[..., bool]:
    """What the documentation tells to do."""
    example = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {}
    exec(example[1], names)
    found: Callable[..., bool] = names["genuine"]
    return found


def test_a_message_is_json_with_its_key(heard: Listening, receivers: Receivers) -> None:
    for kind in (ParcelKind.INCIDENTS, ParcelKind.DIGEST, ParcelKind.TEST, ParcelKind.REPORT):
        receivers(heard.url, said={"kind": kind}).deliver(parcel("zoë", kind))
    assert len(heard.requests) == 4
    request = heard.requests[0]
    assert request.path == "/hooks/gpus"
    assert request.body.decode() == '{"incidents": [{"id": 7, "user": "zoë"}], "kind": "incidents"}'
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == f"dutycycle/{__version__}"
    assert request.headers["dutycycle-delivery"] == "p-17"
    assert "dutycycle-signature" not in request.headers


@pytest.mark.parametrize("where", ["itself", "file"])
def test_the_signature_is_as_documented(
    heard: Listening, receivers: Receivers, genuine: Callable[..., bool], tmp_path: Path, where: str
) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    given = {"secret": SECRET} if where == "itself" else {"secret_file": tmp_path / "key"}
    receivers(heard.url, **given).deliver(parcel("名前"))
    request = heard.requests[0]
    header = request.headers["dutycycle-signature"]
    assert genuine(SECRET, header, request.body)
    assert not genuine("another", header, request.body)
    assert not genuine(SECRET, header, request.body + b" ")
    assert not genuine(SECRET, re.sub(r"t=\d", "t=9", header), request.body)
    assert not genuine(SECRET, re.sub(r"t=(\d+)", lambda t: f"t={int(t[1]) + 1}", header), request.body)
    for forged in ("", "t=,v1=", "v1=0", "t=1", f"t={int(time.time())},v1=\xff", "nonsense"):
        assert not genuine(SECRET, forged, request.body)


def test_an_old_message_is_not_genuine_any_more(
    heard: Listening, receivers: Receivers, genuine: Callable[..., bool]
) -> None:
    """Each attempt is signed anew, with the key that the message has."""
    receivers(heard.url, secret=SECRET, clock=lambda: time.time() - 3600).deliver(parcel())
    receivers(heard.url, secret=SECRET).deliver(parcel())
    old, new = heard.requests
    assert not genuine(SECRET, old.headers["dutycycle-signature"], old.body)
    assert genuine(SECRET, new.headers["dutycycle-signature"], new.body)
    assert (old.body, old.headers["dutycycle-delivery"]) == (new.body, new.headers["dutycycle-delivery"])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('"},"x":"\r\n\0\x1b[31m', '"},"x":"\r\n\0\x1b[31m'),
        ("\u202e\u2066", "\u202e\u2066"),
        ("half \ud83d a pair", "half \ufffd a pair"),
        ("a whole 🖥", "a whole 🖥"),
        ("two halves \ud83d\udda5", "two halves 🖥"),
        ("x" * 2**20, "x" * 2**20),
    ],
    ids=["quotes", "directions", "surrogate", "emoji", "pair", "1 MB"],
)
def test_text_of_users_is_kept_and_stays_text(heard: Listening, receivers: Receivers, text: str, read: str) -> None:
    receivers(heard.url).deliver(parcel(text))
    assert json.loads(heard.requests[0].body.decode("utf-8", "strict")) == {"incidents": [{"id": 7, "user": read}]}


def test_what_is_posted_has_what_the_page_says(heard: Listening) -> None:
    receiver = WebhookReceiver(
        "tickets", Webhook(url=heard.url), Composition(Settings(), Links("https://gpus.example.org", b"key"))
    )
    receiver.deliver(parcel('zoë"<b>'))
    receiver.close()
    said = json.loads(heard.requests[0].body)
    (item,) = said["items"]
    assert (said["key"], item["incident"]["user"]) == ("p-17", 'zoë"<b>')
    assert item["links"]["incident"] == "https://gpus.example.org/incidents/7"
    for part in (said, item, item["links"], said["to"]):
        for name in part:
            assert f"`{name}`" in PAGE, name


@pytest.mark.parametrize("said", [{"x": float("nan")}, {"x": object()}])
def test_what_is_no_json_is_an_error_and_not_sent(
    heard: Listening, receivers: Receivers, said: Mapping[str, Any]
) -> None:
    with pytest.raises(DeliveryError, match="cannot be written as JSON") as error:
        receivers(heard.url, said=said).deliver(parcel())
    assert error.value.permanent
    assert heard.requests == []


@pytest.mark.parametrize(
    ("status", "headers", "permanent", "after", "why"),
    [
        (400, {}, True, None, "answered 400$"),
        (401, {}, False, None, "the same secret"),
        (403, {}, False, None, "the same secret"),
        (404, {}, False, None, "is the url right"),
        (408, {}, False, None, "answered 408$"),
        (410, {}, True, None, "answered 410$"),
        (413, {}, True, None, "smaller requests"),
        (422, {}, True, None, "answered 422$"),
        (429, {"Retry-After": "120"}, False, 120, "answered 429$"),
        (500, {}, False, None, "answered 500$"),
        (503, {"Retry-After": "5"}, False, 5, "answered 503$"),
        (301, {"Location": "https://new.example.org/T0KEN"}, False, None, r"\(https://new.example.org\): redirects"),
        (308, {}, False, None, "answered 308: redirects are not followed"),
        (304, {"Location": "http://[nonsense"}, False, None, "answered 304: redirects"),
    ],
)
def test_answers(
    heard: Listening,
    receivers: Receivers,
    status: int,
    headers: dict[str, str],
    permanent: bool,
    after: float | None,
    why: str,
) -> None:
    heard.status, heard.headers = status, headers
    with pytest.raises(DeliveryError, match=why) as error:
        receivers(heard.url, secret=SECRET).deliver(parcel())
    assert (error.value.permanent, error.value.retry_after) == (permanent, after)
    assert len(heard.requests) == 1


@pytest.mark.parametrize(
    "behave",
    [
        raw_http.answering(raw_http.whole(b"", "204 No Content")),
        raw_http.answering(raw_http.whole(b"thanks", "202 Accepted")),
        raw_http.hanging(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"),
        raw_http.endless(b"x" * 65536),
        raw_http.dripping(b"HTTP/1.1 200 OK\r\n\r\n"),
        raw_http.answering(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnonsense"),
    ],
    ids=["204", "202", "no body", "endless", "dripping", "not gzip"],
)
def test_what_comes_after_a_yes_does_not_undo_it(receivers: Receivers, behave: raw_http.Behaviour) -> None:
    """Else it would be sent again and again."""
    with raw_http.server(behave, "/") as url:
        receivers(url, timeout=30).deliver(parcel())


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        (raw_http.hanging(b""), "no complete answer within"),
        (raw_http.dripping(b"HTTP/1.1 200 OK\r\nX: "), "no complete answer within"),
        (raw_http.dripping(b"HTTP/1.1 503 No\r\n\r\n"), "no complete answer within"),
        (raw_http.answering(b"HTTP/1.1 500 Oh\r\n\r\n", b"x" * 2**21), "larger than 1 MiB"),
        (raw_http.answering(b""), "tickets: webhook at http://127.0.0.1"),
        (raw_http.answering(b"\xff\xfe\0"), "tickets: webhook at http://127.0.0.1"),
        (raw_http.answering(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"), "tickets: webhook at"),
    ],
    ids=["silent", "dripping headers", "dripping", "large", "closed", "nonsense", "headers"],
)
def test_broken_answers_are_bounded_and_show_no_secret(
    receivers: Receivers, behave: raw_http.Behaviour, why: str
) -> None:
    with raw_http.server(behave, "/services/T0KEN") as url, pytest.raises(DeliveryError, match=why) as error:
        receivers(url, secret=SECRET, timeout=0.3 if "within" in why else 30).deliver(parcel())
    assert not error.value.permanent
    assert len(str(error.value)) < 500
    assert "T0KEN" not in str(error.value)
    assert SECRET not in str(error.value)


def test_a_path_that_may_be_secret_is_not_logged(
    heard: Listening, receivers: Receivers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    before = {name: logging.getLogger(name).level for name in ("apscheduler", "alembic", "urllib3")}
    set_up_logging("debug")
    try:
        with caplog.at_level(logging.DEBUG):
            receivers(heard.url).deliver(parcel())
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
    assert len(heard.requests) == 1
    assert "/hooks/gpus" not in caplog.text


def test_the_proxy_of_the_environment_is_used(
    heard: Listening, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", heard.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    receivers("http://tickets.example.org/hooks").deliver(parcel())
    receivers(heard.url).deliver(parcel())
    assert [request.path for request in heard.requests] == ["http://tickets.example.org/hooks", "/hooks/gpus"]


def test_a_password_for_the_proxy_may_be_in_any_script(
    heard: Listening, receivers: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", heard.url.replace("://", "://alerter:%C5%82%E2%82%AC@"))
    monkeypatch.delenv("no_proxy", raising=False)
    receivers("http://tickets.example.org/hooks").deliver(parcel())
    (request,) = heard.requests
    said = base64.b64decode(request.headers["proxy-authorization"].removeprefix("Basic "))
    assert said.decode("utf-8") == "alerter:ł€"


def test_nobody_listens(receivers: Receivers) -> None:
    with pytest.raises(
        DeliveryError, match=r"^tickets: webhook at http://127.0.0.1:1: Failed to establish .* refused$"
    ) as error:
        receivers("http://127.0.0.1:1/services/T0KEN").deliver(parcel())
    assert not error.value.permanent
    assert "T0KEN" not in str(error.value)


@pytest.mark.parametrize("content", [None, b"", b"two\nlines", b"\xff", b"x" * 100_000])
def test_a_secret_that_cannot_be_read_is_named_and_nothing_is_sent_unsigned(
    heard: Listening, receivers: Receivers, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DeliveryError, match=f"secret_file {path}") as error:
        receivers(heard.url, secret_file=path).deliver(parcel())
    assert not error.value.permanent
    assert heard.requests == []
