"""A lost GPU is named in the log, and looked for less and less often."""

from __future__ import annotations

from dutycycle_exporter.lost_gpus import LookingForLost, LostGpus
from dutycycle_exporter.model import GpuReading, Snapshot

GPUS = tuple(GpuReading(uuid=f"GPU-{i}", index=i, model="", pci_bus_id=f"0000:{i}b:00.0") for i in range(3))


def snapshot(*indexes: int, visible: int | None = None) -> Snapshot:
    shown = tuple(GPUS[i] for i in indexes)
    return Snapshot(0.0, shown, len(shown) if visible is None else visible)


def test_the_log_names_each_gpu_that_is_lost_and_its_return(caplog):
    caplog.set_level("INFO")
    lost = LostGpus()
    for shown in (snapshot(0, 1), snapshot(0, 1, 2), snapshot(0), snapshot(0, 2), snapshot(0, visible=2)):
        lost.watch(shown)
    assert caplog.messages == ["GPU 1 (GPU-1, PCI 0000:1b:00.0) is lost: NVML does not show it any more"]
    caplog.clear()
    for shown in (snapshot(0, 2), snapshot(0, 1, 2), snapshot(0, 1, 2)):
        lost.watch(shown)
    assert caplog.messages == ["GPU 1 (GPU-1, PCI 0000:1b:00.0) is back"]


def test_a_gpu_lost_for_good_is_looked_for_every_hour_at_last():
    looking = LookingForLost()
    asked = []
    for shown in [snapshot(0, 1)] * 7 + [snapshot(0)] * 2:
        looking.shown(shown)
        looking.gave_way()
        asked.append(looking.arguments())
    ages = [600, 1200, 2400, 3600, 3600, 3600]
    assert asked == [[], *([f"--missing-age={age}"] for age in ages), [], ["--missing-age=600"]]
