"""Which GPUs the next child asks last, and which not at all, lest every child hang in calls about the same one.

One hang may be the whole driver's, which stands still at whichever GPU comes next. So a GPU is left out only when two
children hung at it, of which the second had read others just before. From time to time it is tried again, as it may
have been reset; not while a child that cannot be killed still hangs there, as another would only join it.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dutycycle_exporter.driver import Driver
from dutycycle_exporter.model import Asking, Place

log = logging.getLogger(__name__)

LEFT_OUT = 600.0
"""Seconds for which a GPU is left out, doubled each time that it hangs again when it is tried: that costs the others a
turn.
"""
LONGEST = 3600.0
SUSPECTED = 600.0
"""Seconds after a hang, from which on another one at the same GPU is not its sequel."""


@dataclass(slots=True)
class _Case:
    """What is known of a GPU at which some child hung."""

    hung: float
    """When that was, or when it was tried again after that."""
    until: float | None = None
    """Until when it is left out; None while it is only suspected."""
    rest: float = field(default_factory=lambda: LEFT_OUT)
    """For how long it is left out the next time."""
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Those that hung there."""

    def due(self, now: float) -> bool:
        """Whether it is left out, and to be tried again."""
        return self.until is not None and self.until <= now and all(child.poll() is not None for child in self.children)


class HungGpus:
    """Told of each child that hung. `driver` tells which driver the kernel has: another one begins with what it brings
    up anew, so nothing is held against any GPU then.
    """

    def __init__(self, driver: Callable[[], Driver | None]) -> None:
        self._driver = driver
        self._of = driver()
        self._cases: dict[Place, _Case] = {}

    def note(self, asked: Asking | None, child: subprocess.Popen[bytes]) -> None:
        """A child hung in calls about that, or about no GPU."""
        if asked is None:
            return
        now = time.monotonic()
        case = self._cases.get(asked.gpu)
        if case is None or now - case.hung > SUSPECTED:
            case = self._cases[asked.gpu] = _Case(now)
        elif asked.read:
            log.warning(
                "GPU %d of %d does not return from a call: it is left out for %.0f min, and counts as lost",
                *asked.gpu,
                case.rest / 60,
            )
            case.until, case.rest = now + case.rest, min(2 * case.rest, LONGEST)
        case.hung = now
        case.children = [other for other in case.children if other.poll() is None] + [child]

    def due(self) -> bool:
        """Whether one that was left out is to be tried again, which another child does."""
        now = time.monotonic()
        return any(case.due(now) for case in self._cases.values())

    def explains(self, child: subprocess.Popen[bytes]) -> bool:
        """Whether a child hangs at a GPU that is left out, so that the next one does not hang there."""
        return any(case.until is not None and child in case.children for case in self._cases.values())

    def forget(self) -> None:
        """Nothing is held against any GPU any more."""
        self._cases.clear()

    def arguments(self) -> list[str]:
        """What the next child is told."""
        now, of = time.monotonic(), self._driver()
        if of != self._of:
            self._of = of
            self.forget()
        told = []
        for gpu, case in self._cases.items():
            if case.due(now):
                log.info("GPU %d of %d is tried again", *gpu)
                case.hung, case.until = now, None
            if case.until is not None:
                told += ["--leave-out", *map(str, gpu)]
            elif now - case.hung <= SUSPECTED:
                told += ["--ask-last", *map(str, gpu)]
        return told
