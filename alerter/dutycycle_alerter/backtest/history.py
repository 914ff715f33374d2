"""Where a backtest gets its evidence from: anything that can say what was known at an instant of the past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dutycycle_alerter.model import Evidence, JobEvidence
from dutycycle_alerter.recordings import Recording
from dutycycle_alerter.recordings.tracks import tracks
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.recording import RecordedJob, recorded_jobs


class History(Protocol):
    """The past of a fleet. Times are Unix seconds, durations wall seconds."""

    @property
    def gaps(self) -> int:
        """At how many of the instants that were asked for nothing at all was known."""
        ...

    def extent(self) -> tuple[float, float] | None:
        """The first and the last instant of which anything is known; None where that is not known, or nothing is."""
        ...

    def instants(self, since: float, until: float, step: float) -> Sequence[float]:
        """When to judge: every `step` from `since` on, to `until` at most, without those of which nothing is known."""
        ...

    def evidence(self, at: float, since: float) -> Evidence:
        """What was known at `at`, with what jobs consumed since `since`, the instant before; a job that ended in
        between is told as ended. Raises AlerterError.
        """
        ...


class RecordedHistory:
    """The history in recordings. Kinds of jobs are left to whoever judges: one evidence serves any configuration."""

    gaps = 0

    def __init__(self, recording: Recording, *, time_scale: float = 1.0) -> None:
        neutral = Settings(time_scale=time_scale).scaled()
        self._jobs: list[RecordedJob] = list(recorded_jobs(recording, tracks(recording), neutral))

    def extent(self) -> tuple[float, float] | None:
        """From the start of the first row of any job to the end of the last."""
        if not self._jobs:
            return None
        return min(job.start for job in self._jobs), max(job.end for job in self._jobs)

    def instants(self, since: float, until: float, step: float) -> Sequence[float]:
        """Every `step` in which some job lived or ended."""
        spans = sorted((job.start, job.end) for job in self._jobs)
        found, place, last_end = [], 0, float("-inf")
        for number in range(1, int((until - since) / step * (1 + 1e-12)) + 1):
            at = since + number * step
            while place < len(spans) and spans[place][0] < at:
                last_end = max(last_end, spans[place][1])
                place += 1
            if last_end > at - step:
                found.append(at)
        return found

    def evidence(self, at: float, since: float) -> Evidence:
        """All jobs that lived at some time after `since`, up to `at`."""
        found: list[JobEvidence] = []
        for job in self._jobs:
            if job.start < at <= job.end:
                found.append(job.evidence(at, since=max(since, job.start)))
            if since < job.end <= at:
                told = at if job.end == at else since
                found.append(job.evidence(job.end, since=max(told, job.start), ended=True))
        return Evidence(found)
