"""What may be in logs, messages and pages: no secret, and nothing that others wrote as it is."""

from __future__ import annotations

from collections.abc import Iterator

from ..record import Record
from .violation import ASKED, Found, Violation

_HOSTILE = "untrusted text does nothing"
_OWN_PICTURE = '<img src="cid:'
"""How the pictures of a mail begin, which come with it."""


def secrets_are_kept(record: Record) -> Iterator[Found]:
    """No secret is in any log, error, message or page."""
    for path in record.logs:
        text = path.read_text(errors="replace")
        yield ASKED
        for number, secret in enumerate(record.secrets):
            if secret in text:
                line = text[: text.index(secret)].count("\n") + 1
                yield Violation("secrets are kept", path.name, record.ended, f"secret {number} in line {line}")
    said = [*record.pages, *record.answers, *_messages(record)]
    said += [(f"message {one.id}", one.error) for one in record.deliveries]
    for where, text in said:
        yield ASKED
        for number, secret in enumerate(record.secrets):
            if secret in text:
                yield Violation("secrets are kept", where, record.ended, f"secret {number}")


def _messages(record: Record) -> Iterator[tuple[str, str]]:
    """Each text of each message, and whose it is."""
    return ((f"{one.sink} {one.key}", text) for one in record.taken for text in one.texts if text)


def untrusted_text_does_nothing(record: Record) -> Iterator[Found]:
    """Names of jobs and users are shown and do nothing: no markup, no mention, no header, no line of a log."""
    said = [(path.name, path.read_text(errors="replace")) for path in record.logs]
    said += [*record.pages, *record.answers, *_messages(record)]
    for where, text in said:
        yield ASKED
        for word in record.unprintable:
            if word in text:
                yield Violation(_HOSTILE, where, record.ended, f"{word!r} is there as it is")
    mails = [(f"{one.sink} {one.key}", one.html.replace(_OWN_PICTURE, "")) for one in record.taken if one.html]
    for where, text in (*record.pages, *mails):
        yield ASKED
        for word in record.hostile:
            if "<" in word and word in text:
                yield Violation(_HOSTILE, where, record.ended, f"{word} is there as it is")
    for one in record.taken:
        if one.sink == "slack" and any("<!channel>" in text for text in one.texts):
            yield Violation(_HOSTILE, one.key, one.at, "everybody is called")
        if any(name.lower() == "bcc" for name, _ in one.headers):
            yield Violation(_HOSTILE, one.key, one.at, "a header of somebody else's")
        if one.sink == "mail" and any("eve@example.org" in address for address in one.to):
            yield Violation(_HOSTILE, one.key, one.at, "mailed to whom a name says")
