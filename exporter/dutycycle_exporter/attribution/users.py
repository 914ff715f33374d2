"""User names by uid, from the system's user database."""

from __future__ import annotations

import pwd
import time

from .text import is_name

_UNKNOWN_VALID = 600.0


class UserNames:
    """Remembers names for good, and for ten minutes that there is none: a directory service may be away, and slow."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._unknown: dict[int, float] = {}

    def __call__(self, uid: int) -> str:
        """The user's name, or the number where it has none that can be shown."""
        name = self._names.get(uid)
        if name is None and time.monotonic() >= self._unknown.get(uid, -1.0):
            name = _look_up(uid)
            if name is None:
                self._unknown[uid] = time.monotonic() + _UNKNOWN_VALID
            else:
                self._names[uid] = name
        return str(uid) if name is None else name


def _look_up(uid: int) -> str | None:
    try:
        name = pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError, OSError):
        return None
    return name if name and is_name(name) else None
