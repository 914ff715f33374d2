"""A plan as tables for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .model import Condition, Job, Scenario, Truth

HOUR = 3600.0


@dataclass
class _Sum:
    jobs: int = 0
    seconds: float = 0.0
    busy: float = 0.0
    must: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    may: int = 0
    silent: int = 0
    unruled: int = 0
    healthy: int = 0


def table(scenario: Scenario, truths: Iterable[tuple[Job, Truth]]) -> Iterator[str]:
    """By mechanism: jobs, GPU-hours, true utilization, conditions."""
    sums: defaultdict[str, _Sum] = defaultdict(_Sum)
    for job, truth in truths:
        length = (job.end - job.start) * len(job.gpus)
        for one in (sums[job.mechanism], sums[""]):
            one.jobs += 1
            one.seconds += length
            one.busy += truth.busy
            one.healthy += not truth.conditions
            for condition in truth.conditions:
                if condition.must:
                    one.must[condition.rule] += 1
                elif condition.silent:
                    one.silent += 1
                elif condition.unruled:
                    one.unruled += 1
                else:
                    one.may += 1
    whole = sums.pop("")
    capacity = len(scenario.nodes) * scenario.gpus_per_node * scenario.length
    mixed = sum(job.mixed for job in scenario.jobs)
    pods = sum(job.scheduler == "k8s" for job in scenario.jobs)
    yield (
        f"{scenario.parameters}, seed {scenario.seed}: {whole.jobs} jobs in {scenario.length / HOUR:.1f} h on "
        f"{len(scenario.nodes)} nodes, {100 * whole.seconds / capacity:.0f} % of the GPUs' time; {mixed} mixed, "
        f"{pods} pods, {len(scenario.faults)} faults"
    )
    width = max(len(name) for name in sums)
    yield f"{'mechanism':<{width}}  jobs  GPU-h  util  well  may  silent  unruled  must"
    rows = sorted(sums.items(), key=lambda row: -row[1].seconds)
    for name, one in (*rows, ("all", whole)):
        must = ", ".join(f"{rule} {count}" for rule, count in sorted(one.must.items()))
        yield (
            f"{name:<{width}}  {one.jobs:4d}  {one.seconds / HOUR:5.0f}  {100 * one.busy / one.seconds:3.0f}%  "
            f"{one.healthy:4d}  {one.may:3d}  {one.silent:6d}  {one.unruled:7d}  {must}"
        )


def jobs(truths: Iterable[tuple[Job, Truth]]) -> Iterator[str]:
    """Each job in a line, and each of its conditions in another."""
    for job, truth in truths:
        length = job.end - job.start
        yield (
            f"{job.workload}  {job.mechanism}  {len(job.gpus)} {job.model}  {job.start / 60:.0f} to "
            f"{job.end / 60:.0f} min  {100 * truth.busy / length / len(job.gpus):.0f} %  {_spent(truth.spent, job)}"
        )
        yield from _conditions(truth.conditions)


def _spent(spent: Mapping[str, float], job: Job) -> str:
    whole = (job.end - job.start) * len(job.gpus)
    parts = sorted(spent.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {100 * seconds / whole:.0f} %" for name, seconds in parts if seconds >= 0.01 * whole)


def _conditions(found: Sequence[Condition]) -> Iterator[str]:
    for one in found:
        kind = "must" if one.must else "silent" if one.silent else "unruled" if one.unruled else "may"
        causes = ", ".join(sorted(one.causes))
        yield f"    {kind:7} {one.rule} ({causes})  {one.since / 60:.0f} to {one.until / 60:.0f} min"
