"""What those answer to whom the alerter writes: Slack, mail servers, webhooks."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from dutycycle_alerter.bounded_http import Answer
from dutycycle_alerter.errors import DeliveryError
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.receivers import slack_messages, smtp
from dutycycle_alerter.notify.receivers.posting import Posting, retry_after
from dutycycle_alerter.notify.receivers.slack_api import Session, _Client
from dutycycle_alerter.notify.receivers.slack_people import SlackPeople
from dutycycle_alerter.notify.receivers.slack_webhook import _judge
from dutycycle_alerter.settings.notify import People
from dutycycle_alerter.settings.notify.receivers import Email
from tests.fuzz.hostile import documents, jsons, texts
from tests.fuzz.running import fuzz

HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "retry-after": texts(["30", "Wed, 21 Oct 2026 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "0"]),
        "location": texts(["https://elsewhere.example/x", "//[::1", "http://[v1.a]/", "/"]),
        "content-type": texts(
            ["application/json", "text/plain; charset=utf-8", "text/html", "application/problem+json"]
        ),
    },
)
STATUS = st.sampled_from([200, 204, 301, 400, 401, 403, 404, 410, 429, 500, 503])
SECRET = "hunter2-do-not-show"


class _Connections:
    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)

    def request(self, *_: object, **__: object) -> Answer:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def connections(self, _: str) -> _Connections:
        return self


@fuzz(headers=HEADERS, now=st.floats(0, 4e9))
def test_a_wait_is_at_most_an_hour(headers: Mapping[str, str], now: float) -> None:
    wait = retry_after(headers, now)
    assert wait is None or 0 <= wait <= 3600


@fuzz(status=STATUS, headers=HEADERS, body=jsons([{"message": SECRET, "error": "no"}, [], "text"]))
def test_a_webhooks_answer_is_a_yes_or_an_error(status: int, headers: Mapping[str, str], body: bytes) -> None:
    posting = Posting("webhook", "https://hook.example/x", timeout=1, ca_file=None, permanent=(), remedies={})
    posting._trusting = _Connections(Answer(status, headers, body))  # type: ignore[assignment]
    try:
        assert 200 <= posting.post(b"{}", {}, (SECRET,)).status < 300
    except DeliveryError as error:
        assert status >= 300
        assert SECRET not in str(error)
        assert len(str(error)) < 2000
        assert str(error).isprintable()
    try:
        _judge(Answer(status, headers, body), f"https://hooks.slack.com/services/{SECRET}")
    except DeliveryError as error:
        assert SECRET not in str(error)
        assert len(str(error)) < 2000


EVENT = {"event_type": slack_messages._EVENT, "event_payload": {"key": "k"}}
SLACK = (
    {"ok": True, "channel": "C1", "ts": "1700000000.000100"},
    {"ok": True, "messages": [{"ts": "1.0", "metadata": EVENT}], "response_metadata": {"next_cursor": "dXNlcg=="}},
    {"ok": False, "error": "missing_scope", "needed": "channels:history", "provided": "chat:write"},
    {"ok": False, "error": "invalid_blocks", "response_metadata": {"messages": ["[ERROR] no more than 50 items"]}},
    {"ok": False, "error": "ratelimited"},
    {"ok": True, "user": {"id": "U1"}, "channel": {"id": "D1"}},
)


@fuzz(status=STATUS, headers=HEADERS, body=jsons(SLACK, raw=['"ratelimited"', '"missing_scope"', f'"xoxb-{SECRET}"']))
def test_slacks_answer_is_understood_or_an_error(status: int, headers: Mapping[str, str], body: bytes) -> None:
    token = f"xoxb-{SECRET}"
    connections: Any = _Connections(Answer(status, headers, body))
    session = Session(_Client(connections, token, "https://slack.example/api/"), (token,), lambda: False)
    for call in (
        lambda: slack_messages.said(session, "C1", 0.0),
        lambda: slack_messages.reply(session, "C1", "1.0", "text", "k"),
        lambda: SlackPeople(Addresses(People())).channel("ada@example.org", session),
    ):
        try:
            call()
        except DeliveryError as error:
            assert SECRET not in str(error)
            assert len(str(error)) < 5000
            assert error.retry_after is None or 0 <= error.retry_after <= 3600


CONVERSATION = (
    (
        b"220 mail.example ESMTP\r\n250-mail.example\r\n250-SIZE 1000000\r\n250-8BITMIME\r\n250 HELP\r\n"
        b"250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n550 5.1.1 unknown user\r\n354 go on\r\n250 2.0.0 queued\r\n221 bye\r\n"
    ),
    b"220 a\r\n250 a\r\n451 4.7.1 later\r\n221 bye\r\n",
    b"554 5.7.1 no service for you\r\n",
)
LINES = (
    b"250-SIZE x\r\n",
    b"250 AUTH PLAIN LOGIN=\r\n",
    b"421 4.3.2 closing\r\n",
    b"999 \r\n",
    b"250-" * 500,
    b"000 x\r\n",
)
WORDS = (b"250-x\r\n" * 2000, b"552 5.3.4 too large\r\n", b"\xff\xfe", b"250\n", b"25\n", b"-")


@fuzz(said=documents(CONVERSATION, tokens=(*LINES, *WORDS)))
def test_a_mail_servers_answers_are_an_outcome_or_an_error(said: bytes) -> None:
    settings = Email(host="mail.example", security="none", sender="a@example.org", timeout=5)
    people = ("ada@example.org", "bob@example.org")
    ours, theirs = socket.socketpair()
    # All that the server will ever say lies ready; what it is told has room.
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with theirs:
        theirs.sendall(said[: 1 << 17])
        theirs.shutdown(socket.SHUT_WR)
        try:
            outcome = _send(settings, people, ours)
        except DeliveryError as error:
            assert str(error).startswith("mail server mail.example:25")
            assert str(error).isprintable()
            assert len(str(error)) < 2000
            return
        finally:
            ours.close()
    told = [*outcome.taken, *outcome.refused, *outcome.deferred]
    assert sorted(told) == sorted(people), "each of them has one outcome"
    assert all(words.isprintable() for words in (*outcome.refused.values(), *outcome.deferred.values()))


class _Client2(smtp._Client):
    connection: socket.socket

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        made = type(self).connection
        made.settimeout(timeout)
        self._raw = made.dup()
        return made


def _send(settings: Email, people: tuple[str, ...], connection: socket.socket) -> smtp.Outcome:
    _Client2.connection = connection
    before, smtp._Client = smtp._Client, _Client2  # type: ignore[misc]
    try:
        return smtp.send(settings, people, b"Subject: x\r\n\r\ntext\r\n")
    finally:
        smtp._Client = before  # type: ignore[misc]
