"""When processes of pods that nobody knows were first seen on a device. Pure; monotonic seconds."""

from __future__ import annotations

from collections.abc import Iterable

_FORGET = 300.0
"""Seconds for which one is remembered that is not seen: a process may use its GPU now and then."""


class Sightings:
    """Each by the pod's uid."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, float]] = {}
        """First and last."""

    def saw(self, uids: Iterable[str], now: float) -> None:
        """These are on some device."""
        for uid in uids:
            self._seen[uid] = self._seen.get(uid, (now, now))[0], now
        self._seen = {uid: seen for uid, seen in self._seen.items() if now - seen[1] < _FORGET}

    def first(self, uid: str) -> float:
        """When one that is seen now was first. Raises KeyError for another."""
        return self._seen[uid][0]
