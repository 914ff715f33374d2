"""What recordings say of a fleet: figures, users, and what the rules find when every job's life is gone through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dutycycle_alerter.analysis.judging import Progress, TooShort, Verdicts, judge_jobs
from dutycycle_alerter.analysis.totals import Fleet, fleet_totals, user_totals
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.recordings import Recording
from dutycycle_alerter.recordings.tracks import Track, Tracks, tracks
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.recording import natural
from dutycycle_alerter.usage import UserUsage
from dutycycle_alerter.views import GpuSeries, Point

__all__ = ["Analysis", "Fleet", "TooShort", "Verdicts", "analyze"]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result. `users` are those with time of their own, and `findings` the incidents; most wasted first, both.

    All seconds and joules are the recording's: multiply by `time_scale` to show them.
    """

    fleet: Fleet
    users: tuple[UserUsage, ...]
    verdicts: Verdicts
    settings: Settings
    recording: Recording = field(repr=False)
    tracks: Tracks = field(repr=False)

    @property
    def findings(self) -> tuple[Incident, ...]:
        """What the rules found."""
        return self.verdicts.findings

    @property
    def time_scale(self) -> float:
        """Shown seconds in a second of the recording."""
        return self.settings.time_scale

    def series(self, workload: str) -> list[GpuSeries]:
        """The utilization of each GPU of a workload, row by row, in the order of nodes and indexes."""
        members = [track for track in self.tracks.tracks if track.workload == workload]
        return [GpuSeries(track.gpu, tuple(self._points(track))) for track in sorted(members, key=_place)]

    def _points(self, track: Track) -> Iterator[Point]:
        times = self.recording.t[track.rows].tolist()
        values = self.recording.numbers["utilization_ratio"][track.rows].tolist()
        for t, value in zip(times, values, strict=True):
            yield Point(t, None if value != value else value)  # noqa: PLR0124 - NaN is missing


def analyze(recording: Recording, settings: Settings, progress: Progress = lambda _done, _of: None) -> Analysis:
    """Judge every job of a recording at every minute of its life. `settings` are as configured, not scaled."""
    found = tracks(recording)
    verdicts = judge_jobs(recording, found, settings.scaled(), progress)
    return Analysis(
        fleet=fleet_totals(recording, found),
        users=user_totals(recording, found, verdicts.findings),
        verdicts=verdicts,
        settings=settings,
        recording=recording,
        tracks=found,
    )


def _place(track: Track) -> tuple[str, int, str, str]:
    return natural(track.gpu)
