"""A service of the exporter, fed by hand, and the page that it publishes."""

from __future__ import annotations

from dutycycle_exporter.collector import ExporterCollector
from dutycycle_exporter.model import (
    Allocation,
    GpuReading,
    HostReading,
    Ownership,
    Snapshot,
    Span,
    Workload,
)
from dutycycle_exporter.service import Service
from tests.exporter.published import registry_of
from tests.fakes.clock import FakeClock

WORKLOAD = Workload(id="slurm/1", scheduler="slurm", job_id="1", user="ada")
OWNERSHIP = Ownership(
    (Allocation("GPU-0", WORKLOAD, start=1.0),),
    hosts=(HostReading(WORKLOAD, cpu_seconds=10.0, io_pressure=1.0),),
    failures={("slurm", "symlink"): 1},
)

OWNER = {
    **dict.fromkeys(("mig", "namespace", "pod", "account", "partition"), ""),
    "node": "n1",
    "gpu": "0",
    "gpu_uuid": "GPU-0",
    "model": "H100",
    "cluster": "lab",
    "scheduler": "slurm",
    "workload": "slurm/1",
    "job_id": "1",
    "user": "ada",
}

DEVICE = {"gpu_info", "gpu_utilization_ratio", "gpu_busy_seconds_total", "gpu_observed_seconds_total", "gpu_visible"}
"""What is only shown of a device that was read."""


class Page:
    """A service and what it publishes."""

    def __init__(self, tmp_path, *, interval=5.0, time_scale=1.0, replay=False, apart=False):
        self.clock = FakeClock()
        self.elapsed = None
        self.ownership = OWNERSHIP
        self.service = Service(
            self,
            interval=interval,
            hold=0.0,
            time_scale=time_scale,
            sysfs=tmp_path,
            apart=apart,
            clock=self.clock,
            elapsed=lambda: self.clock.now if self.elapsed is None else self.elapsed,
        )
        self.collector = ExporterCollector(self.service, node="n1", cluster="lab", time_scale=time_scale, replay=replay)
        self.registry = registry_of(self.collector.text)

    def resolve(self, gpus, now):
        if isinstance(self.ownership, Exception):
            raise self.ownership
        return self.ownership

    def snapshot(self, *, processes=None, t=None, **fields):
        t = self.clock.now if t is None else t
        at = t if self.elapsed is None else self.elapsed
        gpu = GpuReading(
            "GPU-0",
            0,
            "H100",
            spans=(Span(at - 1, at, 0.5),),
            utilization=0.5,
            memory_used=1e9,
            processes=processes,
        )
        self.service.on_snapshot(Snapshot(t, (gpu,), visible=1, elapsed=self.elapsed, **fields))
        return self

    def names(self):
        return {sample.name for family in self.registry.collect() for sample in family.samples}

    def value(self, name, labels=None):
        return self.registry.get_sample_value(name, labels or {})

    def lose(self, seconds, *, every=25):
        """NVML is gone for so long; the supervisor says so each time it tries another child."""
        for _ in range(seconds // every):
            self.clock.advance(every)
            self.service.on_loss("hang", "silent for 25 s")
