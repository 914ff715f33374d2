"""What a promise finds: that it was put to the test, and where it was not kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """Which promise, about whom, when (Unix seconds), and what shows it."""

    promise: str
    subject: str
    at: float
    evidence: str


@dataclass(frozen=True)
class Occasion:
    """Something was looked at that could have broken the promise; `fault` is the kind that gave the occasion, if one
    did."""

    fault: str = ""


@dataclass(frozen=True)
class Excused:
    """Something that would have broken the promise, but for what was in its way."""

    by: str


Found = Violation | Occasion | Excused
ASKED = Occasion()


@dataclass(frozen=True)
class Judged:
    """A promise over a whole run. One without an occasion was neither kept nor broken."""

    occasions: tuple[Occasion, ...]
    violations: tuple[Violation, ...]
    excused: tuple[Excused, ...] = ()

    @classmethod
    def of(cls, found: Iterable[Found]) -> Judged:
        all_of_it = list(found)
        return cls(
            tuple(one for one in all_of_it if isinstance(one, Occasion)),
            tuple(one for one in all_of_it if isinstance(one, Violation)),
            tuple(one for one in all_of_it if isinstance(one, Excused)),
        )
