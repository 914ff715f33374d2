"""A thread that takes turns, and waits between them as long as each turn says."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

AFTER_MISTAKE = 60.0
"""Seconds until the turn after one that raised what nobody foresaw."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds until the next turn: in any case, and then as many more as nobody wakes the loop."""

    least: float
    more: float = 0.0


@dataclass(slots=True)
class Loop:
    """Takes turns on a thread of its own."""

    name: str
    turn: Callable[[], Pause]
    _stop: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begins."""
        threading.Thread(target=self._run, name=self.name, daemon=True).start()

    def stop(self) -> None:
        """Ends after the turn that is under way."""
        self._stop.set()
        self._wake.set()

    def wake(self) -> None:
        """Lets the next turn come when the least of the pause is over."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                pause = self.turn()
            except Exception:
                # A mistake of ours must not end the thread: the next answer may well be fit to be read.
                log.exception("asking %s failed", self.name)
                pause = Pause(AFTER_MISTAKE)
            if self._stop.wait(pause.least):
                return
            if pause.more:
                self._wake.wait(pause.more)
