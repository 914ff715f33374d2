"""The bytes of a mail: its headers and its MIME parts, the same for the same parcel and words.

Headers are written here and not by the `email` package, which takes `=?...?=` within a text for something to decode (a
job's name could then begin a header of its own) and breaks long ones where RFC 2047 does not allow it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import format_datetime

from dutycycle_alerter.notify.model import Item, Mail, Parcel, ParcelKind
from dutycycle_alerter.printable import printable

SUBJECT_LIMIT = 200
"""Characters of a subject."""

_LINE = 55  # with the longest name, within the 78 characters of RFC 5322
_WORD = 39  # bytes of an encoded word, so that the line of a short name has the 76 characters of RFC 2047 at most
_MOST_INCIDENTS = 200
_MOST_REFERENCES = 20
_WRITABLE = re.compile(r"[!-~][ -~]*(\r\n [!-~][ -~]*)*")
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,200}@[!-;=?-~]{1,255}>")
_LINK = re.compile(r"https://[!-;=?-~]{1,900}")


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who sends to whom. `list_id` is what the mails of one receiver have in common; `unsubscribe` a URL, or empty;
    `name` is the sender's, in plain letters.
    """

    sender: str
    reply_to: str | None
    recipients: Sequence[str]
    list_id: str
    unsubscribe: str = ""
    name: str = "Dutycycle"


def message_id(receiver: str, key: str, sender: str) -> str:
    """The Message-ID of a parcel: the same for the same key."""
    return f"<{_digest(receiver, key)}.dutycycle@{_domain(sender)}>"


def one_click(url: str) -> str:
    """The address, where mail programs take it for one at which a click unsubscribes (RFC 8058); else empty."""
    return url if _LINK.fullmatch(url) else ""


def root_of(item: Item) -> str | None:
    """The Message-ID of the mail that told first of an incident; None where there is none."""
    found = item.thread.get("message_id")
    return found if isinstance(found, str) and _MESSAGE_ID.fullmatch(found) else None


def threads(parcel: Parcel, mail: Mail, identity: str) -> Mapping[int, Mapping[str, str]]:
    """What to keep of each incident once somebody has the mail: the one that told first of it, with its subject where
    it told of nothing else.
    """
    first = {"message_id": identity}
    if parcel.kind is ParcelKind.INCIDENTS and len(parcel.items) == 1:
        first["subject"] = printable(mail.subject, SUBJECT_LIMIT)
    return {item.incident.id: first if root_of(item) is None else item.thread for item in parcel.items}


def message(parcel: Parcel, mail: Mail, identity: str, envelope: Envelope) -> bytes:
    """The mail with that Message-ID: 7-bit, no line over 998 bytes, no line end but CRLF."""
    made = EmailMessage(policy=SMTP)
    for name, value in _headers(parcel, mail, identity, envelope):
        made[name] = _Header(name, value)
    _fill(made, mail, identity)
    return made.as_bytes()


class _Header(str):
    """A header that is written as it stands, which policies do with a value that has a name and folds itself."""

    __slots__ = ("name",)

    name: str

    def __new__(cls, name: str, value: str) -> _Header:
        if not _WRITABLE.fullmatch(value):
            raise ValueError(f"not the value of a header: {name}")
        made = super().__new__(cls, value)
        made.name = name
        return made

    def fold(self, *, policy: Policy) -> str:
        return f"{self.name}: {self}{policy.linesep}"


def _headers(parcel: Parcel, mail: Mail, identity: str, envelope: Envelope) -> Iterator[tuple[str, str]]:
    yield "From", f"{envelope.name} <{envelope.sender}>"
    yield "To", _wrapped(f"{address}," for address in envelope.recipients).removesuffix(",")
    if envelope.reply_to:
        yield "Reply-To", envelope.reply_to
    yield "Subject", _subject(_answered(parcel, identity) or mail.subject)
    yield "Date", format_datetime(datetime.fromtimestamp(parcel.at, UTC))
    yield "Message-ID", identity
    yield from _threading(parcel, identity)
    # No Precedence: it is in no standard, and who answers automatically knows by the two that follow.
    yield "Auto-Submitted", "auto-generated"
    # All but NDR: a bounce is how the site learns of an address that is no more.
    yield "X-Auto-Response-Suppress", "DR, RN, NRN, OOF, AutoReply"
    yield "List-Id", f"Dutycycle <{envelope.list_id}>"
    if unsubscribe := one_click(envelope.unsubscribe):
        yield "List-Unsubscribe", f"<{unsubscribe}>"
        yield "List-Unsubscribe-Post", "List-Unsubscribe=One-Click"
    yield "X-Dutycycle-Kind", parcel.kind
    incidents = [item.incident for item in parcel.items]
    if incidents:
        yield "X-Dutycycle-Incidents", _wrapped(f"{one.id}," for one in incidents[:_MOST_INCIDENTS]).removesuffix(",")
        rules = dict.fromkeys(re.sub(r"[^A-Za-z0-9_.-]", "-", one.rule)[:_LINE] or "-" for one in incidents)
        yield "X-Dutycycle-Rules", _wrapped(f"{rule}," for rule in rules).removesuffix(",")
        yield "X-Dutycycle-Severity", max((one.severity for one in incidents), key=lambda severity: severity.rank)


def _answered(parcel: Parcel, identity: str) -> str:
    """The subject of an answer: clients show one with a subject of its own as something new. Empty where there is none,
    also for a mail that tells of several incidents.
    """
    if parcel.kind is not ParcelKind.INCIDENTS or len(parcel.items) != 1:
        return ""
    [item] = parcel.items
    root, subject = root_of(item), item.thread.get("subject")
    if root is None or not subject or not isinstance(subject, str):
        return ""
    return subject if root == identity else f"Re: {subject}"


def _threading(parcel: Parcel, identity: str) -> Iterator[tuple[str, str]]:
    """An answer to the mail that told first. A digest is an answer to none: it would be shown below one of many."""
    if parcel.kind is not ParcelKind.INCIDENTS:
        return
    roots = list(dict.fromkeys(root for root in map(root_of, parcel.items) if root is not None and root != identity))
    if roots:
        yield "In-Reply-To", roots[0]
        # Clients take the last for the parent.
        yield "References", _wrapped(reversed(roots[:_MOST_REFERENCES]))


def _wrapped(words: Iterable[str]) -> str:
    lines = textwrap.wrap(" ".join(words), _LINE, break_long_words=False, break_on_hyphens=False)
    return "\r\n ".join(lines)


def _subject(text: str) -> str:
    shown = " ".join(printable(text, SUBJECT_LIMIT).split()) or "Dutycycle"
    if shown.isascii() and "=?" not in shown and max(map(len, shown.split())) <= _LINE:
        return _wrapped([shown])
    words, word = [], b""
    for character in shown:
        encoded = character.encode()
        if len(word) + len(encoded) > _WORD:
            words.append(word)
            word = b""
        word += encoded
    return "\r\n ".join(f"=?utf-8?b?{base64.b64encode(one).decode('ascii')}?=" for one in (*words, word))


def _fill(made: EmailMessage, mail: Mail, identity: str) -> None:
    # Quoted-printable: no line is long, no byte is odd, and no line can be one of the boundaries, which have `=_`.
    made.set_content(_text(mail.text), cte="quoted-printable")
    local, _, domain = identity.strip("<>").partition("@")
    boundary = f"=_{local.partition('.')[0]}"
    html, references = _text(mail.html), []
    for number, picture in enumerate(mail.pictures, 1):
        name = re.sub(r"[^A-Za-z0-9_-]", "-", picture.name)[:40] or "picture"
        # Numbered: several may have one name once that is written plainly.
        references.append((name, f"{name}-{number}.{local}@{domain}"))
        html = re.sub(rf"(?<=[\"'=])cid:{re.escape(picture.name)}(?=[\"'\s>])", f"cid:{references[-1][1]}", html)
    made.add_alternative(html, subtype="html", cte="quoted-printable")
    made.set_boundary(f"{boundary}_1")
    shown = list(made.iter_parts())[1]
    for picture, (name, reference) in zip(mail.pictures, references, strict=True):
        shown.add_related(picture.png, "image", "png", filename=f"{name}.png", disposition="inline")
        list(shown.iter_parts())[-1]["Content-ID"] = _Header("Content-ID", f"<{reference}>")
    if references:
        shown.set_boundary(f"{boundary}_2")


def _text(text: str) -> str:
    return re.sub(r"\r\n?", "\n", text).encode("utf-8", "replace").decode()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _domain(address: str) -> str:
    return address.rpartition("@")[2]
