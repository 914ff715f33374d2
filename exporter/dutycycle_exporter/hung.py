"""Which GPUs the next child asks last, and which not at all, lest every child hang in calls about the same one.

One hang may be the whole driver's, which stands still at whichever GPU comes next. So a GPU is left out only when two
children hung at it, of which the second had read others just before. From time to time it is tried again, as it may
have been reset; not while a child that cannot be killed still hangs there, as another would only join it.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from dutycycle_exporter.driver import Driver
from dutycycle_exporter.listening import SUSPECTED
from dutycycle_exporter.model import Asking, DeviceIndex

log = logging.getLogger(__name__)

LEFT_OUT = 600.0
"""Seconds at full length for which a GPU is left out, doubled each time that it hangs again when it is tried: that
costs the others a turn.
"""
LONGEST = 3600.0
"""Seconds at full length for which it is left out at most."""


@dataclass(slots=True)
class _Case:
    """What is known of a GPU at which some child hung."""

    hung: float
    """When that was noticed, or when it was tried again after that."""
    patience: float
    """Seconds from then on, in which another hang is its sequel."""
    rest: float
    """Seconds for which it is left out the next time."""
    until: float | None = None
    """Until when it is left out; None while it is only suspected."""
    tried: bool = False
    """Whether it was left out, and nobody knows yet whether it answers again."""
    answered: bool = False
    """Whether it answered a later child."""
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Those that hung there."""

    @property
    def held(self) -> bool:
        """Whether some child still hangs there, and no later one was answered."""
        return not self.answered and any(child.poll() is None for child in self.children)

    def suspected(self, now: float) -> bool:
        """Whether another hang would be its sequel."""
        return self.held or now - self.hung <= self.patience

    def due(self, now: float) -> bool:
        """Whether it is left out, and to be tried again."""
        return self.until is not None and self.until <= now and not self.held


class HungGpus:
    """Told of each child that hung. `driver` tells which driver the kernel has: another one brings up every GPU anew,
    so nothing is held against any of them then. `time_scale` divides for how long a GPU is left out.
    """

    def __init__(self, driver: Callable[[], Driver | None], *, time_scale: float = 1.0) -> None:
        self._driver = driver
        self._time_scale = time_scale
        self._of = driver()
        self._cases: dict[DeviceIndex, _Case] = {}

    def note(self, asked: Asking | None, child: subprocess.Popen[bytes], *, silence: float) -> None:
        """A child was silent for so long in calls about that GPU, or about none."""
        if asked is None:
            return
        now = time.monotonic()
        case = self._cases.get(asked.gpu)
        if case is None or not case.suspected(now):
            before = [] if case is None else case.children
            case = self._cases[asked.gpu] = _Case(
                now, SUSPECTED + silence, LEFT_OUT / self._time_scale, children=before
            )
        elif asked.read:
            log.warning(
                "the GPU of index %d, of %d, does not return from calls: it is left out, and counts as lost. "
                "It is tried again in %.0f min, if no child hangs there any more",
                *asked.gpu,
                case.rest * self._time_scale / 60,
            )
            case.until, case.rest, case.tried = now + case.rest, min(2 * case.rest, LONGEST / self._time_scale), False
        case.hung, case.answered = now, False
        case.children = [other for other in case.children if other.poll() is None] + [child]

    def turn(self, returned: Collection[DeviceIndex]) -> bool:
        """A turn came to its end, and the child returned from calls about these: whether another child is to try one
        that was left out.
        """
        for gpu in returned:
            case = self._cases.get(gpu)
            if case is None:
                continue
            case.answered = True
            if case.tried:
                case.tried = False
                log.info("the GPU of index %d, of %d, returns from calls again", *gpu)
        now = time.monotonic()
        return any(case.due(now) for case in self._cases.values())

    def explains(self, child: subprocess.Popen[bytes]) -> bool:
        """Whether a child hangs at a GPU that is left out, so that the next one does not hang there."""
        return any(case.until is not None and child in case.children for case in self._cases.values())

    def forget(self) -> None:
        """Nothing is held against any GPU any more but those at which a child still hangs."""
        self._cases = {gpu: case for gpu, case in self._cases.items() if case.held}

    def arguments(self) -> list[str]:
        """What the next child is told."""
        now, of = time.monotonic(), self._driver()
        # None may mean only that it could not be looked at.
        if of is not None and of != self._of:
            self._of = of
            self.forget()
        told = []
        for gpu, case in self._cases.items():
            if case.due(now):
                log.info("the GPU of index %d, of %d, is tried again", *gpu)
                case.hung, case.until, case.tried = now, None, True
            if case.until is not None:
                told += ["--leave-out", *map(str, gpu)]
            elif case.suspected(now):
                told += ["--ask-last", *map(str, gpu)]
        return told
