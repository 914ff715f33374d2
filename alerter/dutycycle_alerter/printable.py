"""Text from outside, made harmless to show: no control characters, no reordering of what stands beside it, no floods.

Escaping for HTML or a terminal's markup is the business of whoever prints; this is about characters that do harm
whatever surrounds them. The JSON keeps text as it is.
"""

from __future__ import annotations

import unicodedata

NAME_LIMIT = 120
"""Characters of a name that are shown in a line or a cell."""

_MARKS = 3  # more combining marks than any script stacks on one letter climb over the lines above


def printable(text: str, limit: int | None = None) -> str:
    """`text` on one line, every character visible: a control character as its picture, one that is invisible or turns
    the direction of writing as U+FFFD, other spaces as a space. Cut to `limit` characters, the last one then `…`.
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks <= _MARKS:
            shown.append(_visible(character, category))
    return "".join(shown)


def _visible(character: str, category: str) -> str:
    if character <= "\x1f":
        return chr(0x2400 + ord(character))
    if category == "Zs":
        return " "
    return character if category[0] in "LMNPS" else "\ufffd"
