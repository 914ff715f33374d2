"""GPUs whose holder the metrics do not tell, and the scheduler's word whose they are.

Where a site keeps the exporter that it has, a Slurm job may be nowhere in the metrics. The scheduler knows how many
GPUs of each node it holds, and their places in a list whose order is its own: a job that holds all GPUs of its nodes
surely holds these. Of any other the places must be known to be NVML's. A GPU whose holder cannot be told is nobody's:
better that than to accuse the wrong one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from dutycycle_alerter.grouping import added_up
from dutycycle_alerter.model import (
    Consumption,
    DeviceWindow,
    Evidence,
    Gpu,
    GpuEvidence,
    Job,
    JobEvidence,
    WindowEvidence,
    workload_of,
)
from dutycycle_alerter.printable import printable

UNOWNED = "gpu/"
"""What the workload of a GPU begins with that nobody is known to hold."""

_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Held:
    """What a job holds of a node: `count` of its `total` GPUs, 0 where it cannot be told which those are. `indexes` are
    NVML's; None where they are not known.
    """

    count: int
    total: int
    indexes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """A job that holds GPUs, by node; `job.gpus` is empty, `job.start` when it got them, `ended` until when it had."""

    job: Job
    on: Mapping[str, Held]
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Holders:
    """A scheduler's word: every job that holds GPUs now, those lately `ended` with their end, by id, and the nodes that
    it knows.
    """

    holdings: Sequence[Holding] = ()
    ended: Mapping[str, float] = field(default_factory=dict)
    nodes: Collection[str] = ()


def is_unowned(job: Job) -> bool:
    """Whether this is a GPU, and not a job that holds one."""
    return workload_of(job.id, job.cluster).startswith(UNOWNED)


def unclaimed(evidence: Evidence) -> tuple[str, ...]:
    """What is to be said of GPUs whose holder nobody tells; empty where there are none."""
    gpus = [gpu for item in evidence.unowned for gpu in item.job.gpus]
    if not gpus:
        return ()
    nodes = sorted({gpu.node for gpu in gpus})
    shown = [printable(node, 60) for node in nodes[:3]] + ["..."] * (len(nodes) > 3)
    return (f"GPUs whose holder neither metrics nor scheduler tell: {len(gpus)} ({', '.join(shown)})",)


class Claims:
    """Claims over time: a job whose end the scheduler tells is shown as ended, with the GPUs that it had, until what it
    consumed is accounted for. Not for several threads at once.
    """

    def __init__(self) -> None:
        self._held: dict[str, Holding] = {}

    def made(self, evidence: Evidence, holders: Holders) -> Evidence:
        """The evidence with the jobs of a scheduler in it, as far as it is known which GPUs they hold.

        Jobs that the metrics tell of stay as they are. `unowned` has the GPUs left that somebody may hold.
        """
        board = _Board(evidence)
        told = {item.job.id for item in evidence.jobs}
        live = [holding for holding in holders.holdings if holding.job.id not in told]
        parts = {holding.job.id: board.parts(holding) for holding in live}
        asked = Counter(_place(part) for found in parts.values() for part in found)
        claimed: list[JobEvidence] = []
        held: dict[str, Holding] = {}
        holder: dict[_Place, str] = {}
        unclear: set[str] = set()
        for holding in live:
            found = parts[holding.job.id]
            if found and all(asked[_place(part)] == 1 for part in found):
                claimed.append(_joined(holding, found, board.until))
                held[holding.job.id] = holding
                holder.update(dict.fromkeys(map(_place, found), holding.job.id))
            else:
                unclear.update(holding.on)
        present = {holding.job.id: holding.job.start for holding in live}
        over, waiting = self._over(board, holders, present.keys() | told)
        # A GPU that cannot be seen for a while is still the job's.
        still = {job: known for job, known in self._held.items() if present.get(job) == known.job.start}
        self._held = {**waiting, **still, **held}
        unclear |= {gpu.node for item in evidence.unowned for gpu in item.job.gpus} - set(holders.nodes)
        return replace(
            evidence,
            jobs=[*evidence.jobs, *claimed, *over],
            unowned=[item for item in board.unowned if item.job.gpus[0].node in unclear and _place(item) not in holder],
            gpus=[_held_by(item, holder.get((item.gpu.node, item.gpu.uuid), "")) for item in evidence.gpus],
        )

    def _over(
        self, board: _Board, holders: Holders, present: Collection[str]
    ) -> tuple[list[JobEvidence], dict[str, Holding]]:
        """Jobs that ended since the last pass, or whose consumption was not all accounted for; and what is to be
        remembered.
        """
        over: list[JobEvidence] = []
        waiting: dict[str, Holding] = {}
        for job, holding in self._held.items():
            end = holders.ended.get(job)
            if job in present or end is None:
                continue
            parts = board.parts(holding)
            if parts:
                since = board.until - max(_length(part.recent) for part in parts)
                if holding.ended is not None and end < since:
                    continue
                told = replace(holding, ended=max(end, holding.job.start))
                over.append(_joined(told, parts, board.until))
                waiting[job] = told
            else:
                waiting[job] = holding
        return over, waiting


class _Board:
    """The GPUs without an owner, and all that their nodes show."""

    def __init__(self, evidence: Evidence) -> None:
        self.unowned = [item for item in evidence.unowned if item.ended is None and item.job.gpus]
        now = self.unowned[0].at if self.unowned else 0.0
        self.until = now if evidence.accounted_until is None else evidence.accounted_until
        owned = [gpu for item in evidence.jobs if item.ended is None for gpu in item.job.gpus]
        free = [item.job.gpus[0] for item in self.unowned]
        shown: defaultdict[str, dict[str, Gpu]] = defaultdict(dict)
        divided: set[str] = set()
        for gpu in [*(item.gpu for item in evidence.gpus if item.visible), *owned, *free]:
            shown[gpu.node][gpu.uuid or gpu.index] = gpu
            if gpu.mig:
                divided.add(gpu.node)
        # What a scheduler's list means is not known where some GPUs are divided.
        self._shown = {node: gpus for node, gpus in shown.items() if node not in divided}
        self._free: defaultdict[str, dict[str, JobEvidence]] = defaultdict(dict)
        for gpu, item in zip(free, self.unowned, strict=True):
            self._free[gpu.node][gpu.index] = item

    def parts(self, holding: Holding) -> list[JobEvidence]:
        """The GPUs that a job holds; empty where any of them cannot be told."""
        found: list[JobEvidence] = []
        for node, held in holding.on.items():
            shown, free = self._shown.get(node, {}), self._free.get(node, {})
            if not 0 < held.count <= held.total or len(shown) != held.total:
                return []
            if held.count == held.total:
                indexes: Collection[str] = [gpu.index for gpu in shown.values()]
            elif held.indexes is not None and {gpu.index for gpu in shown.values()} == set(map(str, range(held.total))):
                indexes = held.indexes
            else:
                return []
            parts = [free.get(index) for index in indexes]
            found += [part for part in parts if part is not None]
            if None in parts:
                return []
        return found


def _place(item: JobEvidence) -> _Place:
    return item.job.gpus[0].node, item.job.gpus[0].uuid


def _held_by(item: GpuEvidence, job: str) -> GpuEvidence:
    if not job or item.gpu.mig:
        return item
    return replace(item, jobs=(job,), window=partial(_held_window, item.window))


def _held_window(window: Callable[[float], DeviceWindow], length: float) -> DeviceWindow:
    return replace(window(length), allocated=True)


def _joined(holding: Holding, parts: Sequence[JobEvidence], until: float) -> JobEvidence:
    job, at = holding.job, parts[0].at
    recent = [used for part in parts for used in _cut(part.recent, until, job.start, holding.ended)]
    return JobEvidence(
        job=replace(job, gpus=tuple(gpu for part in parts for gpu in part.job.gpus)),
        at=at,
        window=partial(_window, parts),
        # Before that the GPUs were others'.
        watched_from=max(job.start, *(part.watched_from for part in parts)),
        ended=None if holding.ended is None else min(at, holding.ended),
        visible=all(part.visible for part in parts),
        recent=added_up(recent),
        longest=max(0.0, min([at - job.start, *(part.longest for part in parts if part.longest is not None)])),
    )


def _window(parts: Sequence[JobEvidence], length: float) -> WindowEvidence:
    return WindowEvidence(length, tuple(usage for part in parts for usage in part.window(length).gpus))


def _length(recent: Sequence[Consumption]) -> float:
    """Seconds that a GPU was there, of those since the last pass."""
    return sum(used.allocated for used in recent)


def _cut(recent: Sequence[Consumption], until: float, start: float, end: float | None) -> Iterable[Consumption]:
    """What a GPU consumed between `start` and `end`, of what it consumed up to `until`: in proportion, because no finer
    times are known. What is before and after belongs to nobody.
    """
    after = 0.0 if end is None else max(0.0, until - end)
    wanted = max(0.0, (until if end is None else min(until, end)) - start)
    for used in sorted(recent, key=lambda used: until if used.at is None else used.at, reverse=True):
        skipped = min(used.allocated, after)
        kept = min(used.allocated - skipped, wanted)
        after -= skipped
        wanted -= kept
        if kept > 0:
            share = kept / used.allocated
            yield replace(
                used,
                allocated=kept,
                observed=used.observed * share,
                busy=used.busy * share,
                energy=None if used.energy is None else used.energy * share,
                idle=None if used.idle is None else used.idle * share,
                by_gpu={gpu: wasted * share for gpu, wasted in used.by_gpu.items()},
            )
