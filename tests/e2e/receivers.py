"""Everybody an alerter may tell: a mail server, a Slack, a real Alertmanager, a program; and what they were told."""

from __future__ import annotations

import http.cookiejar
import json
import re
import urllib.parse
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.alerter.notify.listening import is_signed, listening
from tests.fakes.alertmanager import AlertmanagerServer
from tests.fakes.slack.rendering import mentions, seen
from tests.fakes.slack.server import SlackServer
from tests.fakes.smtp.server import MailServer

OPERATORS = "gpus@example.org"
_MAILER = ("dutycycle", "the password of the mail account")
_KEY = "the key of the program's signatures"
_ACTING = re.compile(r"I'll take care of it: (\S+)")
_FORM = re.compile(r'name="token" value="([^"]+)"')


class Receivers:
    """Starts them all. `certificate` is the mail server's, with its key."""

    def __init__(self, directory: Path, certificate: tuple[Path, Path]) -> None:
        self._directory = directory
        self._authority = certificate[0]
        self._open = ExitStack()
        self.mail = MailServer(certificate)
        self.mail.users = dict([_MAILER])
        self.slack = SlackServer()
        self.channel = self.slack.workspace.add_channel("gpus")

    def __enter__(self) -> Self:
        self._open.enter_context(self.mail)
        self._open.enter_context(self.slack)
        self.program = self._open.enter_context(listening())
        onward = self._open.enter_context(listening())
        directory = self._directory / "alertmanager"
        directory.mkdir()
        self.alertmanager = self._open.enter_context(AlertmanagerServer(directory, onward.url))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def settings(self) -> dict[str, Any]:
        """`notify` of an alerter: operators are told everywhere, users by mail, of whatever they wasted."""
        mail = {
            "host": self.mail.host,
            "port": self.mail.port,
            "ca_file": str(self._authority),
            "username": _MAILER[0],
            "password": _MAILER[1],
            "sender": "dutycycle@example.org",
            "to": [OPERATORS],
        }
        return {
            "people": {"address": "{user}@example.org"},
            "owners": {"wasted_gpu_hours": 0},
            "receivers": [
                {"name": "mail", "email": mail, "limit": 50},
                {"name": "chat", "slack": {"token": self.slack.token, "channel": "#gpus", "url": self.slack.url}},
                {"name": "alerts", "alertmanager": {"url": self.alertmanager.url}},
                {"name": "program", "webhook": {"url": self.program.url, "secret": _KEY}},
            ],
            "routes": [
                {"receiver": "mail"},
                {"receiver": "mail", "audience": "owner"},
                {"receiver": "chat"},
                {"receiver": "alerts"},
                {"receiver": "program"},
            ],
        }

    def mailed(self, address: str) -> Counter[int]:
        """How many mails somebody had of each incident."""
        mails = [mail.message for mail in list(self.mail.messages) if address in mail.recipients]
        return Counter(int(number) for mail in mails for number in mail["X-Dutycycle-Incidents"].split(","))

    def heads(self) -> list[str]:
        """What the channel shows of each incident. Nobody in it is called, whatever is in the text."""
        heads = self.channel.heads
        found = {mention for message in self.channel.messages for mention in mentions(message)}
        assert {mention.kind for mention in found} <= {"link"}
        return [seen(message) for message in heads]

    def firing(self) -> set[int]:
        """The incidents that Alertmanager shows."""
        return {int(alert["labels"]["incident"]) for alert in self.alertmanager.alerts()}

    def told_program(self, news: str) -> Counter[int]:
        """How often the program was told this news of each incident, by messages that are signed."""
        told: Counter[int] = Counter()
        keys = set()
        for request in list(self.program.requests):
            assert is_signed(request.headers["dutycycle-signature"], request.body, _KEY)
            document = json.loads(request.body)
            if document["key"] in keys:
                continue  # sent again, as its answer was lost
            keys.add(document["key"])
            told.update(
                item["incident"]["id"]
                for item in document["items"]
                for telling in item["tellings"]
                if telling["news"] == news
            )
        return told

    def acknowledge_by_mail(self, address: str) -> str:
        """Follow the first link in a mail to somebody that says they take care of it, as a browser does: the page, its
        form. Returns what the page said at first.
        """
        bodies = [
            mail.message.get_body(("plain",)).get_content()  # type: ignore[union-attr]
            for mail in self.mail.messages
            if address in mail.recipients
        ]
        link = next(found[1] for body in bodies if (found := _ACTING.search(body)))
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        page = browser.open(link, timeout=30).read().decode()
        form = {"token": _FORM.findall(page)[0]}
        browser.open(link, urllib.parse.urlencode(form).encode(), timeout=30).close()
        return str(page)
