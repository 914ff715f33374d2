"""Whether the test that a block names can have done what the block says, by the words that the test is written with.

A program, a subcommand or an option that stands neither in the test's file nor in the test modules that this imports is
one that the test does not use. That is less than to see the command run: a test may have a word and mean another thing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs.blocks import ROOT, Block
from tests.docs.commands import PROGRAMS, commands, simple

_GOES_WITHOUT_SAYING = frozenset({"cd", *PROGRAMS})
"""Tests of ours call them by their Python functions as well as by their names."""
_BARE = re.compile(r"[a-z][a-z-]+")


def not_in_its_test(block: Block) -> list[str]:
    """Words of a block's commands that its test is written without."""
    has = written_with(ROOT / block.what.partition("::")[0])
    return sorted({word for command in commands(block) for word in _telling(command) if word not in has})


def _telling(command: str) -> Iterator[str]:
    """Programs, subcommands and options; not their values, which are the reader's."""
    for program, arguments in simple(command):
        if program == "curl":
            # Tests ask by Python; what tells is what they ask for.
            yield from (one.rsplit("/", 1)[-1] for one in arguments if one.startswith("http"))
            continue
        if program not in _GOES_WITHOUT_SAYING:
            yield program
        value = False
        for one in arguments:
            if one.startswith("-"):
                yield one.partition("=")[0]
            elif not value and _BARE.fullmatch(one):
                yield one
            value = one.startswith("-") and "=" not in one


@cache
def written_with(path: Path) -> frozenset[str]:
    """The words of a test's file, and of the modules of tests that it imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set(_words(tree))
    for module in _imported(path, tree):
        found.update(_words(ast.parse(module.read_text(encoding="utf-8"))))
    return frozenset(found)


def _words(tree: ast.Module) -> Iterator[str]:
    """Strings of one word, of which only the end counts in a path; methods and arguments, as in `slurm.scontrol(...)`;
    our commands, where they are called as what they are.

    Of strings of several words a test expects some, as an answer: they say nothing of what it does.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not re.search(r"\s", node.value):
            yield node.value.rsplit("/", 1)[-1]
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ImportFrom) and re.match(r"dutycycle_\w+\.cli\b", node.module or ""):
            yield from (name.name for name in node.names)


def _imported(path: Path, tree: ast.Module) -> Iterator[Path]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        package = path.parents[node.level - 1] if node.level else ROOT
        module = package.joinpath(*(node.module or "").split("."))
        candidates = [module.with_suffix(".py"), *(module / f"{name.name}.py" for name in node.names)]
        yield from (one for one in candidates if one.is_file() and one.is_relative_to(ROOT / "tests"))
