"""The program that is told by webhook takes what is signed, over TLS, and no other keeps it from that."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chaos.hook import KEY, Hook, heard
from dutycycle_alerter.notify.receivers.webhook import signature
from tests.e2e.site import wait_for

from .evidence import clean, violations

BODY = json.dumps({"items": [{"incident": {"id": 7}}, {"incident": {"id": 9}}]}).encode()
AT = 1_790_000_000


def headers(key: str = KEY, body: bytes = BODY) -> dict[str, str]:
    return {"Dutycycle-Delivery": "key-1", "Dutycycle-Signature": signature(key, AT, body)}


@pytest.fixture
def hook(mail_certificate: tuple[Path, Path]) -> Iterator[Hook]:
    with Hook(mail_certificate) as made:
        yield made


def post(hook: Hook, authority: Path, given: dict[str, str], body: bytes = BODY) -> int:
    request = urllib.request.Request(f"https://127.0.0.1:{hook.port}/hooks", data=body, headers=given)
    context = ssl.create_default_context(cafile=str(authority))
    try:
        # Sooner than the hook itself loses its patience with somebody else.
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_what_is_signed_is_taken_and_tells_its_incidents(hook: Hook, mail_certificate: tuple[Path, Path]) -> None:
    assert post(hook, mail_certificate[0], headers()) == 200
    (taken,) = hook.taken
    assert (taken.sink, taken.key, taken.incidents, taken.body) == ("webhook", "key-1", (7, 9), BODY.decode())


def test_what_is_not_is_refused_and_told(hook: Hook, mail_certificate: tuple[Path, Path]) -> None:
    assert post(hook, mail_certificate[0], headers(key="another")) == 401
    assert [one.key for one in hook.taken] == ["not signed: key-1"]


def test_who_says_nothing_or_nonsense_keeps_nobody_waiting(hook: Hook, mail_certificate: tuple[Path, Path]) -> None:
    with (
        socket.create_connection(("127.0.0.1", hook.port)) as silent,
        socket.create_connection(silent.getpeername()) as other,
    ):
        other.sendall(b"\x80" * 100)
        assert post(hook, mail_certificate[0], headers()) == 200
    assert hook.take_failures() == []


def test_what_is_cut_off_is_neither_taken_nor_refused(hook: Hook, mail_certificate: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(cafile=str(mail_certificate[0]))
    lines = [f"{name}: {text}" for name, text in {**headers(), "Content-Length": str(len(BODY))}.items()]
    head = "\r\n".join(["POST /hooks HTTP/1.1", *lines, "", ""]).encode()
    with (
        socket.create_connection(("127.0.0.1", hook.port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as cut,
    ):
        cut.sendall(head + BODY[:-1])
        cut.shutdown(socket.SHUT_WR)
        cut.settimeout(5)
        while cut.recv(100):
            """Until the hook has ended it, too."""
    assert hook.taken == hook.take_failures() == []


def test_an_error_of_its_own_is_told_once(hook: Hook, mail_certificate: tuple[Path, Path]) -> None:
    body = b'{"items": [{}]}'
    signed = headers(body=body)
    with pytest.raises((OSError, http.client.HTTPException)):
        post(hook, mail_certificate[0], signed, body)
    # The client may know of the end sooner.
    assert wait_for(hook.take_failures, "the error is told", within=60) == ["hook: KeyError('incident')"]
    assert hook.take_failures() == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"Dutycycle-Delivery": "key-1"},
        {"Dutycycle-Delivery": "key-1", "Dutycycle-Signature": "v1"},
        headers(body=b"{}"),
        {name: text.replace(str(AT), str(AT + 1)) for name, text in headers().items()},
    ],
)
def test_a_signature_is_of_this_time_and_body(given: dict[str, str]) -> None:
    taken = heard(given, BODY, 1500.0)
    assert taken.key.startswith("not signed")
    record = replace(clean(), sinks={**clean().sinks, "program": "webhook"}, taken=(*clean().taken, taken))
    assert [one.promise for one in violations(record) if one.subject == taken.key] == ["no message is made up"]
