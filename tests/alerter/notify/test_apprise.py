"""Apprise sends for us what it can, to real servers; its URLs are shown nowhere."""

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dutycycle_alerter.errors import ConfigError, DeliveryError
from dutycycle_alerter.incidents.model import Incident, Severity, State
from dutycycle_alerter.notify.model import OPERATORS, Item, Parcel, ParcelKind
from dutycycle_alerter.notify.receivers.apprise import AppriseReceiver
from dutycycle_alerter.settings.notify import Apprise
from tests.alerter.notify.listening import Listening, PlainComposer, listening
from tests.alerter.web.doubles import incident

# Apprise loads all of its services at once, and one of them tries a module that Python 3.13 no longer has.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.fixture(autouse=True)
def log_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apprise's log is of the whole process."""
    monkeypatch.setattr(logging.getLogger("apprise"), "disabled", False)


@pytest.fixture
def heard() -> Iterator[Listening]:
    with listening() as heard:
        yield heard


def url_of(heard: Listening, token: str = "t0ken") -> str:
    return f"json://user:{token}@{urlsplit(heard.url).netloc}/{token}"


def receiver(*urls: str, composer: PlainComposer | None = None, **settings: Any) -> AppriseReceiver:
    return AppriseReceiver("chat", Apprise(urls=urls, **settings), composer or PlainComposer())


def parcel(*incidents: Incident, key: str = "p1", settled: frozenset[str] = frozenset()) -> Parcel:
    kind = ParcelKind.INCIDENTS if incidents else ParcelKind.TEST
    return Parcel(key, kind, OPERATORS, tuple(Item(one, ()) for one in incidents), time.time(), settled=settled)


def test_a_message_is_sent(heard: Listening) -> None:
    receiver(url_of(heard), composer=PlainComposer(url="https://gpus.example.org/incidents/7")).deliver(parcel())
    (request,) = heard.requests
    said = json.loads(request.body)
    assert (request.path, said["title"], said["type"]) == ("/t0ken", "All 8 GPUs are idle", "info")
    assert said["message"] == ("alice wastes 8 GPUs.\nCancel the job.\n\nhttps://gpus.example.org/incidents/7")


@pytest.mark.parametrize("title", ["<b>:smile:</b> &amp; *x* _y_ \\n \\x41", "${HOME} {{x}} %s", "\u202e 名前 🖥 @all"])
def test_text_stays_text(heard: Listening, title: str) -> None:
    receiver(url_of(heard), composer=PlainComposer(title=title)).deliver(parcel())
    assert json.loads(heard.requests[0].body)["title"] == title


@pytest.mark.parametrize(
    ("incidents", "kind"),
    [
        ((incident(),), "warning"),
        ((incident(), incident(severity=Severity.CRITICAL)), "failure"),
        ((incident(severity=Severity.INFO),), "info"),
        ((incident(state=State.RESOLVED), incident(state=State.RESOLVED, severity=Severity.CRITICAL)), "success"),
        ((incident(state=State.RESOLVED, severity=Severity.CRITICAL), incident()), "warning"),
        ((), "info"),
    ],
)
def test_its_kind_is_that_of_the_worst_that_is_active(
    heard: Listening, incidents: tuple[Incident, ...], kind: str
) -> None:
    receiver(url_of(heard)).deliver(parcel(*incidents))
    assert json.loads(heard.requests[0].body)["type"] == kind


def test_a_service_that_did_not_take_it_is_tried_again_and_the_others_are_not(heard: Listening) -> None:
    """Also by another alerter: what is settled comes with the parcel."""
    with listening() as other:
        urls = (url_of(heard), url_of(other))
        other.status = 503
        with pytest.raises(DeliveryError, match=r"^chat: Apprise: not accepted by 2 json$") as error:
            receiver(*urls).deliver(parcel())
        assert not error.value.permanent
        assert error.value.addresses == ("1 json",)
        settled = frozenset(error.value.addresses)
        with pytest.raises(DeliveryError) as error:
            receiver(*urls).deliver(parcel(settled=settled))
        assert error.value.addresses == ()
        other.status = 200
        assert receiver(*urls).deliver(parcel(settled=settled)).addresses == ("2 json",)
        assert (len(heard.requests), len(other.requests)) == (1, 3)
        assert receiver(*urls).deliver(parcel(key="p2")).addresses == ("1 json", "2 json")


@pytest.mark.parametrize("status", [307, 400, 404, 500])
def test_what_fails_shows_no_secret(
    heard: Listening, status: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in the error nor in the log, whatever its level."""
    heard.status, heard.headers = status, {"Location": heard.url}
    with caplog.at_level(1, "apprise"):
        one = receiver(url_of(heard, "t0k3n"), "json://user:s3cr3t@127.0.0.1:1/s3cr3t")
        with pytest.raises(DeliveryError, match="not accepted by 1 json, 2 json") as error:
            one.deliver(parcel())
    assert len(heard.requests) == 1
    shown = str(error.value) + caplog.text + "".join(capfd.readouterr())
    for secret in ("t0k3n", "s3cr3t", "127.0.0.1"):
        assert secret not in shown


def test_urls_of_a_file_are_read_anew(heard: Listening, tmp_path: Path) -> None:
    path = tmp_path / "urls"
    path.write_text(f"# ours\n\n{url_of(heard, 'one')}\n")
    one = receiver(urls_file=path)
    one.deliver(parcel())
    path.write_text(f"{url_of(heard, 'two')}\r\n{url_of(heard, 'three')}\r\n")
    one.deliver(parcel())
    assert [request.path for request in heard.requests] == ["/one", "/two", "/three"]
    path.unlink()
    with pytest.raises(DeliveryError, match=f"urls_file {path}: cannot be read") as error:
        one.deliver(parcel())
    assert not error.value.permanent


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "contains no URL"),
        (b"# nothing\n", "contains no URL"),
        (b"json://h/t0ken\0\n", "a secret on each line"),
        (b"\xff", "not text"),
        (b"t0ken", "service 1 is not a URL"),
        (b"nonsense://t0ken@host", r"service 1 nonsense is not a URL"),
        (b"json://127.0.0.1\nslack://t0ken/x", r"service 2 slack is not a URL"),
        (b"json://" + b"a" * 9000, "service 1 json has 9007 characters: a URL may have at most 8192"),
        (b"x" * 70_000, "larger than 64 KiB"),
    ],
)
def test_urls_that_cannot_be_used_are_a_matter_of_configuration(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "urls"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=why) as error:
        receiver(urls_file=path)
    assert "t0ken" not in str(error.value)


def test_without_apprise_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigError, match=r"in a checkout, pip install '\.\[apprise\]'"):
        receiver("json://127.0.0.1")
