"""What is understood of a Dockerfile, and what is refused."""

from __future__ import annotations

import pytest

from tests.images.dockerfile import DockerfileError, Instruction, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM a", [("FROM", ("a",), {})]),
        ("# a comment\n\nFROM a AS b", [("FROM", ("a", "AS", "b"), {})]),
        ("FROM a\nRUN one \\\n    && two", [("RUN", ("one && two",), {})]),
        ("FROM a\nRUN one \\\n# between\n    && two", [("RUN", ("one && two",), {})]),
        ('FROM a\nRUN ["one", "t w o"]', [("RUN", ("one", "t w o"), {})]),
        ("FROM a\nRUN \"quoted\" 'both' $X", [("RUN", ("\"quoted\" 'both' $X",), {})]),
        ('FROM a\nENV A=1 B="2 3"', [("ENV", ("A=1", "B=2 3"), {})]),
        ("FROM a\nCOPY --from=b --chown=1:2 x y/", [("COPY", ("x", "y/"), {"from": "b", "chown": "1:2"})]),
        ('FROM a\nCMD ["serve"]', [("CMD", ("serve",), {})]),
    ],
)
def test_instructions_are_read(text: str, expected: list[tuple[str, tuple[str, ...], dict[str, str]]]) -> None:
    found = [(each.name, each.words, dict(each.flags)) for each in parse(text)]
    assert found[-len(expected) :] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "before the first FROM"),
        ("RUN true", "before the first FROM"),
        ("FROM a\nHEALTHCHECK NONE", "line 2: the instruction HEALTHCHECK"),
        ("FROM a\nADD x y", "line 2: the instruction ADD"),
        ("FROM a\nrun true", "line 2: the instruction run"),
        ("FROM a\nRUN --mount=type=cache true", "the flag --mount=type=cache"),
        ("FROM a\nRUN --mount=type=secret,id=x,env=X true", "the flag --mount=type=secret,id=x,env=X"),
        ("FROM --platform=x a", "the flag --platform=x"),
        ("FROM a\nRUN <<EOF\nEOF", "here-documents"),
        ("# syntax=docker/dockerfile:1\nFROM a", "directives"),
        ("FROM a\nENTRYPOINT program", "JSON array"),
        ("FROM a\nCMD [1]", "array of strings"),
        ("FROM a\nCMD []", "array of strings"),
        ("FROM a\nENV A='1'", "double quotes"),
        ('FROM a\nENV A="1', "No closing quotation"),
        ("FROM a\nRUN one \\\n\n  two", "line 3: an empty line"),
        ("FROM a\nRUN one \\", "line 2: it never ends"),
        ("FROM a\nUSER", "line 2: USER: of what"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, message: str) -> None:
    with pytest.raises(DockerfileError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("${A}", "1"), ("$A", "1"), ("x${A}y$B", "x1y2"), ("plain", "plain")],
)
def test_variables_are_put_in(word: str, expected: str) -> None:
    assert Instruction(1, "ENV", (word,), {}).expanded(word, {"A": "1", "B": "2"}) == expected


@pytest.mark.parametrize(
    ("word", "message"), [("${C}", "C is not set"), ("${A:-x}", "what is"), ("$", "what is"), ("$$A", "what is")]
)
def test_a_variable_that_is_not_set_is_an_error(word: str, message: str) -> None:
    with pytest.raises(DockerfileError, match=message):
        Instruction(1, "ENV", (word,), {}).expanded(word, {"A": "1"})
