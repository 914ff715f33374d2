"""What the scraped exporters have said so far, as evidence of jobs. In memory, without I/O and without a clock.

A workload's series live here from the first scrape that carries them until the job has ended and its end was judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from dutycycle_alerter.history import GPU_COUNTERS, Series
from dutycycle_alerter.model import Consumption, Evidence, Gpu, Job, JobEvidence
from dutycycle_alerter.settings import JobMatch, KindMatch
from dutycycle_alerter.sources.consumed import consumed
from dutycycle_alerter.sources.devices import Devices
from dutycycle_alerter.sources.exposition import Exposition, SeriesKey
from dutycycle_alerter.sources.jobs import describe
from dutycycle_alerter.sources.tracked import ABSENT_ANSWERS, Tracked
from dutycycle_alerter.store.counters import PointRow, SeriesRow
from dutycycle_alerter.window_usage import memory_grew_at, window_evidence

LONGEST_WINDOW = 86400.0
CLOCK_SLACK = 1.0
"""Seconds by which the clock may go back, beside a scrape interval, without anything being done about it."""


@dataclass(slots=True)
class Fleet:
    """The state of all exporters. Times are wall times; `interval`, `resolution`, `device_window` (the longest of the
    rules on GPUs) and `loading` (how long a young job may take memory and be loading) are wall seconds.
    """

    interval: float
    resolution: float
    time_scale: float = 1.0
    kinds: tuple[KindMatch, ...] = ()
    uneven_by_design: tuple[JobMatch, ...] = ()
    series: dict[SeriesKey, Tracked] = field(default_factory=dict)
    hosts: dict[tuple[str, str], Series] = field(default_factory=dict)
    hosts_saved_at: dict[tuple[str, str], float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    device_window: float = 900.0
    loading: float = 1200.0
    devices: Devices = field(init=False)

    def __post_init__(self) -> None:
        self.devices = Devices(
            interval=self.interval,
            resolution=self.resolution,
            window=self.device_window,
            kept=LONGEST_WINDOW / self.time_scale,
            time_scale=self.time_scale,
        )

    def ingest(self, exposition: Exposition, t: float) -> None:
        """Take one exporter's answer."""
        for key, owned in exposition.owned.items():
            tracked = self.series.get(key)
            if tracked is None:
                if owned.share is None:
                    continue  # it ended before we began to watch: nothing to judge, and its waste is not ours to count
                nothing = (None,) * len(GPU_COUNTERS)
                tracked = self.series[key] = Tracked(owned.labels, Series(len(nothing)), accounted=nothing)
            if not tracked.link and key[:3] in exposition.devices:
                tracked.link = exposition.devices[key[:3]].link_kind
            counters, gauges = exposition.gpu_values(key, tracked.link)
            tracked.append(t, counters, gauges, spacing=self.resolution)
            if owned.share is not None:
                tracked.labels = owned.labels
                tracked.pod_labels = exposition.labels.get((owned.labels.get("cluster", ""), key[3]), {})
                tracked.allocated_at = t
                tracked.absent = 0
                tracked.start = tracked.start if owned.start is None else owned.start
                tracked.first_process = _first_process(tracked, owned.first_process)
        for host_key, host in exposition.hosts.items():
            history = self.hosts.setdefault(host_key, Series(len(host.counters)))
            history.append(t, tuple(host.counters), (host.cpu_limit,), spacing=self.resolution)
        for node in exposition.nodes:
            self.answered[node] = t
        for key, tracked in self.series.items():
            if key[0] in exposition.nodes and tracked.allocated_at < t:
                tracked.absent += 1
        self.devices.ingest(exposition, t)

    def heed_clock(self, now: float) -> float | None:
        """To be called before each round of scrapes: what was seen by a clock that has since been set back would hide
        all that comes, for as long as the step.

        Returns the time up to which points are kept, or None where the clock was not set back by more than a scrape
        interval and a second: by less the next rounds catch up.
        """
        seen = [*self.answered.values(), *(t.newest for t in self.series.values())]
        if max(seen, default=now) <= self._latest(now):
            return None
        until = now - self.interval
        for tracked in self.series.values():
            tracked.rewind(until)
        self.answered = {node: min(answered, until) for node, answered in self.answered.items()}
        self.devices.rewind(until)
        # CPU seconds over a time that is no longer the same would be any number of cores.
        self.hosts.clear()
        self.hosts_saved_at.clear()
        return until

    def _latest(self, now: float) -> float:
        """What lies later was seen by another clock than that of `now`."""
        return now + self.interval + CLOCK_SLACK

    def evidence(self, at: float) -> Evidence:
        """Every job that is known, also those that have just ended; every GPU and node."""
        jobs, latest = self.jobs(at), self._latest(at)
        # What came in since the pass began is counted too: who goes on from the store must not count it again.
        newest = max((t.newest for t in self.series.values() if t.newest <= latest), default=at)
        return Evidence(jobs, self.devices.gpus(at), self.devices.nodes(at), accounted_until=max(at, newest))

    def jobs(self, at: float) -> list[JobEvidence]:
        """Every job that is known, also those that have just ended."""
        jobs: defaultdict[str, list[Tracked]] = defaultdict(list)
        for tracked in self.series.values():
            jobs[tracked.job_id].append(tracked)
        return [self._job_evidence(members, at) for _, members in sorted(jobs.items())]

    def _job_evidence(self, members: list[Tracked], at: float) -> JobEvidence:
        present = [tracked for tracked in members if not tracked.gone]
        ended = None if present else max(tracked.allocated_at for tracked in members)
        judged = sorted(present or members, key=lambda tracked: _natural(tracked.gpu))
        workload = members[0].labels["workload"]
        job = self._job(judged)
        histories = [tracked.history for tracked in judged]
        idle_power = [None if gpu.mig else self.devices.idle_power.get(gpu.model) for gpu in job.gpus]
        hosts = [self.hosts.get((node, workload)) for node in job.nodes]
        return JobEvidence(
            job=job,
            at=at,
            window=partial(window_evidence, histories, hosts, at, idle_power=idle_power, longest_gap=self._longest_gap),
            watched_from=max(history.times[0] for history in histories),
            memory_grew_at=memory_grew_at(histories, job.start, min(at, job.began + self.loading)),
            ended=ended,
            # An allocation that the newest answer lacks has ended, or will be back: until that is known, nothing is.
            visible=all(self._sees(node, at) for node in job.nodes) and not any(t.absent for t in present),
            recent=tuple(self._consumption(members)),
        )

    def _job(self, members: list[Tracked]) -> Job:
        labels = members[0].labels
        starts = [tracked.start for tracked in members if tracked.start is not None]
        first = [tracked.first_process for tracked in members if tracked.first_process is not None]
        return describe(
            labels,
            kinds=self.kinds,
            uneven_by_design=self.uneven_by_design,
            job_id=members[0].job_id,
            gpus=tuple(tracked.gpu for tracked in members),
            start=min(starts, default=min(tracked.history.times[0] for tracked in members)),
            start_told=bool(starts),
            first_process=min(first, default=None),
            labels={name: value for tracked in members for name, value in tracked.pod_labels.items()},
        )

    @property
    def _longest_gap(self) -> float:
        """Seconds between two points beyond which scrapes are missing: a few of them, at the spacing of points."""
        return ABSENT_ANSWERS * self.interval + self.resolution

    def _sees(self, node: str, at: float) -> bool:
        answered = self.answered.get(node)
        return answered is not None and at - answered <= ABSENT_ANSWERS * self.interval

    def _consumption(self, members: list[Tracked]) -> Iterator[Consumption]:
        for part in consumed((tracked.gpu, tracked.consumption()) for tracked in members):
            if part.allocated or part.observed or part.busy or part.energy:
                yield part

    def committed(self, at: float) -> None:
        """The pass at `at` is in the store: its consumption is accounted for. Jobs are let go that ended, or of which
        nothing was heard within the longest window; and points that no window reaches.
        """
        oldest = at - LONGEST_WINDOW / self.time_scale
        alive = {item.job_id for item in self.series.values() if not item.gone and item.newest >= oldest}
        for key in [key for key, tracked in self.series.items() if tracked.job_id not in alive]:
            del self.series[key]
        workloads = {key[3] for key in self.series}
        for host_key in [key for key in self.hosts if key[1] not in workloads]:
            del self.hosts[host_key]
            self.hosts_saved_at.pop(host_key, None)
        for tracked in self.series.values():
            tracked.account()
            tracked.history.forget_before(oldest)
        for history in self.hosts.values():
            history.forget_before(oldest)
        self.devices.committed(at)

    # To and from the store

    def unsaved(self) -> tuple[list[tuple[SeriesRow, PointRow]], list[tuple[tuple[str, str], PointRow]]]:
        """The newest point of each series, where it is newer than what `saved` was last told."""
        series = [
            (self._row(key, tracked), _newest(tracked.history))
            for key, tracked in self.series.items()
            if tracked.newest > tracked.saved_at
        ]
        hosts = [
            (key, _newest(history))
            for key, history in self.hosts.items()
            if history.times[-1] > self.hosts_saved_at.get(key, 0.0)
        ]
        return series, hosts

    def saved(
        self, series: Iterable[tuple[SeriesRow, PointRow]], hosts: Iterable[tuple[tuple[str, str], PointRow]]
    ) -> None:
        """These points are in the store."""
        for row, point in series:
            if row.key in self.series:
                self.series[row.key].saved_at = point.t
        for key, point in hosts:
            self.hosts_saved_at[key] = point.t

    def restore(
        self,
        series: Iterable[tuple[SeriesRow, list[PointRow]]],
        hosts: Mapping[tuple[str, str], list[PointRow]],
        accounted_until: float,
        now: float,
    ) -> float | None:
        """Go on from what the store kept; consumption up to `accounted_until` is in the ledger already. Returns what
        `heed_clock` does.
        """
        for row, points in series:
            if not points:
                continue
            history = _replay(points)
            self.series[row.key] = Tracked(
                labels=row.labels,
                history=history,
                start=row.start,
                first_process=row.first_process,
                allocated_at=row.last_seen,
                saved_at=points[-1].t,
                accounted_until=accounted_until,
            )
        for key, points in hosts.items():
            self.hosts[key] = _replay(points)
            self.hosts_saved_at[key] = points[-1].t
        until = self.heed_clock(now)
        if until is None:
            for tracked in self.series.values():
                tracked.accounted_until = min(accounted_until, now)
        return until

    def _row(self, key: SeriesKey, tracked: Tracked) -> SeriesRow:
        return SeriesRow(
            key=key,
            gpu=tracked.labels["gpu"],
            labels=tracked.labels,
            start=tracked.start,
            first_process=tracked.first_process,
            last_seen=tracked.newest,
        )


def _first_process(tracked: Tracked, told: float | None) -> float | None:
    """What is told; where nothing is, what was told before, unless that was of a run before the start."""
    before = tracked.first_process
    if told is None and before is not None and (tracked.start is None or before >= tracked.start):
        return before
    return told


def _newest(history: Series) -> PointRow:
    return PointRow(history.times[-1], history.raw(), history.gauges[-1])


def _replay(points: list[PointRow]) -> Series:
    history = Series(len(points[0].counters))
    for point in points:
        history.append(point.t, point.counters, point.gauges)
    return history


def _natural(gpu: Gpu) -> tuple[str, int, str, str]:
    """Order by node and by index as a number."""
    return gpu.node, int(gpu.index) if gpu.index.isdigit() else -1, gpu.index, gpu.mig
