"""Nodes whose page is compared under both sets of names: GPUs of which everything is known, and less of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from dutycycle_exporter.collector import ExporterCollector
from dutycycle_exporter.compat import dcgm
from dutycycle_exporter.exposition import Page
from dutycycle_exporter.model import Activity, Allocation, GpuReading, Ownership, Snapshot, Workload, Xid
from dutycycle_exporter.service import Service, State
from tests.fakes.clock import FakeClock

GPU = GpuReading(
    uuid="GPU-00000000-0000-0000-0000-000000000000",
    index=0,
    model="NVIDIA H200",
    minor=3,
    pci_bus_id="00000000:1b:00.0",
    mig_mode="disabled",
    utilization=0.57,
    memory_activity=0.29,
    encoder_utilization=0.17,
    decoder_utilization=0.13,
    memory_used=30_000 * 2.0**20,
    memory_total=143_771 * 2.0**20,
    memory_reserved=611 * 2.0**20,
    power=431.5,
    power_limit=700.0,
    energy=123_456.789,
    temperatures=(("gpu", 41.0), ("memory", 47.0)),
    fan=0.58,
    clocks=(("graphics", 1980e6), ("sm", 1975e6), ("memory", 3201e6), ("video", 1545e6)),
    performance_state=0,
    processes=(),
    throttle=(
        *(("power_cap", 12.000000345), ("thermal", 0.0), ("sync_boost", 1.5), ("board_limit", 2.5)),
        *(("reliability", 3.5), ("sw_thermal", 4.5), ("hw_thermal", 5.5), ("power_brake", 6.5)),
    ),
    ecc_errors=(
        *(("volatile_corrected", 4.0), ("volatile_uncorrected", 1.0)),
        *(("aggregate_corrected", 40.0), ("aggregate_uncorrected", 2.0)),
        *(("sram_volatile_corrected", 3.0), ("sram_volatile_uncorrected", 0.0)),
        *(("sram_aggregate_corrected", 30.0), ("sram_aggregate_uncorrected", 1.0)),
    ),
    remapped_rows=(("correctable", 3.0), ("uncorrectable", 5.0)),
    sram_threshold_exceeded=True,
    remap_pending=True,
    remap_failed=False,
    retired_pages=(("single_bit", 7.0), ("double_bit", 8.0), ("pending", 1.0)),
    recovery_action=0,
    pcie_replays=9.0,
    pcie_bytes=(("rx", 111e9), ("tx", 222e9)),
    nvlink_bytes=(("rx", 333e9), ("tx", 444e9)),
    cycles=(("sm_elapsed", 1e12), ("sm_active", 4e11), ("tensor_active", 1e11)),
    activity=Activity(
        start=0.0,
        end=5.0,
        units=(
            *(("graphics", 0.91), ("sm", 0.62), ("sm_occupancy", 0.33), ("tensor", 0.24), ("tensor_hmma", 0.21)),
            *(("tensor_imma", 0.02), ("tensor_dfma", 0.01), ("dram", 0.45), ("fp64", 0.06), ("fp32", 0.07)),
            ("fp16", 0.08),
        ),
        pcie=(("rx", 1.5e9), ("tx", 2.5e9)),
        nvlink=(("rx", 204.8e9), ("tx", 102.4e9)),
    ),
)
"""A GPU of which everything is known, each value another."""

BARE = GpuReading(uuid="GPU-bare", index=1, model="")
"""A GPU of which nothing is known."""

POD = Workload("k8s/vision/train-0/uid", "k8s", namespace="vision", pod="train-0", user="ada")
OTHER_POD = Workload("k8s/speech/infer-1/uid", "k8s", namespace="speech", pod="infer-1", user="bob")
JOB = Workload("slurm/4711", "slurm", job_id="4711", user="ada")
SHELL = Workload("local/17-1", "local", user="ada")


def instance(number: int | None, *, place: int = 0, profile: str = "3g.71gb", **values: Any) -> GpuReading:
    """A compute instance of GPU instance `number` of `GPU`; its values are its own."""
    measured = {"memory_used": 1000 * 2.0**20, "memory_total": 71_000 * 2.0**20, "memory_reserved": 37 * 2.0**20}
    return GpuReading(
        uuid=GPU.uuid,
        index=GPU.index,
        model=GPU.model,
        minor=GPU.minor,
        pci_bus_id=GPU.pci_bus_id,
        mig_mode="enabled",
        mig=f"MIG-{number}-{place}",
        mig_profile=profile,
        slices=3 / 7,
        gpu_instance=number,
        compute_instance=place,
        **(measured | values),
    )


def state_of(
    tmp_path: Path,
    *gpus: GpuReading,
    held: Iterable[tuple[GpuReading, Workload] | tuple[GpuReading, Workload, tuple[str, ...]]] = (),
    xids: Iterable[tuple[str, int, float]] = (),
    driver: str = "575.57.08",
) -> State:
    """What the exporter knows after a snapshot of these GPUs. `held` are (GPU, workload, its containers); `xids` are
    (GPU's UUID, code, time after the first).
    """
    clock = FakeClock()
    service = Service(_Nobody(), interval=5.0, hold=0.0, sysfs=tmp_path, clock=clock)
    allocations = tuple(
        Allocation(gpu.key, workload, containers=(*containers, ())[0]) for gpu, workload, *containers in held
    )
    events = tuple(Xid(uuid, code, clock.now + after) for uuid, code, after in xids)
    service.on_snapshot(
        Snapshot(clock.now, gpus, len(gpus), driver, xids=events, ownership=Ownership(allocations=allocations))
    )
    return service.state()


class _Nobody:
    def resolve(self, gpus: object, now: float) -> Ownership:
        raise AssertionError("the snapshot says whose the GPUs are")


class Shown:
    """The page of a state, under our names and under dcgm-exporter's, as prometheus_client reads it."""

    def __init__(self, state: State, *, stale: bool = False) -> None:
        assert state.view is not None
        page = Page(dcgm.HEADS)
        dcgm.add(page, state.view, node="n1", stale=stale)
        self.text = page.text()
        self.families: dict[str, Metric] = {family.name: family for family in _families(self.text)}
        service: Any = None
        ours = ExporterCollector(service, node="n1", cluster="lab", time_scale=1, replay=False)
        shown = replace(state, stale=stale)
        self._own = [sample for family in _families(ours.page(shown).text()) for sample in family.samples]

    def samples(self, name: str) -> list[Sample]:
        """Of a family under dcgm-exporter's name."""
        family = self.families.get(name)
        return [] if family is None else family.samples

    def value(self, name: str, **labels: str) -> float | None:
        """Of the one series with these labels."""
        found = [sample.value for sample in self.samples(name) if labels.items() <= sample.labels.items()]
        assert len(found) <= 1, f"{name} with {labels} is {len(found)} series"
        return found[0] if found else None

    def own(self, name: str, **labels: str) -> float:
        """Of the one series with these labels under our name."""
        (found,) = [s.value for s in self._own if s.name == name and labels.items() <= s.labels.items()]
        return found


def _families(text: str) -> Iterable[Metric]:
    return text_string_to_metric_families(text)
