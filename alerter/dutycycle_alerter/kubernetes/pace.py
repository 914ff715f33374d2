"""How long a watch takes, how long it may be silent, and how long is waited after failures."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, in seconds. `silence` is how long a watch may say nothing: a bookmark comes every minute.
    Servers look each second or so whether one is due, so that they lie `apart` at most: who hears nothing for longer
    was most likely stopped, and has yet to read what was told meanwhile. A watch is asked to end after `watch`, or half
    of that again. `settle` is how long what was missed is waited for when a watch goes on after a failure or such a
    stop. Pauses after failures grow from the first to the longest.
    """

    silence: float = 90.0
    apart: float = 62.0
    watch: float = 240.0
    settle: float = 2.0
    first_pause: float = 0.8
    longest_pause: float = 30.0
    page: int = 500

    def pause(self, in_a_row: int, asked: float | None) -> float:
        """How long to wait after so many failures. All who were turned away together shall not come back together:
        also not where the server `asked` to come later.
        """
        grown = self.first_pause * 2.0 ** min(in_a_row - 1, 20)
        pause = min(grown, self.longest_pause) * random.uniform(0.5, 1.0)  # noqa: S311
        return pause if asked is None else max(pause, asked * random.uniform(1.0, 1.1))  # noqa: S311
