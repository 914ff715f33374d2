"""Everybody whom the alerters of a run may tell: a mail server and a Slack, and what they were sent when."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.fakes.slack.server import Call, SlackServer
from tests.fakes.smtp.server import MailServer, Received

from .clock import Clock
from .model import Message

OPERATORS = "gpus@example.org"
DOMAIN = "example.org"
CHANNEL = "gpus"
LOOKS = 60.0
"""Seconds between two looks of an alerter at what is to be sent."""


_What = TypeVar("_What")


class _Stamped(list[_What]):
    """What came, with the Unix times at which it did."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def append(self, what: _What) -> None:
        self.times.append(time.time())
        super().append(what)


class Sinks:
    """Receives while it is entered."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self.mail = MailServer()
        self._mails: _Stamped[Received] = _Stamped()
        self.mail.messages = self._mails
        self.slack = SlackServer()
        self._calls: _Stamped[Call] = _Stamped()
        self.slack.calls = self._calls
        self._channel = self.slack.workspace.add_channel(CHANNEL)

    def __enter__(self) -> Self:
        self._open.enter_context(self.mail)
        self._open.enter_context(self.slack)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def settings(self, owner_hours: float) -> dict[str, Any]:
        """`notify` of an alerter: operators are told by mail and in the channel, users by mail, of what wasted more
        than so many GPU-hours.
        """
        mail = {
            "host": self.mail.host,
            "port": self.mail.port,
            "security": "none",
            "sender": f"dutycycle@{DOMAIN}",
            "to": [OPERATORS],
        }
        slack = {"token": self.slack.token, "channel": f"#{CHANNEL}", "url": self.slack.url}
        return {
            # The usual 10 s are many looks at the store in a second of the wall, more work than the passes are.
            "interval": f"{LOOKS:g}s",
            "people": {"address": f"{{user}}@{DOMAIN}"},
            "owners": {"wasted_gpu_hours": owner_hours},
            "receivers": [
                # No mail of a run is to be held back because there were many.
                {"name": "mail", "email": mail, "limit": 100_000, "digest_above": 100},
                {"name": "chat", "slack": slack, "limit": 100_000, "digest_above": 100},
            ],
            "routes": [
                {"receiver": "mail"},
                {"receiver": "mail", "audience": "owner"},
                {"receiver": "chat"},
            ],
        }

    def messages(
        self, clock: Clock, workloads: Mapping[int, tuple[str, ...]], threads: Mapping[str, int]
    ) -> tuple[Message, ...]:
        """All that came, in order. `workloads` are those of incidents; `threads` the incidents of Slack's messages, by
        their `ts`.
        """
        found = [*self._mailed(clock, workloads), *self._chatted(clock, workloads, threads)]
        return tuple(sorted(found, key=lambda message: message.at))

    def _mailed(self, clock: Clock, workloads: Mapping[int, tuple[str, ...]]) -> Iterable[Message]:
        known = {one for of_it in workloads.values() for one in of_it}
        for at, received in zip(self._mails.times, list(self._mails), strict=False):
            mail = received.message
            numbers = map(int, re.findall(r"\d+", mail.get("X-Dutycycle-Incidents", "")))
            by_header = [one for number in numbers for one in workloads.get(number, ())]
            # Of a header that is missing or short the words remain: who is named there was told of, too.
            body = mail.get_body(("plain", "html"))
            by_words = named("" if body is None else body.get_content(), known)
            about = tuple(dict.fromkeys([*by_header, *by_words]))
            for address in received.recipients:
                yield Message(clock.scenario(at), "mail", address, str(mail["Subject"]), str(mail["Message-ID"]), about)

    def _chatted(
        self, clock: Clock, workloads: Mapping[int, tuple[str, ...]], threads: Mapping[str, int]
    ) -> Iterable[Message]:
        # A message is edited later: how it was posted is in the call.
        posted = {_key(message): message["ts"] for message in self._channel.messages}
        for at, call in zip(self._calls.times, list(self._calls), strict=False):
            if call.method != "chat.postMessage":
                continue
            key = _key(call.arguments)
            about = threads.get(str(call.arguments.get("thread_ts") or posted.get(key, "")))
            subject = str(call.arguments.get("text", "")).partition("\n")[0]
            found = () if about is None else workloads.get(about, ())
            yield Message(clock.scenario(at), "slack", f"#{CHANNEL}", subject, key, found)


def named(text: str, known: Iterable[str]) -> list[str]:
    """Workloads of which a text speaks, as `slurm/NUMBER` or by a pod's name; any job of Slurm, but only known pods."""
    pods = {workload.split("/")[2]: workload for workload in known if workload.startswith("k8s/")}
    found = re.findall(r"\b(?:slurm/\d+|train-\d+)\b", text)
    return [pods.get(one, one) for one in found if one.startswith("slurm/") or one in pods]


def _key(message: Mapping[str, Any]) -> str:
    """The alerter's own key of a message, which it has for being told once."""
    metadata = message.get("metadata", {})
    found = json.loads(metadata) if isinstance(metadata, str) else metadata
    return str(found.get("event_payload", {}).get("key", ""))
