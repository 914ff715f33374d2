"""The little Markdown that generated documents are made of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

_WIDTH = 118


def heading(title: str, source: str) -> Iterator[str]:
    """A document's first lines; `source` is what it is made from."""
    yield f"# {title}"
    yield ""
    yield f"<!-- Made from {source} by `make generate`; do not edit. -->"
    yield ""


def paragraph(text: str) -> Iterator[str]:
    """Prose, wrapped, and the empty line after it."""
    yield from textwrap.wrap(" ".join(text.split()), _WIDTH, break_on_hyphens=False, break_long_words=False)
    yield ""


def code(text: str) -> str:
    """Text as it is typed."""
    return f"`{text}`" if text else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table, and the empty line after it."""
    yield _row(header)
    yield _row(["---"] * len(header))
    for row in rows:
        yield _row(row)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
