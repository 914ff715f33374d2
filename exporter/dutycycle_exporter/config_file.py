"""The file of `--config.file`: the command's options in YAML, by the names of their flags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dutycycle_exporter import yaml_file
from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.parameters import Names

NAME = "config.file"
"""Not a key of the file itself."""
_INSTEAD = ("probe", "release")
"""What is done instead of serving: no settings."""


def keys(options: Sequence[click.Parameter]) -> dict[str, click.Option]:
    """The options that a file can set, by key."""
    return {
        option.opts[0].removeprefix("--"): option
        for option in options
        if isinstance(option, click.Option)
        and option.expose_value
        and not option.hidden
        and option.name not in _INSTEAD
    }


def load(path: Path, ctx: click.Context, *, had_keys: bool = False) -> dict[str, Any]:
    """The file's values by the names of the command's parameters. Raises ConfigError: file, key and remedy; also where
    it `had_keys` when it was read last and has none now.
    """
    options = keys(ctx.command.params)
    values = {}
    for key, value in yaml_file.read(path, had_keys=had_keys).items():
        if key not in options:
            raise yaml_file.unknown_key(f"--{NAME}={path}", key, options)
        option = options[key]
        assert option.name is not None  # noqa: S101 - every option of ours has one
        try:
            values[option.name] = option.type_cast_value(ctx, _checked(option, value))
        except click.BadParameter as error:
            raise ConfigError(f"--{NAME}={path}: {key}: {error.message}") from None
    return values


def _checked(option: click.Option, value: object) -> object:
    """The value where YAML read it as what the option takes. Raises click.BadParameter."""
    if value is None:
        raise click.BadParameter("has no value; leave the key out for its default")
    if isinstance(option.type, Names):
        if isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            return value
        raise click.BadParameter("expected a list of texts, like [a, b]")
    if option.is_flag:
        if isinstance(value, bool):
            return value
        raise click.BadParameter("expected true or false")
    if isinstance(option.type, click.FloatRange):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        raise click.BadParameter("expected a number")
    if isinstance(value, str):
        return value
    raise click.BadParameter("expected a text; put it in quotes")


def defaults(ctx: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """A click callback: what the file says comes before an option's default, and after flag and variable.

    The context's default map is what it said when it was read last, None where this is the first time.
    """
    if path is not None:
        ctx.default_map = load(path, ctx, had_keys=bool(ctx.default_map))
    return path
