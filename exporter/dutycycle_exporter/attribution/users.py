"""User names by uid, from the system's user database."""

from __future__ import annotations

import pwd
import time
from typing import TypeVar

from .text import is_name

_T = TypeVar("_T")

_UNKNOWN_VALID = 600.0
_MOST = 1024
"""Users that are remembered: pods with user namespaces of their own bring uids without end."""


class UserNames:
    """Remembers the names of the last users to come, and for ten minutes that there is none: a directory service may be
    away, and slow.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._unknown: dict[int, float] = {}

    def __call__(self, uid: int) -> str:
        """The user's name, or the number where it has none that can be shown."""
        name = self._names.get(uid)
        if name is None and time.monotonic() >= self._unknown.get(uid, -1.0):
            name = _look_up(uid)
            if name is None:
                self._unknown.pop(uid, None)
                _remember(self._unknown, uid, time.monotonic() + _UNKNOWN_VALID)
            else:
                _remember(self._names, uid, name)
        return str(uid) if name is None else name


def _remember(known: dict[int, _T], uid: int, what: _T) -> None:
    if len(known) >= _MOST:
        del known[next(iter(known))]
    known[uid] = what


def _look_up(uid: int) -> str | None:
    try:
        name = pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError, OSError):
        return None
    return name if name and is_name(name) else None
