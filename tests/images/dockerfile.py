"""Reads a Dockerfile: the instructions that ours are made of, and an error for whatever else is in one.

Stricter than a container engine: what an engine would take for empty, or for a warning, is refused.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

FORMS = {
    "ARG": "words",
    "CMD": "exec",
    "COPY": "words",
    "ENTRYPOINT": "exec",
    "ENV": "words",
    "EXPOSE": "words",
    "FROM": "words",
    "LABEL": "words",
    "RUN": "command",
    "STOPSIGNAL": "words",
    "USER": "words",
    "WORKDIR": "words",
}
FLAGS = {"COPY": {"from", "chown", "link"}}

_SECRET = re.compile(r"--mount=type=secret,id=([\w.-]+),target=(/[\w./-]+)")

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_DIRECTIVE = re.compile(r"#\s*(syntax|escape|check)\s*=", re.IGNORECASE)


class DockerfileError(Exception):
    """What is wrong, and in which line."""


@dataclass(frozen=True)
class Instruction:
    """One instruction; `words` are as written, except for quotes."""

    line: int
    name: str
    words: tuple[str, ...]
    flags: Mapping[str, str]
    shell: bool = False
    """RUN alone: its one word is for /bin/sh."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """RUN alone: where each secret is mounted while it runs, by the secret's id."""

    def error(self, message: str) -> DockerfileError:
        return DockerfileError(f"line {self.line}: {self.name}: {message}")

    def expanded(self, word: str, variables: Mapping[str, str]) -> str:
        """The word with its variables; one that is not set is an error, and so is `${NAME:-...}`."""

        def value(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            if name not in variables:
                raise self.error(f"{name} is not set")
            return variables[name]

        text, rest = _VARIABLE.sub(value, word), _VARIABLE.sub("", word)
        if "$" in rest:
            raise self.error(f"what is {word}?")
        return text

    def pairs(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The words as KEY=VALUE."""
        pairs = [word.partition("=") for word in self.words]
        for key, equals, _ in pairs:
            if not key or not equals:
                raise self.error(f"{key!r} is not KEY=VALUE")
        return {key: self.expanded(value, variables) for key, _, value in pairs}


def parse(text: str) -> list[Instruction]:
    """Every instruction of a Dockerfile. Raises DockerfileError."""
    instructions = [_instruction(number, line) for number, line in _logical_lines(text)]
    first = next((each for each in instructions if each.name != "ARG"), None)
    if first is None or first.name != "FROM":
        raise DockerfileError("nothing but ARG may come before the first FROM")
    return instructions


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Each instruction with the number of its first line; comments are gone, also those between continued lines."""
    lines: list[tuple[int, str]] = []
    begun = ""
    started = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith("#"):
            if _DIRECTIVE.match(line):
                raise DockerfileError(f"line {number}: directives are not understood here")
            continue
        if not line:
            if begun:
                raise DockerfileError(f"line {number}: an empty line inside an instruction")
            continue
        started = started if begun else number
        if line.endswith("\\"):
            begun += line.removesuffix("\\")
            continue
        lines.append((started, begun + line))
        begun = ""
    if begun:
        raise DockerfileError(f"line {started}: it never ends")
    return lines


def _instruction(line: int, text: str) -> Instruction:
    name, _, rest = text.partition(" ")
    rest = rest.strip()
    if name not in FORMS:
        raise DockerfileError(f"line {line}: the instruction {name} is not understood here")
    flags: dict[str, str] = {}
    secrets: dict[str, str] = {}
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        rest = rest.strip()
        if name == "RUN" and (secret := _SECRET.fullmatch(flag)):
            secrets[secret[1]] = secret[2]
            continue
        key, _, value = flag.removeprefix("--").partition("=")
        if key not in FLAGS.get(name, set()):
            raise DockerfileError(f"line {line}: {name}: the flag {flag} is not understood here")
        flags[key] = value
    if not rest:
        raise DockerfileError(f"line {line}: {name}: of what?")
    if "<<" in rest:
        raise DockerfileError(f"line {line}: {name}: here-documents are not understood here")
    if FORMS[name] == "command" and not rest.startswith("["):
        return Instruction(line, name, (rest,), flags, shell=True, secrets=secrets)
    words = _words(line, name, rest) if FORMS[name] == "words" else _array(line, name, rest)
    return Instruction(line, name, words, flags, secrets=secrets)


def _array(line: int, name: str, text: str) -> tuple[str, ...]:
    try:
        words = json.loads(text)
    except ValueError as error:
        raise DockerfileError(f"line {line}: {name}: only as a JSON array is it sure to be what runs") from error
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise DockerfileError(f"line {line}: {name}: not an array of strings")
    return tuple(words)


def _words(line: int, name: str, text: str) -> tuple[str, ...]:
    if "'" in text or "\\" in text:
        raise DockerfileError(f"line {line}: {name}: only double quotes are understood here")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise DockerfileError(f"line {line}: {name}: {error}") from error
