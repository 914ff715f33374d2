"""A day of a fleet as OpenMetrics text, as far as dashboards ask: a sample a minute, jobs that change every six hours.

What is asked of the whole fleet over the range is there for all GPUs and all day; everything else for the last 20
minutes, and for the whole day of one node, whose GPUs one job holds. The alerter has 500 open incidents.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from benchmarks.cluster.fleet import MODEL, Fleet, Gpu
from dutycycle_alerter.web import families
from dutycycle_dashboards import recording
from dutycycle_exporter import contract
from tests.dashboards.answers import alerting
from tests.dashboards.answers.exposition import RATIO, SIZES, VALUES

DAY, HOUR, MINUTE = 86_400, 3600, 60
RECENT = HOUR // 3
PHASES = 4
"""Jobs on a GPU a day, one after the other."""
ALL_DAY = (
    "gpu_allocation",
    "gpu_utilization_ratio",
    "gpu_sm_active_ratio",
    "gpu_tensor_active_ratio",
    "gpu_dram_active_ratio",
    "gpu_visible",
    "gpu_expected",
)
"""Of the exporter's families; the copies of its counters, and what is recorded by user, too."""
USERS = 300
INCIDENTS = 500

Labels = Mapping[str, str]


class Day:
    """The day from `midnight` (seconds since 1970) of a fleet."""

    def __init__(self, fleet: Fleet, midnight: float) -> None:
        self.fleet = fleet
        self.midnight = int(midnight)
        self.end = self.midnight + DAY - MINUTE
        whole = next(job for job in fleet.jobs if sum(held is job for _, held in fleet.held) == 8)
        self.job = self._owner(next(gpu for gpu, job in fleet.held if job is whole), PHASES - 1)["workload"]
        self.node = next(gpu.node for gpu, job in fleet.held if job is whole)
        self._rows = 0

    def write(self, path: Path) -> int:
        """Samples written."""
        with path.open("w", buffering=2**22) as file:
            for family in contract.FAMILIES.values():
                file.write(f"# TYPE {family.name.removesuffix('_total')} {family.kind}\n")
                file.writelines(self._family(family))
            for counter in recording.COUNTERS:
                file.writelines(self._copied(counter))
            file.writelines(self._recorded())
            file.writelines(self._alerter())
            file.write("# EOF\n")
        return self._rows

    def _family(self, family: contract.Family) -> Iterator[str]:
        own, shown = set(family.labels), VALUES.get(family.name, ({},))
        if {"pid", "xid", "value"} & own:
            return
        buckets = [str(bound) for bound in contract.UTILIZATION_BUCKETS] + ["+Inf"]
        if family.kind == "histogram":
            shown = tuple({"le": bound} for bound in buckets)
        name = family.name + ("_bucket" if family.kind == "histogram" else "")
        rate = SIZES.get(family.name, 0.3)
        counts = family.kind != "gauge"
        for labels, first, last in self._series(own):
            wide = family.name in ALL_DAY or labels.get("node") == self.node
            begin = first if wide else max(first, self.end - RECENT)
            for more in shown:
                if begin <= last:
                    value = float(self.end - HOUR) if name.endswith("_timestamp_seconds") else SIZES.get(name, RATIO)
                    yield self._lines(name, {**labels, **more}, range(begin, last + 1, MINUTE), value, rate, counts)

    def _series(self, own: set[str]) -> Iterator[tuple[dict[str, str], int, int]]:
        """Labels of what the family is about, and from when to when it is there."""
        gpus = self.fleet.gpus
        if "workload" in own:
            of_node = "gpu" not in own
            for gpu in gpus:
                for phase in range(PHASES):
                    owner = self._owner(gpu, phase)
                    if not owner or (of_node and gpu.rank):
                        continue
                    known = {**gpu.device, **owner}
                    first = self.midnight + phase * DAY // PHASES
                    yield {k: v for k, v in known.items() if k in own}, first, first + DAY // PHASES - MINUTE
        elif "gpu" in own:
            for gpu in gpus:
                more = {"model": MODEL} if "model" in own else {}
                yield {**gpu.device, **more}, self.midnight, self.end
        else:
            for node in self.fleet.nodes:
                yield {"node": node} if "node" in own else {"instance": f"{node}:9836"}, self.midnight, self.end

    def _owner(self, gpu: Gpu, phase: int) -> dict[str, str]:
        """Another job and another user in each part of the day."""
        if gpu.job is None:
            return {}
        number = gpu.job.number + phase * 10_000
        user = f"user{(gpu.job.number * 7 + phase * 31) % USERS}"
        job = {"workload": f"slurm/{number}", "job_id": str(number), "user": user}
        return {**gpu.job.owner, **job, "model": MODEL}

    def _copied(self, counter: str) -> Iterator[str]:
        names = ((recording.copy_of(counter), MINUTE), (recording.counted(counter), 5 * MINUTE))
        labels = set(recording.recorded()[recording.counted(counter)].labels)
        for name, every in names:
            for gpu in self.fleet.gpus:
                for phase in range(PHASES):
                    owner = self._owner(gpu, phase)
                    if owner:
                        first = self.midnight + phase * DAY // PHASES
                        known = {k: v for k, v in {**gpu.device, **owner}.items() if k in labels}
                        yield self._lines(name, known, range(first, first + DAY // PHASES, every), 0, 0.5, True)

    def _recorded(self) -> Iterator[str]:
        owners = {
            tuple((label, owner[label]) for label in recording.BY)
            for gpu in self.fleet.gpus
            for phase in range(PHASES)
            if (owner := self._owner(gpu, phase))
        }
        times = range(self.midnight + 300, self.end, 300)
        yield from increments((dict(owner) for owner in owners), times, "5m")
        seconds = len(self.fleet.gpus) * 300.0
        yield self._lines(recording.capacity("5m"), {}, times, seconds, 0, False)
        for share in recording.QUANTILES:
            yield self._lines(recording.quantiles(), {"quantile": str(share)}, times, 100 * share, 0, False)

    def _alerter(self) -> Iterator[str]:
        times = range(self.midnight, self.end, MINUTE)
        held = [(gpu, job) for gpu, job in self.fleet.held if gpu.rank == 0][:INCIDENTS]
        for family in families.FAMILIES.values():
            if family.labels[:1] == ("incident",):
                for number, (gpu, _) in enumerate(held):
                    owner = self._owner(gpu, PHASES - 1)
                    what = alerting.INCIDENTS[number % 3] | owner
                    known = what | {"incident": str(number), "subject": owner["workload"], "node": gpu.node}
                    labels = {label: known[label] for label in family.labels}
                    yield self._lines(family.name, labels, times, self.end - HOUR, 0, False)
                continue
            for shown in alerting.VALUES[" ".join(family.labels)]:
                labels = dict(shown)
                name, counts = family.name, family.kind != "gauge"
                if family.kind == "histogram":
                    for bound in alerting.BOUNDS:
                        yield self._lines(f"{name}_bucket", {**labels, "le": bound}, times, 0, 0.01, True)
                else:
                    yield self._lines(name, labels, times, 1, 0.01, counts)

    def _lines(self, name: str, labels: Labels, times: Iterable[int], value: float, rate: float, counts: bool) -> str:
        prefix = _series_of(name, labels)
        times = list(times)
        self._rows += len(times)
        if counts:
            return "".join([f"{prefix} {rate * (t - times[0]):.1f} {t}\n" for t in times])
        return "".join([f"{prefix} {value} {t}\n" for t in times])


def increments(owners: Iterable[Labels], times: Iterable[int], resolution: recording.Resolution) -> Iterator[str]:
    """What is recorded by user, each with a mean of his own."""
    rng = random.Random(3)
    seconds = 300.0 if resolution == "5m" else 3600.0
    times = list(times)
    for owner in owners:
        mean = rng.random()
        known = dict(zip(recording.COUNTERS, (1.0, 1.0, mean, 400.0), strict=True))
        for counter, rate in known.items():
            prefix = _series_of(recording.increase(counter, resolution), owner)
            yield "".join([f"{prefix} {rate * seconds} {t}\n" for t in times])
        for bound in (*contract.UTILIZATION_BUCKETS, "+Inf"):
            prefix = _series_of(recording.increase(recording.SAMPLES, resolution), {**owner, "le": str(bound)})
            yield "".join([f"{prefix} {seconds / 2} {t}\n" for t in times])


def _series_of(name: str, labels: Labels) -> str:
    written = ",".join([f'{label}="{value}"' for label, value in labels.items() if value])
    return f"{name}{{{written}}}"
