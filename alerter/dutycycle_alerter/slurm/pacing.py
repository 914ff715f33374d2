"""How often accounting is asked of a job while slurmctld is silent and everything might have ended."""

from __future__ import annotations

from collections.abc import Collection

FIRST_PAUSE = 30.0
LONGEST_PAUSE = 3600.0
"""Seconds; each pause is twice the one before."""


class Pacing:
    """Picks at most `most` jobs at a time, each at growing intervals. Those that are no longer wanted are forgotten."""

    def __init__(self, most: int, *, time_scale: float = 1.0) -> None:
        self._most = most
        self._scale = time_scale
        self._asked: dict[int, tuple[float, float]] = {}
        """When each was asked about, and how long it is left alone since."""

    def due(self, wanted: Collection[int], now: float) -> list[int]:
        """Whom to ask about now (Unix seconds): the new ones first, then those that waited longest."""
        self._asked = {job: asked for job, asked in self._asked.items() if job in wanted}
        waiting = sorted((sum(self._asked[job]), job) for job in wanted if job in self._asked)
        due = [job for job in wanted if job not in self._asked] + [job for at, job in waiting if at <= now]
        for job in due[: self._most]:
            _, pause = self._asked.get(job, (now, FIRST_PAUSE / self._scale / 2))
            self._asked[job] = now, min(2 * pause, LONGEST_PAUSE / self._scale)
        return due[: self._most]

    def reset(self) -> None:
        """slurmctld answers: it says what has ended."""
        self._asked = {}
