"""User names by uid, from the system's user database, which may be a directory service: slow, and away at times.

It is asked on a thread of its own. Who asks for a name waits for a moment, which is enough for a database that answers,
and has the number until then where it does not: a name that comes later makes other series, but a directory that is
away must not hold up the measuring.
"""

from __future__ import annotations

import pwd
import threading
import time
from queue import SimpleQueue
from typing import TypeVar

from .text import is_name

_T = TypeVar("_T")

_UNKNOWN_VALID = 600.0
_MOST = 1024
"""Users that are remembered: pods with user namespaces of their own bring uids without end."""
_WAIT, _MOST_WAIT = 0.25, 1.0
"""Seconds for which one name is waited for at most, and for which several are, one after another."""
_RECOVERY = 0.1
"""Seconds that may be waited again for each second that has passed."""


class UserNames:
    """Remembers the names of the last users to come, and for ten minutes that there is none. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._names: dict[int, str] = {}
        self._unknown: dict[int, float] = {}
        self._asked: set[int] = set()
        self._questions: SimpleQueue[int] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waited, self._waited_at = 0.0, time.monotonic()

    def __call__(self, uid: int) -> str:
        """The user's name, or the number where it has none that can be shown, or none has been told yet."""
        with self._changed:
            name = self._names.get(uid)
            known = name is not None or time.monotonic() < self._unknown.get(uid, -1.0)
            if not known and uid not in self._asked and len(self._asked) < _MOST:
                self._ask(uid)
                name = self._names.get(uid)
        return str(uid) if name is None else name

    def _ask(self, uid: int) -> None:
        held_up = bool(self._asked)
        self._asked.add(uid)
        self._questions.put(uid)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="users", daemon=True)
            self._thread.start()
        if not held_up:
            self._wait(uid)

    def _wait(self, uid: int) -> None:
        began = time.monotonic()
        self._waited = max(0.0, self._waited - _RECOVERY * (began - self._waited_at))
        self._changed.wait_for(lambda: uid not in self._asked, min(_WAIT, max(0.0, _MOST_WAIT - self._waited)))
        self._waited_at = time.monotonic()
        self._waited += self._waited_at - began

    def _run(self) -> None:
        while True:
            uid = self._questions.get()
            name = _look_up(uid)
            with self._changed:
                self._unknown.pop(uid, None)
                if name is None:
                    _remember(self._unknown, uid, time.monotonic() + _UNKNOWN_VALID)
                else:
                    _remember(self._names, uid, name)
                self._asked.discard(uid)
                self._changed.notify_all()


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
