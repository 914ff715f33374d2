"""What may be in logs, messages and pages: no secret, and nothing that others wrote as it is."""

from __future__ import annotations

from collections.abc import Iterator

from ..record import Record
from .violation import ASKED, Found, Violation

_HOSTILE = "untrusted text does nothing"


def secrets_are_kept(record: Record) -> Iterator[Found]:
    """No secret is in any log, error, message or page."""
    for path in record.logs:
        text = path.read_text(errors="replace")
        yield ASKED
        for number, secret in enumerate(record.secrets):
            if secret in text:
                line = text[: text.index(secret)].count("\n") + 1
                yield Violation("secrets are kept", path.name, record.ended, f"secret {number} in line {line}")
    said = [*record.pages, *record.answers]
    said += [(f"{one.sink} {one.key}", one.body) for one in record.taken]
    said += [(f"message {one.id}", one.error) for one in record.deliveries]
    for where, text in said:
        yield ASKED
        for number, secret in enumerate(record.secrets):
            if secret in text:
                yield Violation("secrets are kept", where, record.ended, f"secret {number}")


def untrusted_text_does_nothing(record: Record) -> Iterator[Found]:
    """Names of jobs and users are shown and do nothing: no markup, no mention, no header, no line of a log."""
    said = [(path.name, path.read_text(errors="replace")) for path in record.logs]
    said += [*record.pages, *record.answers, *((f"{one.sink} {one.key}", one.body) for one in record.taken)]
    for where, text in said:
        yield ASKED
        for word in record.unprintable:
            if word in text:
                yield Violation(_HOSTILE, where, record.ended, f"{word!r} is there as it is")
    for address, text in record.pages:
        for word in record.hostile:
            if "<" in word and word in text:
                yield Violation(_HOSTILE, address, record.ended, f"{word} is in the page as it is")
    for one in record.taken:
        if one.sink == "slack" and "<!channel>" in one.body:
            yield Violation(_HOSTILE, one.key, one.at, "everybody is called")
        if any(name.lower() == "bcc" for name, _ in one.headers):
            yield Violation(_HOSTILE, one.key, one.at, "a header of somebody else's")
        if one.sink == "mail" and any("eve@example.org" in address for address in one.to):
            yield Violation(_HOSTILE, one.key, one.at, "mailed to whom a name says")
