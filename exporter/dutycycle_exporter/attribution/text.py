"""What a name from outside may look like before it becomes a label."""

from __future__ import annotations

MAX_LENGTH = 256


def is_name(text: str) -> bool:
    """Whether a text can be shown as it is: printable and at most `MAX_LENGTH` characters.

    Control characters, line separators, bidirectional overrides and lone surrogates (which UTF-8 cannot carry) are not
    printable. The empty text, which stands for an unknown name, is.
    """
    return len(text) <= MAX_LENGTH and text.isprintable()
