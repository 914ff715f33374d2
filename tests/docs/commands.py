"""What a block says to type, as single commands; and whether our programs know the options that they are given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from dutycycle_alerter.cli import cli as alerter
from dutycycle_dashboards.cli import cli as dashboards
from dutycycle_exporter.cli import cli as exporter
from tests.docs.blocks import COMMANDS, Block

PROGRAMS: dict[str, click.Command] = {
    "dutycycle": alerter,
    "dutycycle-dashboards": dashboards,
    "dutycycle-exporter": exporter,
}
_STARTING = {"sudo": 0, "exec": 0, "env": 0, "time": 0, "nice": 0, "nohup": 0, "flock": 1, "timeout": 1, "!": 0}
"""Programs that start another one, and how many arguments of their own they have."""
_ENTERING = frozenset({"kubectl", "docker", "podman", "runuser", "srun", "setpriv", "systemd-run"})
"""The same, with `--` between."""
_SEPARATORS = frozenset({"|", "||", "&&", "&", ";", "(", ")", ">", ">>", "<", "|&", ";;"})


def commands(block: Block) -> list[str]:
    """Each command as it is typed, continued lines together. What has no prompt in a `console` block is output."""
    found: list[str] = []
    continued = ending = ""
    for line in block.text.split("\n"):
        if ending:
            found[-1] += f"\n{line}"
            ending = "" if line.strip() == ending else ending
            continue
        prompt = re.match(r"[$#] ", line) if block.language == "console" else None
        if not continued and (not line.strip() or (block.language == "console" and prompt is None)):
            continue
        text = line if prompt is None else line[prompt.end() :]
        if not continued and text.lstrip().startswith("#"):
            continue
        continued = f"{continued}\n{text}" if continued else text
        if text.endswith("\\"):
            continue
        found.append(continued)
        here = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", continued)
        ending, continued = here[1] if here else "", ""
    return found


def ours(text: str) -> Iterator[tuple[str, list[str]]]:
    """(program, arguments) of each simple command in a line that is one of ours."""
    for program, arguments in simple(text):
        if program in PROGRAMS:
            yield program, arguments


def simple(text: str) -> Iterator[tuple[str, list[str]]]:
    """(program, arguments) of each simple command in a line, whoever's it is."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _SEPARATORS and not set(word) <= set("()<>|&;"):
            words.append(word)
            continue
        yield from _simple(words)
        words = []


def _simple(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Behind assignments, and the programs that start another one with what stands behind their own options."""
    while words:
        name = words[0].rsplit("/", 1)[-1]
        if re.match(r"\w+=", words[0]):
            words = words[1:]
        elif name in _STARTING:
            words = _behind_options(words[1:], arguments=_STARTING[name])
        elif name in _ENTERING and "--" in words:
            words = words[words.index("--") + 1 :]
        else:
            break
    if words:
        yield words[0].rsplit("/", 1)[-1], words[1:]


def _behind_options(words: list[str], *, arguments: int) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in ("-u", "-g", "-n", "-w") else 1 :]
    return words[arguments:]


def written(block: Block) -> list[str]:
    """The lines of a block, of any language, in which a program could be called."""
    if block.language in COMMANDS:
        return commands(block)
    if block.language == "ini":
        return re.findall(r"(?m)^Exec\w+=[-+!@:]*(.*)$", block.text)
    if block.language == "cron":
        return [re.sub(r"^(\S+\s+){5}\w+\s+", "", line) for line in block.text.split("\n") if line.strip()]
    return []


def misused(program: str, arguments: list[str]) -> str:
    """What our program would say of such a call, empty if it is right: no such command, no such option, no value."""
    command, path = PROGRAMS[program], program
    try:
        while True:
            context = click.Context(command, info_name=path)
            parser = command.make_parser(context)
            values, rest, _ = parser.parse_args(list(arguments))
            _check_choices(command, values)
            if not isinstance(command, click.Group) or not rest:
                return _too_many(command, rest)
            child = command.get_command(context, rest[0])
            if child is None:
                return f"{path} has no command {rest[0]}"
            command, arguments, path = child, rest[1:], f"{path} {rest[0]}"
    except click.UsageError as error:
        return f"{path}: {error.format_message()}"


def _too_many(command: click.Command, rest: list[str]) -> str:
    return f"{command.name} does not take {' '.join(rest)}" if rest else ""


def _check_choices(command: click.Command, values: dict[str, object]) -> None:
    """A word in capitals stands for any of the choices."""
    for option in command.params:
        given = values.get(option.name or "")
        if isinstance(option.type, click.Choice) and isinstance(given, str) and not given.isupper():
            option.type.convert(given, option, None)
