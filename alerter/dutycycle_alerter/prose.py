"""Fragments of text as sentences."""

from __future__ import annotations

import re

from dutycycle_alerter.printable import printable

TEXT_LIMIT = 2000
"""Characters of a sentence that are shown."""
_WORD = re.compile(r"[a-z]+(-[a-z]+)*[,:]? ")


def sentence(text: str, limit: int = TEXT_LIMIT) -> str:
    """Evidence comes as fragments: a capital first, unless a name stands there, and a full stop last."""
    text = printable(text, limit)
    if _WORD.match(text):
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", ":", "…")) else text + "."
