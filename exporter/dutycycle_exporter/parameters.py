"""The types of the command's options, beyond click's own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from dutycycle_exporter import durations


class Duration(click.ParamType[float]):
    """Seconds, written as in Prometheus."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """`5s`, `1m30s`, `250ms`; more than zero."""
        if isinstance(value, float):
            return value
        seconds = durations.parse(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration: write it like 5s, 1m30s or 250ms", param, ctx)
        return seconds


class Finite(click.FloatRange):
    """A number that is one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As the base class does, but for nan and inf."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class Text(click.ParamType[str]):
    """A text that can be the value of a label."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As it is; in Unicode, which arguments and variables need not be."""
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!r} is not valid UTF-8", param, ctx)
        return text


class PathName(click.Path):
    """A path that a file can have, as a `Path`."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As the base class does, which asks the system even for what no name can have."""
        if "\0" in str(value):
            self.fail(f"{str(value)!r} is no path: it has a NUL in it", param, ctx)
        return super().convert(value, param, ctx)


class Names(click.ParamType[tuple[str, ...]]):
    """Several words, separated by commas; with `choices`, each one of them."""

    name = "names"

    def __init__(self, *choices: str) -> None:
        self._choices = choices

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Each once, in their order."""
        words = value.split(",") if isinstance(value, str) else list(value)  # type: ignore[call-overload]
        words = [word.strip() for word in words]
        for word in words:
            if self._choices and word and word not in self._choices:
                self.fail(f"{word!r} is not one of {', '.join(self._choices)}", param, ctx)
        return tuple(dict.fromkeys(word for word in words if word))
