"""Jobs that hold no GPU any more, until it is known that they are over: a next pod may follow, over time.

A source shows an end once, and forgets. What it said then is kept, so that the job's end finds it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from dutycycle_alerter.model import JobEvidence
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.report import windows_of_a_life
from dutycycle_alerter.settings import Judging

_TOLD = 3
"""Passes in which an end is told: one that is not committed told nobody."""
UNSEEN = "its next pod has not begun yet"


@dataclass(slots=True)
class _Held:
    evidence: JobEvidence
    left: int = _TOLD


class Endings:
    """Not for several threads at once. `judging` is scaled."""

    def __init__(self, judging: Judging) -> None:
        self._judging = judging
        self._held: dict[str, _Held] = {}

    def hold(self, ended: JobEvidence) -> JobEvidence:
        """The job as one that is not seen; what is known of its end is kept."""
        longest = inf if ended.longest is None else ended.longest
        lengths = {*windows_of_a_life(ended, self._judging), *Case(ended, self._judging).lengths()}
        # Those of a source hold what it knows of every job.
        windows = {length: ended.window(length) for length in lengths if length <= longest}
        # What it consumed is accounted for now, and only now.
        self._held[ended.job.id] = _Held(replace(ended, window=windows.__getitem__, recent=()))
        return replace(ended, ended=None, visible=False, unseen=UNSEEN)

    def waiting(self) -> list[JobEvidence]:
        """What is kept of each job."""
        return [held.evidence for held in self._held.values()]

    def goes_on(self, job: str) -> None:
        """A pod of it holds GPUs again."""
        self._held.pop(job, None)

    def told(self, job: str) -> None:
        """Its end was told in this pass."""
        held = self._held[job]
        held.left -= 1
        if held.left == 0:
            del self._held[job]
