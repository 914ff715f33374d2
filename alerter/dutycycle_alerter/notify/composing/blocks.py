"""Slack's Block Kit, within its limits (https://docs.slack.dev/reference/block-kit/blocks)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dutycycle_alerter.notify.composing.content import Urls

_BLOCKS, _HEADER, _SECTION = 50, 150, 3000
_TOGETHER = 12_000
"""Characters of all blocks as JSON. Slack documents none, and refuses messages of somewhat more than 13,000
(`msg_blocks_too_long`).
"""
_FENCE = "```"

Block = Mapping[str, Any]


def blocks(title: str, body: str, links: Sequence[tuple[str, str]], context: str) -> tuple[Block, ...]:
    """A header of plain text, the body's paragraphs as sections, a line of links (label and address), and a line below.

    `body`, `context` and addresses are mrkdwn in which everything from outside is harmless already. Links and no
    buttons: a client puts a warning beside a button whose click no app answers.
    """
    head = {"type": "plain_text", "text": _cut(title, _HEADER), "emoji": False}
    made: list[Block] = [{"type": "header", "text": head}]
    room = _BLOCKS - len(made) - 2
    sections: list[Block] = [{"type": "section", "text": _mrkdwn(text)} for text in list(_paragraphs(body))[:room]]
    below: list[Block] = [{"type": "section", "text": _mrkdwn(line)}] if (line := _line(links)) else []
    if context:
        below.append({"type": "context", "elements": [_mrkdwn(context)]})
    # What is said last is what can be done without: the incident's page has all of it.
    while sections and len(json.dumps([*made, *sections, *below], ensure_ascii=False)) > _TOGETHER:
        sections.pop()
    return (*made, *sections, *below)


def of_incident(urls: Urls) -> list[tuple[str, str]]:
    """What a person can do about an incident: label and address."""
    return [
        ("I'll take care of it", urls.acknowledge),
        ("Snooze", urls.snooze),
        ("This was intended", urls.intended),
        ("Details", urls.incident),
        ("Dashboard", urls.dashboard),
    ]


def _line(links: Sequence[tuple[str, str]]) -> str:
    """Links beside each other; one for which there is no room is left out."""
    line = ""
    for label, url in links:
        link = f"<{url}|{label}>"
        if url and len(line) + 3 + len(link) <= _SECTION:
            line = f"{line} · {link}" if line else link
    return line


def _paragraphs(body: str) -> Iterator[str]:
    for part in body.split("\n\n"):
        text = part.strip("\n")
        if text:
            yield from _pieces(text)


def _pieces(text: str) -> Iterator[str]:
    """Pieces that a section holds, cut between lines; a line that is longer is cut with all that stands after it."""
    piece = ""
    for line in text.split("\n"):
        if piece and len(piece) + 1 + len(line) > _SECTION:
            yield piece
            piece = ""
        piece = f"{piece}\n{line}" if piece else line
        if len(piece) > _SECTION:
            yield shortened(piece, _SECTION)
            return
    yield piece


def shortened(text: str, limit: int) -> str:
    """mrkdwn of so many characters at most. Never cut in the middle of an escape, of a link, or of a line of code,
    which is another command when it is cut.
    """
    if len(text) <= limit:
        return text
    if _FENCE in text:
        return "(a command that is too long to show)"
    kept = text[: limit - 1]
    for begins, ends in (("&", ";"), ("<", ">")):
        if kept.rfind(begins) > kept.rfind(ends):
            kept = kept[: kept.rfind(begins)]
    return kept + "…"


def _mrkdwn(text: str) -> Block:
    # verbatim: bare addresses, @names and #names are text.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
