"""Every block of the documents says in which language it is, and what is typed is run, tested, or said to need more."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.blocks import COMMANDS, LANGUAGES, NEEDS, ROOT, Block, blocks, blocks_of, documents, typed, unfenced
from tests.docs.commands import commands, misused, ours, written
from tests.docs.places import PLACES
from tests.docs.tested import not_in_its_test

NO_CALLS = {"dutycycle migration"}
"""What looks like a call and is a name: PostgreSQL shows sessions under it."""
STORE = "tests/alerter/store/test_check.py::test_a_good_store_is_described"
_INLINE = re.compile(r"`((?:\.venv/bin/)?dutycycle(?:-exporter|-dashboards)? [^`]+)`")


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_is_fenced_and_names_its_language(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert unfenced(text) == []
    assert [f"{block}: {block.language!r}" for block in blocks_of(path, text) if block.language not in LANGUAGES] == []
    assert text.count("```") % 2 == 0


def test_what_is_typed_is_run_or_tested_or_needs_what_is_not_there() -> None:
    wrong = {str(block): says for block in typed() if (says := complaint(block))}
    assert wrong == {}
    hows = {block.how for block in typed()}
    assert hows == {"run", "tested", "needs"}


def complaint(block: Block) -> str:
    if block.how == "run":
        return "" if block.what in PLACES else f"no place {block.what}"
    if block.how == "needs":
        return "" if block.what in NEEDS else f"nobody is known to lack {block.what}"
    if block.how == "tested":
        if not exists(block.what):
            return f"there is no test {block.what}"
        missing = not_in_its_test(block) if block.language in COMMANDS else []
        return f"{block.what} has nothing of: {', '.join(missing)}" if missing else ""
    return "neither run nor tested, and it does not say what it needs"


@cache
def exists(node: str) -> bool:
    """Whether a test is there, by its file and the names of its class and function."""
    file, *names = node.split("[", maxsplit=1)[0].split("::")
    path = ROOT / file
    if not names or not path.is_file():
        return False
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in names:
        found = [one for one in body if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name == name]
        if not found:
            return False
        body = found[0].body
    return names[-1].startswith("test_")


def test_marks_of_other_blocks_are_right_too() -> None:
    assert {str(block): complaint(block) for block in blocks() if block.how and complaint(block)} == {}


def test_commands_and_options_of_ours_are_those_that_there_are() -> None:
    """Also those that cannot be run."""
    calls = [(str(block), *call) for block in blocks() for line in written(block) for call in ours(line)]
    assert len(calls) > 30
    assert {
        f"{where}: {program}": misused(program, arguments)
        for where, program, arguments in calls
        if misused(program, arguments)
    } == {}


def test_so_are_those_in_sentences() -> None:
    wrong = {}
    for path in documents():
        for text in _INLINE.findall(path.read_text(encoding="utf-8")):
            for program, arguments in ours(text.replace("\n", " ").replace("...", "")):
                if (says := misused(program, arguments)) and text not in NO_CALLS:
                    wrong[f"{path.relative_to(ROOT)}: {text}"] = says
    assert wrong == {}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("dutycycle serve --config x", ""),
        ("dutycycle serve --confg x", "No such option"),
        ("dutycycle srve", "no command srve"),
        ("dutycycle incidents show 7 --json", ""),
        ("dutycycle notify preview 7 --format htlm", "'htlm' is not one of"),
        ("dutycycle-exporter --web.listen-address", "requires an argument"),
        ("sudo -u dutycycle /opt/dutycycle/bin/dutycycle db upgrate", "no command upgrate"),
        ("X=1 dutycycle-dashboards render a b", "does not take"),
    ],
)
def test_a_wrong_call_is_noticed(line: str, says: str) -> None:
    ((program, arguments),) = ours(line)
    found = misused(program, arguments)
    assert says in found
    assert bool(says) == bool(found)


def test_a_pipeline_has_each_of_its_commands() -> None:
    found = [
        program for program, _ in ours("dutycycle users --json | jq . && dutycycle-exporter --version; echo dutycycle")
    ]
    assert found == ["dutycycle", "dutycycle-exporter"]


def test_commands_of_a_console_are_what_is_behind_the_prompt() -> None:
    text = "x\n\n<!-- needs: systemd -->\n```console\n$ a \\\n    b\nanswer\n# c\n```\n"
    (block,) = blocks_of(ROOT / "x.md", text)
    assert (block.how, block.what, block.line) == ("needs", "systemd", 4)
    assert commands(block) == ["a \\\n    b", "c"]


@pytest.mark.parametrize(
    ("comment", "command", "says"),
    [
        ("", "ls", "neither run nor tested"),
        ("<!-- needs: luck -->", "ls", "nobody is known"),
        ("<!-- run: nowhere -->", "ls", "no place"),
        ("<!-- tested: tests/docs/test_blocks.py::test_nothing -->", "ls", "there is no test"),
        (f"<!-- tested: {STORE} -->", "dutycycle db check --json  # words of the test", ""),
        (f"<!-- tested: {STORE} -->", "sudo -u x dutycycle db check --json && psql", "has nothing of: psql"),
        (
            f"<!-- tested: {STORE} -->",
            "dutycycle db check --config=/etc/x.yaml --quiet",
            "has nothing of: --quiet",
        ),
        (f"<!-- tested: {STORE} -->", "curl -X POST http://localhost/api/v1/vacuum", "has nothing of: vacuum"),
    ],
)
def test_what_a_block_must_say(comment: str, command: str, says: str) -> None:
    (block,) = blocks_of(ROOT / "x.md", f"{comment}\n```sh\n{command}\n```\n")
    assert says in complaint(block)
    assert bool(says) == bool(complaint(block))
