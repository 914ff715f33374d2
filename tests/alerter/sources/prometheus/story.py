"""A past with everything in it: shares, tenants, restarts, silence, gaps, faults; what the tests look at."""

from __future__ import annotations

from tests.alerter.exporters import GIB, FakeExporter
from tests.alerter.sources.prometheus.past import START, Past

HOURS = 2.5
GAPS = {"lt2": 0.1, "2to30": 0.05}
LEVELS: dict[str, float | None] = {
    "slurm/1": 0.5,
    "slurm/2": 0.0004,
    "slurm/3": 0.8,
    "slurm/4": 0.0,
    "slurm/5": 1.0,
    "slurm/6": 0.0,
    "slurm/7": 0.6,
    "slurm/8": None,
    "slurm/9": 0.3,
    "slurm/10": 0.0,
    "slurm/11": 0.0,
    "slurm/12": 0.9,
    "slurm/13": 0.4,
}


def work(exporter: FakeExporter, seconds: float) -> None:
    exporter.run(seconds, LEVELS, gaps=GAPS)
    for host in exporter.host.values():
        host["io"] += 0.25 * seconds
    for device in exporter.devices:
        for reason in device.throttled:
            device.throttled[reason] += 0.1 * seconds
        for kind in device.links:
            device.links[kind] += 1e9 * seconds


def make() -> tuple[Past, float]:
    """The past, and the instant at which it is looked at."""
    past = Past(watched_from=START + (HOURS - 0.6) * 3600)
    one, two, three = FakeExporter("gpu01"), FakeExporter("gpu02", 4), FakeExporter("gpu03", 4)
    quiet, lost, double = FakeExporter("gpu04", 1), FakeExporter("gpu05", 1), FakeExporter("gpu06", 1)
    past.relabelled["gpu06"] = ['replica="a",', 'replica="b",']
    nodes = (one, two, three, quiet, lost, double)
    for exporter in nodes:
        exporter.expected = exporter.gpus
        for device in exporter.devices:
            device.recovery_action, device.remap_failed, device.processes = 0, 0, 1
            device.throttled = {"power_cap": 0.0, "thermal": 0.0, "sw_thermal": 0.0, "hw_thermal": 0.0}
            device.links = {"nvlink": 0.0, "pcie": 0.0}
            device.active = {"sm": 0.4, "tensor": 0.2, "dram": 0.3}
    one.devices[0].throttled = {"power_cap": 0.0, "thermal": 0.0}
    one.devices[1].links = {"pcie": 0.0}
    one.devices[2].active = {}
    one.devices[6].throttled = {}
    one.allocate("slurm/1", 0, 1, start=START, first_process=START + 5, user='o"brien\\', account="x\ny")
    one.allocate("slurm/2", 2, start=START)
    one.allocate("slurm/3", 3, start=START)[0].share = 0.5
    one.allocate("slurm/4", 3, start=START)[0].share = 0.5
    one.allocate("slurm/5", 4, start=START)
    one.allocate("slurm/8", 6, start=START)
    late = one.host.pop("slurm/8")
    two.allocate("slurm/7", 0, start=START)
    two.allocate("slurm/12", 1, start=START)
    three.allocate("slurm/9", 0, start=START)
    three.allocate("slurm/12", 1, start=START)
    quiet.allocate("slurm/10", 0, start=START)
    lost.allocate("slurm/11", 0, start=START)
    double.allocate("slurm/13", 0, start=START)
    one.devices[7].free()
    one.devices[7].memory_used = 10 * GIB  # leaked
    two.devices[3].free()
    one.devices[5].recovery_action = 2
    two.devices[2].remap_failed = 1
    past.scrape(*nodes)
    past.run(3600, work, *nodes)
    one.end("slurm/5")
    past.run(120, work, *nodes)
    one.forget("slurm/5")
    one.allocate("slurm/6", 4, start=past.now)
    for item in one.allocations.values():
        item.memory_used, item.processes = 20 * GIB, 2
    past.run((HOURS - 1) * 3600 - 120 - 1800, work, *nodes)
    one.devices[5].xids[79] = past.now
    two.restart()
    past.run(1140, work, *nodes, silent={"gpu05": ...})
    three.expected = 5
    one.host["slurm/8"] = late
    past.run(240, work, *nodes, silent={"gpu05": ..., "gpu03": ...})
    past.run(120, work, *nodes, silent={"gpu05": ...})
    past.run(240, work, *nodes, silent={"gpu05": ..., "gpu04": ...})
    return past, past.now
