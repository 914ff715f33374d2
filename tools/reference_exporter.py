"""exporter/config.example.yaml: every key of the exporter's configuration with its default."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click
import yaml

from dutycycle_exporter.cli import cli
from dutycycle_exporter.config_file import keys
from dutycycle_exporter.parameters import Names

_WIDTH = 100
_HEAD = (
    """Every key of dutycycle-exporter's configuration with its default: a file that says nothing is the same as this
    one. Keys are the flags' names; a flag and an environment variable come before the file.""",
    "Durations are written as in Prometheus (250ms, 30s, 1m30s). SIGHUP has the file read again.",
    "Made from exporter/dutycycle_exporter/options.py by `make generate`.",
)


def example() -> bytes:
    """The whole file."""
    return "\n".join([*(line for text in _HEAD for line in _comment(text)), *_lines(), ""]).encode()


def _lines() -> Iterator[str]:
    for key, option in keys(cli.params).items():
        yield ""
        yield from _comment(option.help or "")
        value = option.default
        if callable(value) or value is None or _unset(value):
            # What depends on the machine, or is nothing: the key stands for itself.
            yield f"# {key}:"
            continue
        yield f"{key}: {_written(option, value)}"


def _unset(value: object) -> bool:
    """Whether click was given no default."""
    return not isinstance(value, str | bool | int | float)


def _written(option: click.Option, value: object) -> str:
    if isinstance(option.type, Names):
        value = [word for word in str(value).split(",") if word]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()


def _comment(text: str) -> Iterator[str]:
    return iter(
        textwrap.wrap(
            " ".join(text.split()), _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
    )
