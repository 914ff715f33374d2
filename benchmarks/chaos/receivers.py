"""Whom the alerters tell, behind links: a mail server with STARTTLS, a Slack, a program, which note what they took and
when, and an Alertmanager.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fakes.slack.server import TOKEN, SlackServer
from tests.fakes.slack.workspace import Channel
from tests.fakes.smtp.server import MailServer, Received

from .alertmanager import Alertmanager
from .certificates import Authority
from .hook import KEY, Hook
from .links import Link
from .record import Taken

MAILER = ("dutycycle", "correct-horse-battery-staple")
SENDER = "dutycycle@example.org"
OPERATORS = "gpus@example.org"
_TIMEOUT = 4
"""Wall seconds that one answer may take."""


SINKS: Mapping[str, str] = {"mail": "mail", "chat": "slack", "program": "webhook", "alerts": ""}
"""By the name of each receiver what it writes to; empty: what nothing can be read back from, message by message."""


class Receivers:
    """A context manager. `authority` issues certificates; Alertmanager runs in `directory`."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self._authority = authority
        self._mail_certificate = authority.certificate("mail")
        self.mail = MailServer(self._mail_certificate.pair)
        self.mail.users = dict([MAILER])
        self._hook_certificate = authority.certificate("webhook")
        self.hook = Hook(self._hook_certificate.pair)
        self.alertmanager = Alertmanager(directory / "alertmanager", authority)
        self.slack = SlackServer()
        self.channel: Channel = self.slack.workspace.add_channel("gpus")
        # It says at each login that an attribute of its own is deprecated, and traces every session that is damaged.
        logging.getLogger("mail.log").setLevel(logging.CRITICAL)
        self._taken: list[float] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.mail.messages = _Stamped(self._taken)
        self._stack.enter_context(self.mail)
        self._stack.enter_context(self.slack)
        port = int(self.slack.url.split(":")[2].split("/")[0])
        self.mail_link = self._stack.enter_context(Link("mail", self.mail.port))
        self.slack_link = self._stack.enter_context(Link("slack", port))
        self._stack.enter_context(self.hook)
        self.hook_link = self._stack.enter_context(Link("webhook", self.hook.port))
        self._stack.enter_context(self.alertmanager)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def secrets(self) -> tuple[str, ...]:
        return MAILER[1], TOKEN, KEY

    def settings(self) -> dict[str, Any]:
        """`notify` of an alerter: operators hear of everything at once by each of them, users by mail."""
        mail = {
            "host": "127.0.0.1",
            "port": self.mail_link.port,
            "ca_file": str(self._authority.chain),
            "username": MAILER[0],
            "password": MAILER[1],
            "sender": SENDER,
            "to": [OPERATORS],
            "timeout": _TIMEOUT,
        }
        slack = {
            "token": self.slack.token,
            "channel": self.channel.id,
            "url": f"http://127.0.0.1:{self.slack_link.port}/api/",
            "timeout": _TIMEOUT,
        }
        program = {
            "url": f"https://127.0.0.1:{self.hook_link.port}/hooks/gpus",
            "secret": KEY,
            "ca_file": str(self._authority.chain),
            "timeout": _TIMEOUT,
        }
        alerts = {"url": self.alertmanager.url, "ca_file": str(self._authority.chain), "timeout": _TIMEOUT}
        news = {"news": ["opened", "reopened", "escalated", "resolved"]}
        everything = {"limit": 100_000, "digest_above": 100}
        return {
            "people": {"address": "{user}@example.org"},
            "owners": {"wasted_gpu_hours": 0},
            "receivers": [
                {"name": "mail", "email": mail, **everything},
                {"name": "chat", "slack": slack, **everything},
                {"name": "program", "webhook": program, **everything},
                {"name": "alerts", "alertmanager": alerts, **everything},
            ],
            "routes": [
                {"receiver": "mail", **news},
                {"receiver": "mail", "audience": "owner", **news},
                {"receiver": "chat", **news},
                {"receiver": "program", **news},
                {"receiver": "alerts"},
            ],
        }

    def replace_mail_certificate(self, *, expired: bool) -> None:
        """New connections to the mail server get the one that there is now."""
        context = self.mail.context
        assert isinstance(context, ssl.SSLContext)
        self._mail_certificate.replace(context, expired=expired)

    def replace_hook_certificate(self, *, expired: bool) -> None:
        """The same of the program that is told by webhook."""
        self._hook_certificate.replace(self.hook.context, expired=expired)

    def taken(self, senders: Mapping[str, str]) -> tuple[Taken, ...]:
        """All that was ever accepted, a message as often as it was. `senders` are names of alerters by the addresses of
        their pages, which are in what they send.
        """
        mails = [mailed(mail, at) for at, mail in zip(list(self._taken), list(self.mail.messages), strict=False)]
        posts = [posted(message) for message in list(self.channel.messages)]
        return tuple(replace(one, sender=sent_by(one, senders)) for one in (*mails, *posts, *list(self.hook.taken)))


class _Stamped(list[Any]):
    """Notes when each of its items came."""

    def __init__(self, times: list[float]) -> None:
        super().__init__()
        self._times = times

    def append(self, item: Any) -> None:
        self._times.append(time.time())
        super().append(item)


def mailed(mail: Received, at: float) -> Taken:
    """A mail that came at that time."""
    message = mail.message
    return Taken(
        sink="mail",
        key=str(message["Message-ID"]),
        at=at,
        to=mail.recipients,
        incidents=_numbers(str(message["X-Dutycycle-Incidents"] or "")),
        headers=tuple((name, str(value)) for name, value in message.items()),
        body=_read(message, "plain"),
        html=_read(message, "html"),
    )


def _read(message: EmailMessage, kind: str) -> str:
    """What is to be read in its parts of a kind, whatever they were encoded as."""
    parts = (part.get_payload(decode=True) for part in message.walk() if part.get_content_type() == f"text/{kind}")
    return "\n".join(part.decode(errors="replace") for part in parts if isinstance(part, bytes))


def posted(message: Mapping[str, Any]) -> Taken:
    """A message of a channel, as its history shows it."""
    metadata = message.get("metadata") or {}
    if isinstance(metadata, str):
        metadata = json.loads(metadata)
    key = str(metadata.get("event_payload", {}).get("key", ""))
    replies = message.get("thread_ts", message["ts"]) != message["ts"]
    return Taken(
        sink="slack",
        # A message and a reply to it may be one piece of news.
        key=f"{key} in the thread" if replies else key,
        at=float(message["ts"]),
        to=(),
        incidents=(),
        headers=(),
        body=str(message.get("text", "")),
        blocks=tuple(_leaves(message.get("blocks"))),
    )


def _leaves(value: object) -> Iterator[str]:
    """Every text in it, as it is: written as one, its control characters would be something else."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _leaves(list(value.values()))
    elif isinstance(value, Sequence):
        for part in value:
            yield from _leaves(part)


def sent_by(taken: Taken, senders: Mapping[str, str]) -> str:
    """The name of the alerter whose page it links to; empty where it links to none."""
    # With what follows: a port may begin another.
    return next((name for url, name in senders.items() if any(f"{url}/" in text for text in taken.texts)), "")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.replace("\n", "").replace(" ", "").split(",") if number)
