"""What people see of a message: its text, and whatever a client of Slack makes a mention or a link of."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutycycle_alerter.notify.model import SlackMessage

Message = SlackMessage | Mapping[str, Any] | str
"""What a composer made; what the server keeps or the client sends; mrkdwn by itself."""

_CONTROL = re.compile(r"<([^<>]*)>")
_NAMED = re.compile(r"(?<![\w&])([@#])([\w.-]+)")
_BARE = re.compile(r"(?:https?://|mailto:|www\.)[^\s<>|]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mention:
    """Something in a message that a click follows or a person is called by.

    `kind` is `link`, `user`, `channel` or `special` (`!channel`, `!subteam^...`, `!date^...`); `target` is where it
    leads, `label` what stands there.
    """

    kind: str
    target: str
    label: str = ""


def mentions(message: Message) -> tuple[Mention, ...]:
    """All of a message, in its order. A message with nothing from outside but names has none but the composer's own
    links.

    A text object of mrkdwn without `verbatim` also has its bare URLs, @names and #names linked; the message's own text
    is sent with `parse: none` and has not.
    """
    return tuple(mention for text, verbatim in _mrkdwn(message) for mention in _mentions(text, verbatim))


def links(message: Message) -> dict[str, str]:
    """Label and address of each link that has a label."""
    return {
        found.label: html.unescape(found.target) for found in mentions(message) if found.kind == "link" and found.label
    }


def seen(message: Message) -> str:
    """What is read: of blocks where there are any, else of the text; a line for each text object."""
    blocks = _blocks(message)
    texts = [text for block in blocks for text in _texts(block)]
    if not blocks:
        texts = [{"type": "mrkdwn", "text": _text(message)}]
    return "\n".join(_seen(text["text"]) if text["type"] == "mrkdwn" else text["text"] for text in texts)


def _seen(mrkdwn: str) -> str:
    return html.unescape(_CONTROL.sub(lambda found: found[1].partition("|")[2] or found[1], mrkdwn))


def _mentions(text: str, verbatim: bool) -> Iterator[Mention]:
    for found in _CONTROL.finditer(text):
        target, _, label = found[1].partition("|")
        kind = {"@": "user", "#": "channel", "!": "special"}.get(target[:1], "link")
        yield Mention(kind, target if kind == "link" else target[1:], label)
    if not verbatim:
        rest = _CONTROL.sub(" ", text)
        yield from (Mention("link", found[0]) for found in _BARE.finditer(rest))
        for found in _NAMED.finditer(_BARE.sub(" ", rest)):
            special = found[1] == "@" and found[2] in ("channel", "here", "everyone")
            yield Mention("special" if special else {"@": "user", "#": "channel"}[found[1]], found[2])


def _mrkdwn(message: Message) -> Iterator[tuple[str, bool]]:
    """Each text that is read as mrkdwn, and whether nothing but control sequences is read in it."""
    yield _text(message), True
    for block in _blocks(message):
        for text in _texts(block):
            if text["type"] == "mrkdwn":
                yield text["text"], bool(text.get("verbatim", False))


def _texts(block: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Text objects wherever in a block they are."""
    if block.get("type") in ("mrkdwn", "plain_text"):
        yield block
        return
    for value in block.values():
        for part in value if isinstance(value, Sequence) and not isinstance(value, str) else (value,):
            if isinstance(part, Mapping):
                yield from _texts(part)


def _text(message: Message) -> str:
    if isinstance(message, str):
        return message
    return message.text if isinstance(message, SlackMessage) else message.get("text", "")


def _blocks(message: Message) -> Sequence[Mapping[str, Any]]:
    if isinstance(message, str):
        return ()
    return message.blocks if isinstance(message, SlackMessage) else message.get("blocks") or ()
