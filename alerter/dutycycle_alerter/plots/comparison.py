"""What is compared by bars, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """What a part of a bar stands for."""

    BUSY = "busy"
    WASTED = "wasted"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its name, its parts (value, what it stands for) from the left, and what is said behind it."""

    name: str
    parts: tuple[tuple[float, Tone], ...]
    said: str


@dataclass(frozen=True, slots=True)
class Bars:
    """A picture of bars on one scale; `legend` names the tones that need it."""

    title: str
    note: str
    rows: tuple[Bar, ...]
    legend: tuple[tuple[str, Tone], ...] = ()
