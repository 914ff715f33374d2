"""Which GPUs a child is to leave alone: those in whose calls children hung, lest the next one hangs there, too."""

from __future__ import annotations

import logging
import time

from dutycycle_exporter.model import Asking

log = logging.getLogger(__name__)

LEFT_OUT = 600.0
"""Seconds for which a GPU is left alone, after which it may cost the others a turn again."""
_REMEMBERED = 3600.0
"""Seconds after which a hang tells nothing of the next one: what is rare is not that GPU's."""
_STUCK = 86400.0
"""Seconds, while a child hangs there that cannot be killed: another would only join it."""


class HungGpus:
    """Told of each child that hung. One hang may be the whole driver's: the second in a row about the same GPU within
    an hour, and each later one about it within an hour of its return, has that GPU left alone.
    """

    def __init__(self) -> None:
        self._until: dict[Asking, float] = {}
        self._last: Asking | None = None
        self._last_at = 0.0

    def note(self, asked: Asking | None) -> None:
        """A child hung after it had asked for that, or in a call about no GPU."""
        now = time.monotonic()
        self._until = {gpu: until for gpu, until in self._until.items() if now - until <= _REMEMBERED}
        again = asked == self._last and now - self._last_at <= _REMEMBERED
        if asked is not None and (again or asked in self._until):
            self._until[asked] = now + LEFT_OUT
            log.warning("GPU %d of %d does not return from a call: it is left out for 10 min", asked.index, asked.count)
        self._last, self._last_at = asked, now

    def arguments(self, *, stuck: bool) -> list[str]:
        """What the next child is told. `stuck`: some child could not be killed."""
        now = time.monotonic()
        left = {asked: until - now for asked, until in self._until.items() if until > now}
        return [
            argument
            for asked, seconds in left.items()
            for argument in ("--leave-out", str(asked.index), str(asked.count), str(_STUCK if stuck else seconds))
        ]
