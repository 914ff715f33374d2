"""A promise that was not kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """Which promise, about whom, when (Unix seconds), and what shows it."""

    promise: str
    subject: str
    at: float
    evidence: str
