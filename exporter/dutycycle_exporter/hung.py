"""Which GPUs a child is to leave alone: those in whose calls children hung, lest the next one hangs there, too."""

from __future__ import annotations

import logging
import time

from dutycycle_exporter.model import Asking

log = logging.getLogger(__name__)

LEFT_OUT = 600.0
"""Seconds for which a GPU is left alone, after which it may cost the others a turn again."""
_STUCK = 86400.0
"""Seconds, while a child hangs there that cannot be killed: another would only join it."""


class HungGpus:
    """Told of each child that hung. One hang may be the whole driver's: the second in a row about the same GPU, and
    each later one about it, has that GPU left alone.
    """

    def __init__(self) -> None:
        self._until: dict[Asking, float] = {}
        self._last: Asking | None = None

    def note(self, asked: Asking | None) -> None:
        """A child hung after it had asked for that, or in a call about no GPU."""
        if asked is not None and (asked == self._last or asked in self._until):
            self._until[asked] = time.monotonic() + LEFT_OUT
            log.warning("GPU %d of %d does not return from a call: it is left out for 10 min", asked.index, asked.count)
        self._last = asked

    def arguments(self, *, stuck: bool) -> list[str]:
        """What the next child is told. `stuck`: some child could not be killed."""
        now = time.monotonic()
        left = {asked: until - now for asked, until in self._until.items() if until > now}
        return [
            argument
            for asked, seconds in left.items()
            for argument in ("--leave-out", str(asked.index), str(asked.count), str(_STUCK if stuck else seconds))
        ]
