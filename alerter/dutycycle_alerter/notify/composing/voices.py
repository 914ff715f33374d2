"""How text from outside enters each format: before a template sees it, so that no template can forget to.

A voice makes a text harmless where it will stand; whatever a template then does with it, it stays that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dutycycle_alerter.printable import NAME_LIMIT, printable
from dutycycle_alerter.prose import sentence

TEXT_LIMIT = 500
"""Characters of a sentence in a message."""
COMMAND_LIMIT = 600
"""A longer command is left to the incident's page."""

_LINK = re.compile(r"https?://[^\s<>|\"'`\\\x00-\x20\x7f-\U0010ffff]{1,2500}")

# What Slack takes for formatting, and what looks like it.
_FORMATTING = str.maketrans({"*": "\u2217", "~": "\u223c", "`": "\u02cb"})
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_EMOJI = re.compile(r":(?=[\w+'-]+:)")
_CALL = re.compile(r"@(?=(?:channel|here|everyone)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Voice:
    """One format. `harmless` is for prose on one line; `literal` keeps every character, or is None where it cannot."""

    harmless: Callable[[str], str]
    literal: Callable[[str], str | None]

    def name(self, text: str) -> str:
        """A name of a job, a user, a node."""
        return self.harmless(printable(text, NAME_LIMIT))

    def sentence(self, text: str) -> str:
        """A fragment as a sentence."""
        return self.harmless(sentence(text, TEXT_LIMIT))

    def said(self, text: str) -> str:
        """What somebody said, as it is."""
        return self.harmless(printable(text, TEXT_LIMIT))

    def command(self, line: str) -> str | None:
        """A command line exactly, or None: half a command, or one with a character exchanged, is a different one."""
        if len(line) > COMMAND_LIMIT or printable(line) != line:
            return None
        return self.literal(line)

    def link(self, url: str) -> str:
        """An address of ours; empty where it has a character that would end it."""
        return (self.literal(url) or "") if _LINK.fullmatch(url) else ""


def mrkdwn(text: str) -> str:
    """Text as Slack shows it as it is: no mention, no link, no formatting, no emoji."""
    text = _UNDERSCORE.sub("\u02cd", text.translate(_FORMATTING))
    return _escaped(_CALL.sub("\uff20", _EMOJI.sub("\u2236", text)))


def _escaped(text: str) -> str:
    # https://docs.slack.dev/messaging/formatting-message-text: these three, and no others.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _within_code(text: str) -> str | None:
    return None if "`" in text else _escaped(text)


PLAIN = Voice(harmless=str, literal=str)
"""Of plain text, where what is printable is harmless, and of HTML, whose environment escapes whatever is put out."""
MRKDWN = Voice(harmless=mrkdwn, literal=_within_code)
