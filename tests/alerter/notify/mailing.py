"""Parcels, a composer and a receiver for tests of mail, and how a mail program reads what arrives."""

from __future__ import annotations

import email.policy
import re
from collections.abc import Mapping
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from dutycycle_alerter.errors import ConfigError, DeliveryError
from dutycycle_alerter.incidents.model import Cause, Diagnosis, Incident, OpenRule, Severity, State
from dutycycle_alerter.model import Gpu
from dutycycle_alerter.notify.addresses import Addresses
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.notify.model import (
    OPERATORS,
    Item,
    Mail,
    Parcel,
    ParcelKind,
    Picture,
    Recipient,
    Telling,
    To,
)
from dutycycle_alerter.notify.receivers.email import EmailReceiver
from dutycycle_alerter.notify.receivers.email_message import Envelope, message, message_id
from dutycycle_alerter.settings.notify.people import People
from dutycycle_alerter.settings.notify.receivers import Email
from dutycycle_alerter.settings.notify.routes import News
from tests.alerter.notify.composer import SilentComposer
from tests.fakes.smtp import MailServer

AT = 1_790_000_000.0
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) + b"\r\n.\r\n"
PASSWORD = "pässwörd  s3cret"
OPERATORS_AT = ("ops@example.org", "second@example.org", "third@example.org")
ALICE = Recipient(To.OWNER, "alice")

ENVELOPE = Envelope("gpus@example.org", None, ("ops@example.org",), "ops.dutycycle.example.org")
ALWAYS = [
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"),
    *("X-Auto-Response-Suppress", "List-Id", "X-Dutycycle-Kind"),
]
MIME = ["MIME-Version", "Content-Type"]
OF_INCIDENTS = ["X-Dutycycle-Incidents", "X-Dutycycle-Rules", "X-Dutycycle-Severity"]

PLAIN = Mail(
    subject="8 GPUs idle: job 4711",
    text="Idle since noon.\n.\n..dots\nFrom here on\n",
    html='<p>Idle</p><img src="cid:plot" alt="Utilization">',
    pictures=(Picture("plot", PNG, "Utilization"),),
)


class Says(SilentComposer):
    """A composer that says one thing."""

    def __init__(self, mail: Mail | ConfigError = PLAIN) -> None:
        self.said = mail
        self.unsubscribe = ""

    def mail(self, parcel: Parcel, *, unsubscribe: str = "") -> Mail:
        self.unsubscribe = unsubscribe
        if isinstance(self.said, ConfigError):
            raise self.said
        return self.said


def incident(number: int = 12, **fields: Any) -> Incident:
    made = Incident(
        subject="slurm/4711",
        rule="idle",
        severity=Severity.WARNING,
        state=State.OPEN,
        started_at=AT - 3600,
        opened_at=AT,
        updated_at=AT,
        diagnosis=Diagnosis((Cause.NO_PROCESS,), ("nothing runs",), ("end it",)),
        gpus=(Gpu("n1", "GPU-1"),),
        rules=(OpenRule("idle", AT, Severity.WARNING),),
        id=number,
        user="alice",
    )
    return replace(made, **fields)


def item(number: int = 12, thread: Mapping[str, str] | None = None, **fields: Any) -> Item:
    return Item(incident(number, **fields), (Telling(News.OPENED, AT),), thread or {})


def parcel(*items: Item, key: str = "k1", to: Recipient = OPERATORS, **fields: Any) -> Parcel:
    return Parcel(key, fields.pop("kind", ParcelKind.INCIDENTS), to, items or (item(),), AT, **fields)


def receiver(
    server: MailServer, *, composer: Says | None = None, links: Links | None = None, **given: Any
) -> EmailReceiver:
    """One that mails by this server, unencrypted unless something else is given."""
    fields = {"host": server.host, "port": server.port, "security": "none", "sender": "gpus@example.org"}
    fields |= {"to": OPERATORS_AT[:1], "timeout": 20} | given
    people = Addresses(People(address="{user}@example.org"))
    return EmailReceiver("ops.Mail", Email(**fields), people, composer or Says(), links or Links("", b""))


def failure(server: MailServer, *parcels: Any, **given: Any) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        receiver(server, **given).deliver(*parcels or (parcel(),))
    said = str(caught.value)
    assert said.isprintable()
    assert len(said) < 900
    assert PASSWORD not in said
    return caught.value


def secret_file(directory: Path, text: str) -> Path:
    path = directory / "password"
    path.write_text(text)
    return path


def parsed(content: bytes) -> EmailMessage:
    """The mail, having checked what holds for each."""
    lines = content.split(b"\r\n")
    assert max(map(len, lines)) <= 998
    assert all(not re.search(rb"[\r\n\x00\x80-\xff]", line) for line in lines)
    made = email.message_from_bytes(content, policy=email.policy.default)
    assert isinstance(made, EmailMessage)
    assert not [part.defects for part in made.walk() if part.defects]
    assert not [value.defects for value in made.values() if value.defects]
    head = content.partition(b"\r\n\r\n")[0].decode("ascii").split("\r\n")
    assert all(len(line) <= 78 for line in head if not re.match(r"(List-|Message-|In-Reply| <)", line)), head
    return made


def text_of(part: EmailMessage) -> str:
    return str(part.get_content()).replace("\r\n", "\n")


def made(said: Parcel | None = None, mail: Mail = PLAIN, **fields: Any) -> EmailMessage:
    one = said or parcel()
    return parsed(message(one, mail, message_id("ops", one.key, "gpus@example.org"), replace(ENVELOPE, **fields)))
