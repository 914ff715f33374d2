"""For how long nothing was known of something: time in which nobody looked says nothing of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

Pauses = Sequence[tuple[float, float]]
"""(since, until) of times without passes, in Unix seconds: they do not overlap, and are over."""


def unknown_for(known_at: float, now: float, pauses: Pauses = ()) -> float:
    """Seconds since something was last known, without those of the pauses since then."""
    return now - known_at - sum(max(0.0, until - max(since, known_at)) for since, until in pauses)
