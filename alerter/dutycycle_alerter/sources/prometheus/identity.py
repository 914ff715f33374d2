"""Who holds which GPU, as far as the engine can tell: jobs with their GPUs, and whether they can be seen or have ended.

What is remembered between passes are the allocations themselves, so that a job whose exporter has been silent for
hours is unknown and not forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dutycycle_alerter.model import Gpu, job_id
from dutycycle_alerter.promql.answers import Vector
from dutycycle_alerter.settings import WINDOWS
from dutycycle_alerter.sources.prometheus.scope import ABSENT, ABSENT_SCRAPES
from dutycycle_alerter.sources.prometheus.selectors import Query

JobKey = tuple[str, str]
"""Cluster and workload."""
Key = tuple[str, str, str, str]
"""Node, GPU UUID, MIG UUID, workload."""
Device = tuple[str, str, str]
"""The same without the workload."""


@dataclass(slots=True)
class Answers:
    """The identity queries' answers, those of all shards together."""

    vectors: defaultdict[str, list[tuple[Query, Vector]]] = field(default_factory=lambda: defaultdict(list))

    def fold(self, query: Query, vector: Vector) -> None:
        """Take one answer."""
        self.vectors[query.name].append((query, vector))

    def items(self, name: str) -> Iterable[tuple[tuple[str, ...], float]]:
        """Key and value of every series of a query."""
        for _, vector in self.vectors[name]:
            yield from zip(vector.keys, vector.values.tolist(), strict=True)

    def lowest(self, name: str) -> dict[tuple[str, ...], float]:
        """The lowest value of each key."""
        found: dict[tuple[str, ...], float] = {}
        for key, value in self.items(name):
            found[key] = min(value, found.get(key, value))
        return found

    def highest(self, name: str) -> dict[tuple[str, ...], float]:
        """The highest value of each key."""
        found: dict[tuple[str, ...], float] = {}
        for key, value in self.items(name):
            found[key] = max(value, found.get(key, value))
        return found


@dataclass(slots=True)
class Held:
    """One allocation: a workload on a GPU. `seen` is when it was last there."""

    job: JobKey
    gpu: Gpu
    share: float
    seen: float
    present: bool = True
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a node: whether its exporter answers, and whether it has for as long as an end takes."""

    fresh: bool = False
    steady: bool = False
    visible: float | None = None
    expected: float | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """One job. `ended` is when; `visible` tells whether all of it can be seen now."""

    key: JobKey
    held: tuple[tuple[Key, Held], ...]
    ended: float | None
    visible: bool
    watched_from: float

    @property
    def id(self) -> str:
        """The job's id."""
        return job_id(*self.key)


@dataclass(slots=True)
class Identity:
    """The allocations as they were last seen. `interval` is the scrape interval in wall seconds."""

    interval: float
    time_scale: float = 1.0
    held: dict[Key, Held] = field(default_factory=dict)
    first_seen: dict[JobKey, float] = field(default_factory=dict)
    told: set[Key] = field(default_factory=set)
    sights: dict[str, Sight] = field(default_factory=dict)
    free: dict[Device, Gpu] = field(default_factory=dict)
    gpus: dict[Device, tuple[Gpu, float]] = field(default_factory=dict)
    """Every GPU that was shown within a day, and when it last was."""
    owners: dict[JobKey, Mapping[str, str]] = field(default_factory=dict)
    labels: dict[JobKey, Mapping[str, str]] = field(default_factory=dict)
    """Labels of the jobs' pods, where any entry asks for them."""
    starts: dict[JobKey, float] = field(default_factory=dict)
    first_processes: dict[JobKey, float] = field(default_factory=dict)

    def update(self, answers: Answers, at: float) -> list[Known]:
        """Take the answers of a pass; every job that is known, also those that have just ended, by id."""
        self._see_nodes(answers, at)
        self._see_allocations(answers, at)
        self._see_owners(answers)
        self._see_gpus(answers, at)
        jobs: defaultdict[JobKey, list[tuple[Key, Held]]] = defaultdict(list)
        for key, held in self.held.items():
            jobs[held.job].append((key, held))
        watched = self._watched(answers, at)
        return [self._known(job, members, watched, at) for job, members in sorted(jobs.items())]

    def committed(self, jobs: Iterable[Known]) -> None:
        """What was said of these jobs is in the store: those that ended are let go."""
        for known in jobs:
            if known.ended is None:
                continue
            for key, _ in known.held:
                self.told.add(key)
                self.held.pop(key, None)
            for key in [key for key, held in self.held.items() if held.job == known.key]:
                self.told.add(key)
                del self.held[key]
            for remembered in (self.first_seen, self.owners, self.labels, self.starts, self.first_processes):
                remembered.pop(known.key, None)

    def _see_nodes(self, answers: Answers, at: float) -> None:
        seen, counted = answers.highest("seen_at"), answers.highest("answers")
        visible, expected = answers.highest("visible"), answers.highest("expected")
        self.sights = {}
        for key in sorted(seen.keys() | expected.keys()):
            fresh = key in seen and at - seen[key] <= ABSENT_SCRAPES * self.interval
            self.sights[key[0]] = Sight(
                fresh=fresh,
                steady=fresh and counted.get(key, 0) >= ABSENT_SCRAPES,
                visible=visible.get(key) if fresh else None,
                expected=expected.get(key),
            )

    def _see_allocations(self, answers: Answers, at: float) -> None:
        for held in self.held.values():
            held.present = False
        for (cluster, node, index, uuid, mig, workload, model), share in answers.items("held"):
            key = (node, uuid, mig, workload)
            known = self.held.get(key)
            if known is None or known.gpu.index != index or known.gpu.model != model:
                gpu = Gpu(node=node, index=index, uuid=uuid, mig=mig, model=model)
                self.held[key] = Held((cluster, workload), gpu, share, at)
            elif known.present:
                known.share = max(known.share, share)
            else:
                known.share, known.seen, known.present, known.ended = share, at, True, False
        missing = {key for key, _ in answers.items("missing")}
        gone = set()
        for (cluster, node, index, uuid, mig, workload, model), share in answers.items("gone"):
            key = (node, uuid, mig, workload)
            gone.add(key)
            if key not in self.held and key not in self.told:
                gpu = Gpu(node=node, index=index, uuid=uuid, mig=mig, model=model)
                # Nobody has watched it end: it was before the scrapes of which none has it.
                seen = at - self.interval if key in missing else at - ABSENT * self.interval
                self.held[key] = Held((cluster, workload), gpu, share, seen, present=False)
        self.told &= gone
        forgotten = at - WINDOWS[-1] / self.time_scale
        for key, held in list(self.held.items()):
            if held.present:
                self.told.discard(key)
            elif held.seen < forgotten:
                del self.held[key]
            else:
                held.ended = key not in missing and self._sight(key[0]).steady

    def _see_gpus(self, answers: Answers, at: float) -> None:
        self.free = {
            (node, uuid, mig): Gpu(node, index, uuid, mig, model)
            for (node, index, uuid, mig, model), _ in answers.items("free")
        }
        for device, gpu in self.free.items():
            self.gpus[device] = gpu, at
        for key, held in self.held.items():
            if held.present:
                self.gpus[key[:3]] = held.gpu, at
        forgotten = at - WINDOWS[-1] / self.time_scale
        for device in [device for device, (_, seen) in self.gpus.items() if seen < forgotten]:
            del self.gpus[device]

    def _see_owners(self, answers: Answers) -> None:
        for query, vector in answers.vectors["owner"]:
            for values in vector.keys:
                self.owners[values[0], values[1]] = dict(zip(query.labels, values, strict=True))
        labels: defaultdict[JobKey, dict[str, str]] = defaultdict(dict)
        for (cluster, workload, label, value), _ in sorted(answers.items("labels")):
            labels[cluster, workload][label] = value
        self.labels.update(labels)
        present = {held.job for held in self.held.values() if held.present}
        for name, found in (("start", self.starts), ("first_process", self.first_processes)):
            known = {(cluster, workload): value for (cluster, workload), value in answers.lowest(name).items()}
            for job in present - known.keys():
                # What it was in an earlier run.
                found.pop(job, None)
            found.update(known)
        alive = {held.job for held in self.held.values()}
        for remembered in (self.first_seen, self.owners, self.labels, self.starts, self.first_processes):
            for job in remembered.keys() - alive:
                del remembered[job]

    def _watched(self, answers: Answers, at: float) -> dict[JobKey, list[tuple[float, float]]]:
        """How many of a job's GPUs were there at the beginning of each window."""
        found: defaultdict[JobKey, defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
        for query, vector in answers.vectors["watched"]:
            for (cluster, workload), count in zip(vector.keys, vector.values.tolist(), strict=True):
                found[cluster, workload][at - query.window] += count
        return {job: list(counts.items()) for job, counts in found.items()}

    def _known(
        self,
        job: JobKey,
        members: list[tuple[Key, Held]],
        watched: Mapping[JobKey, list[tuple[float, float]]],
        at: float,
    ) -> Known:
        present = [member for member in members if not member[1].ended]
        ended = None if present else max(held.seen for _, held in members)
        judged = sorted(present or members, key=_natural)
        since = self.first_seen.setdefault(job, at)
        # Before its start it was another run of it.
        start = self.starts.get(job, 0.0) - self.interval
        whole = [t for t, count in watched.get(job, ()) if count >= len(judged) and t >= start]
        return Known(
            key=job,
            held=tuple(judged),
            ended=ended,
            visible=all(held.present and self._sight(key[0]).fresh for key, held in judged),
            watched_from=min([since, *whole]),
        )

    def _sight(self, node: str) -> Sight:
        return self.sights.get(node, _UNSEEN)


def twice(answers: Answers) -> str:
    """What is to be said of allocations that the engine has twice; empty where there are none."""
    count = sum(value for _, value in answers.items("twice"))
    return f"{count:.0f} allocations are there twice; the higher values count" if count else ""


_UNSEEN = Sight()


def _natural(member: tuple[Key, Held]) -> tuple[str, int, str, str]:
    """Order by node and by index as a number."""
    gpu = member[1].gpu
    return gpu.node, int(gpu.index) if gpu.index.isdecimal() else -1, gpu.index, gpu.mig
