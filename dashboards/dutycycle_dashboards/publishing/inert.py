"""Text from outside, such as the name of a job, as Grafana and a terminal may show it: it obeys nothing."""

from __future__ import annotations

import unicodedata

_QUOTES = str.maketrans({"<": "‹", ">": "›", "&": "+", "$": "＄"})
"""Annotations are shown as HTML, with variables filled in."""


def inert(text: str, limit: int) -> str:
    """One line of visible characters: no markup, no control characters, nothing that turns the direction of writing.
    What is longer than `limit` characters ends in `…`.
    """
    cut = text[: limit - 1] + "…" if len(text) > limit else text
    return "".join(map(_visible, cut.translate(_QUOTES))).strip()


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Zs" or character in "\t\n\r":
        return " "
    return character if category[0] in "LNPS" else "\ufffd"
