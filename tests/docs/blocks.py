"""The fenced blocks of the documents, each with the comment in front of it that says how it is held to be true.

A comment is not shown where the document is. It has one of these forms:

    <!-- run: PLACE -->        the block's commands are run by tests/docs/test_commands.py, in one of `places.PLACES`
    <!-- tested: NODE ID -->   a test does what the block says, with the same programs, subcommands and options
    <!-- needs: WHAT -->       it needs what is not there where tests run: one of `NEEDS`
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

COMMANDS = frozenset({"sh", "bash", "console"})
"""Languages of blocks that people type."""

LANGUAGES = COMMANDS | {
    "cron",
    "css",
    "dockerfile",
    "ini",
    "jinja",
    "json",
    "promql",
    "python",
    "sql",
    "text",
    "toml",
    "yaml",
}

NEEDS = frozenset(
    {
        "a Grafana server",
        "a Kubernetes cluster",
        "a Slurm cluster",
        "a container engine",
        "a container engine and a registry",
        "a site in trouble",
        "a machine of its own",
        "a mail server",
        "a package index",
        "a proxy that logs people in",
        "an NVIDIA GPU",
        "systemd",
    }
)
"""What commands may need that is not there: nothing else is a reason not to run one."""

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=fence) *$", re.M | re.S
)
_MARK = re.compile(r"<!-- (run|tested|needs): (.+?) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """`how` is run, tested or needs, and `what` what stands behind it; both are empty of a block without a comment."""

    path: Path
    line: int
    language: str
    text: str
    how: str
    what: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def documents() -> list[Path]:
    """Every document that people are pointed to."""
    manifests = (path for path in (ROOT / "manifests").rglob("*.md") if path.name == "README.md")
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(manifests)]


@cache
def blocks() -> tuple[Block, ...]:
    """Every fenced block of every document."""
    return tuple(block for path in documents() for block in blocks_of(path, path.read_text(encoding="utf-8")))


def blocks_of(path: Path, document: str) -> Iterator[Block]:
    """Those of one document."""
    for found in _FENCE.finditer(document):
        before = document[: found.start()]
        mark = _MARK.search(before)
        text = re.sub(rf"(?m)^{found['indent']}", "", found["text"])
        how, what = (mark[1], mark[2]) if mark else ("", "")
        yield Block(path, before.count("\n") + 1, found["language"].strip(), text, how, what)


def typed() -> list[Block]:
    """The blocks that people type."""
    return [block for block in blocks() if block.language in COMMANDS]


def unfenced(document: str) -> list[str]:
    """Lines of blocks that are only indented, of which nobody could say in which language they are."""
    prose = _FENCE.sub("", document)
    lines, found, listed = prose.split("\n"), [], False
    for number, line in enumerate(lines):
        listed = bool(re.match(r"\s*([-*]|\d+\.) ", line)) or (listed and (line.startswith(" ") or not line.strip()))
        if not listed and line.startswith("    ") and number and not lines[number - 1].strip():
            found.append(line)
    return found
