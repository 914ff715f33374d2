"""GPUs and nodes as their exporters show them: what is unknown stays so, and what free GPUs teach."""

import pytest

from dutycycle_alerter.model import DeviceWindow, GpuEvidence
from dutycycle_alerter.sources.exposition import held_down, parse
from dutycycle_alerter.sources.fleet import Fleet
from tests.alerter.exporters import GIB, MODEL, FakeExporter, sample
from tests.alerter.sources.fleets import INTERVAL, RESOLUTION, T0, Rig

QUARTER = 900.0
MINUTE = 60.0


def rig(gpus: int = 2) -> Rig:
    """One node of free GPUs, and the time."""
    exporter = FakeExporter("gpu01", gpus)
    for one in exporter.devices:
        one.free()
    return Rig([exporter])


def gpu(made: Rig, index: int = 0) -> GpuEvidence:
    (found,) = (item for item in made.fleet.devices.gpus(made.now) if item.gpu.uuid == f"GPU-gpu01-{index}")
    return found


def scrape(made: Rig, minutes: float, *, passes: bool = True) -> None:
    """Scrape at every interval, pass every minute."""
    for _ in range(round(minutes * 60 / INTERVAL)):
        made.scrape()
        if passes and (made.now - T0) % MINUTE == 0:
            made.run_pass()


# Health


def test_a_gpu_is_what_its_exporter_says_of_it() -> None:
    made = rig()
    made.exporters[0].allocate("slurm/7", 0)
    made.exporters[0].allocate("slurm/8", 0, cluster="north")
    one = made.exporters[0].devices[0]
    one.recovery_action, one.remap_failed, one.xids = 1, 0, {48: T0 - 5, 13: T0 - 9}
    made.scrape()
    found = gpu(made)
    assert (found.gpu.node, found.gpu.index, found.gpu.model, found.visible) == ("gpu01", "0", MODEL, True)
    assert (found.recovery_action, found.remap_failed) == (1, False)
    assert found.xids == {48: T0 - 5, 13: T0 - 9}
    assert found.jobs == ("north/slurm/8", "slurm/7")
    assert (found.memory_used, found.memory_total) == (0.5 * GIB, 141 * GIB)
    other = gpu(made, 1)
    assert (other.recovery_action, other.remap_failed, other.xids, other.jobs) == (None, None, {}, ())


def test_an_ended_workload_no_longer_holds_its_gpu() -> None:
    made = rig()
    made.exporters[0].allocate("slurm/7", 0)
    made.scrape()
    made.exporters[0].end("slurm/7")
    made.scrape()
    assert gpu(made).jobs == ()


def test_who_holds_an_instance_holds_a_part_of_its_gpu() -> None:
    made = rig(0)
    where = {"node": "gpu01", "gpu": "0", "gpu_uuid": "GPU-0"}
    lines = [sample("gpu_visible", {"node": "gpu01"}, 1)]
    lines += [
        sample("gpu_info", where | {"mig": mig, "model": MODEL, "mig_profile": "1g.18gb" if mig else ""}, 1)
        for mig in ("", "MIG-a", "MIG-b")
    ]
    lines.append(sample("gpu_allocation", where | {"mig": "MIG-a", "workload": "slurm/7"}, 1 / 7))
    lines.append("dutycycle_exporter_time_scale 1")
    made.fleet.ingest(parse("\n".join(lines) + "\n"), T0)
    jobs = {item.gpu.mig: item.jobs for item in made.fleet.devices.gpus(T0)}
    assert jobs == {"": ("slurm/7",), "MIG-a": ("slurm/7",), "MIG-b": ()}


def test_a_gpu_that_is_no_longer_shown_is_unknown_but_for_its_xids() -> None:
    made = rig()
    one = made.exporters[0].devices[0]
    one.recovery_action = 0
    scrape(made, 20)
    one.shown, one.xids = False, {79: made.now}
    made.scrape()
    found = gpu(made)
    assert (found.visible, found.recovery_action, found.memory_used) == (False, None, None)
    assert found.xids == {79: made.now - INTERVAL}
    assert found.window(QUARTER) == DeviceWindow(QUARTER)
    assert gpu(made, 1).visible


def test_an_xid_is_of_the_time_that_its_exporter_gives_last() -> None:
    """Its clock was ahead when it was reported, and was set right since."""
    made = rig()
    one = made.exporters[0].devices[0]
    for reported in (T0 + 3600, T0 - 5):
        one.xids = {79: reported}
        made.scrape()
        assert gpu(made).xids == {79: reported}
    one.xids = {}  # the exporter started again
    made.scrape()
    assert gpu(made).xids == {79: T0 - 5}


def test_a_gpu_that_fell_off_the_bus_before_it_was_ever_shown_is_known_by_its_xid() -> None:
    made = rig()
    one = made.exporters[0].devices[0]
    one.shown, one.xids = False, {79: T0}
    made.scrape()
    found = gpu(made)
    assert (found.visible, found.gpu.node, found.xids) == (False, "gpu01", {79: T0})
    one.shown = True
    made.scrape()
    assert gpu(made).window(QUARTER) == DeviceWindow(QUARTER)  # it has not been watched yet


def test_a_silent_node_says_nothing_of_its_gpus() -> None:
    made = rig()
    scrape(made, 20)
    made.now += 3 * INTERVAL
    assert gpu(made).visible
    made.now += 1
    assert not gpu(made).visible


def test_a_dead_child_says_nothing_of_its_gpus() -> None:
    made = rig()
    scrape(made, 20)
    made.exporters[0].visible = False
    made.scrape()
    assert gpu(made).visible  # its allocations are judged by the same rule: three intervals
    made.scrape(3)
    assert not gpu(made).visible


def test_a_gpu_is_forgotten_a_day_after_it_was_last_shown() -> None:
    made = rig()
    scrape(made, 1)
    made.now += 86400 - 1
    made.run_pass()
    assert len(made.fleet.devices.gpus(made.now)) == 2
    made.now += 2
    made.run_pass()
    assert made.fleet.devices.gpus(made.now) == []
    assert made.fleet.devices.nodes(made.now) == []


# Windows


def test_a_window_has_the_least_memory_the_most_processes_and_any_owner() -> None:
    made = rig()
    one = made.exporters[0].devices[0]
    scrape(made, 16)
    assert gpu(made).window(QUARTER) == DeviceWindow(QUARTER, 0.5 * GIB, 0, False, utilization=0.0)
    one.memory_used = 9 * GIB
    scrape(made, 14)
    assert gpu(made).window(QUARTER).memory_used == 0.5 * GIB
    scrape(made, 2)
    assert gpu(made).window(QUARTER).memory_used == 9 * GIB
    one.processes = 3
    made.scrape()
    one.processes = 0
    made.exporters[0].allocate("slurm/7", 0)
    made.scrape()
    made.exporters[0].end("slurm/7")
    scrape(made, 13)
    found = gpu(made).window(QUARTER)
    assert (found.processes, found.allocated) == (3, True)
    scrape(made, 4)
    found = gpu(made).window(QUARTER)
    assert (found.processes, found.allocated) == (0, False)
    one.utilization = 0.9
    scrape(made, 8)
    assert gpu(made).window(QUARTER).utilization == pytest.approx(0.9 * 8 / 16, abs=0.06)


@pytest.mark.parametrize("name", ["memory_used", "processes", "utilization"])
def test_a_reading_that_is_missing_once_makes_the_window_unknown(name: str) -> None:
    made = rig()
    scrape(made, 16)
    before = getattr(made.exporters[0].devices[0], name)
    setattr(made.exporters[0].devices[0], name, None)
    made.scrape()
    setattr(made.exporters[0].devices[0], name, before)
    scrape(made, 10)
    assert getattr(gpu(made).window(QUARTER), name) is None
    assert getattr(gpu(made, 1).window(QUARTER), name) is not None
    scrape(made, 7)
    assert getattr(gpu(made).window(QUARTER), name) == before


def test_a_window_is_unknown_before_all_of_it_was_watched() -> None:
    made = rig()
    scrape(made, 15)
    assert gpu(made).window(QUARTER) == DeviceWindow(QUARTER)
    made.scrape()
    assert gpu(made).window(QUARTER).memory_used == 0.5 * GIB
    assert gpu(made).watched_from == T0 + INTERVAL


def test_after_a_silence_it_is_watched_anew() -> None:
    """Who held the GPU meanwhile is not known."""
    made = rig()
    scrape(made, 20)
    made.now += 4 * INTERVAL
    made.scrape()
    assert gpu(made).window(QUARTER) == DeviceWindow(QUARTER)
    assert gpu(made).watched_from == made.now


def test_a_clock_that_was_set_back_is_watched_anew() -> None:
    made = rig()
    scrape(made, 20)
    made.now -= 3600
    assert made.fleet.heed_clock(made.now) is not None
    made.scrape()
    found = gpu(made)
    assert (found.visible, found.watched_from) == (True, made.now)
    assert found.window(QUARTER) == DeviceWindow(QUARTER)


def test_throttling_is_the_share_of_the_window_by_what_the_driver_tells() -> None:
    made = rig()
    one = made.exporters[0].devices[0]
    for _ in range(80):
        one.throttled = {
            "thermal": one.throttled.get("thermal", 500.0) + 0.5 * INTERVAL,
            "hw_thermal": one.throttled.get("hw_thermal", 100.0) + 0.04 * INTERVAL,
            "sw_thermal": one.throttled.get("sw_thermal", 900.0) + 0.01 * INTERVAL,
            "power_brake": 7.0,
            "power_cap": one.throttled.get("power_cap", 0.0) + 0.6 * INTERVAL,
        }
        made.scrape()
    found = gpu(made).window(QUARTER)
    assert found.throttle_thermal == pytest.approx(0.05)
    assert found.throttle_power == pytest.approx(0.6)
    assert gpu(made, 1).window(QUARTER).throttle_thermal is None


def test_a_driver_that_was_loaded_anew_counts_on() -> None:
    made = rig()
    one = made.exporters[0].devices[0]
    one.throttled = {"thermal": 1000.0}
    scrape(made, 20)
    one.throttled = {"thermal": 9.0}
    made.scrape()
    assert gpu(made).window(QUARTER).throttle_thermal == pytest.approx(9 / QUARTER)


@pytest.mark.parametrize(
    ("reasons", "held"),
    [
        ({}, (None, None)),
        ({"thermal": 3.0, "power_cap": 0.0, "reliability": 9.0}, (3.0, 0.0)),
        ({"thermal": 3.0, "sw_thermal": 0.0}, (0.0, None)),
        ({"thermal": 3.0, "sw_thermal": 1.0, "hw_thermal": 2.0, "power_brake": 4.0}, (7.0, None)),
        ({"thermal": 3.0, "sw_thermal": None, "hw_thermal": None}, (3.0, None)),
    ],
)
def test_heat_and_brake_are_one_and_the_power_cap_another(
    reasons: dict[str, float | None], held: tuple[float | None, float | None]
) -> None:
    assert held_down(reasons) == held


# Nodes


def node(made: Rig) -> tuple[float | None, float | None]:
    (found,) = made.fleet.devices.nodes(made.now)
    assert found.node == "gpu01"
    return found.expected, found.visible


def test_a_gpu_is_lost_once_two_answers_in_a_row_lack_it() -> None:
    made = rig()
    exporter = made.exporters[0]
    exporter.expected = 2
    made.scrape()
    assert node(made) == (None, None)  # one answer tells nothing
    made.scrape()
    assert node(made) == (2, 2)
    exporter.devices[0].shown = False
    made.scrape()
    assert node(made) == (2, 2)
    made.scrape()
    assert node(made) == (2, 1)


def test_a_driver_that_is_being_loaded_is_no_loss() -> None:
    made = rig()
    exporter = made.exporters[0]
    exporter.expected = 2
    made.scrape(2)
    exporter.visible = False
    made.scrape()
    assert node(made) == (None, None)
    exporter.visible, exporter.devices[0].shown = True, False
    made.scrape()
    assert node(made) == (None, None)
    exporter.devices[0].shown = True
    made.scrape()
    assert node(made) == (2, 2)


def test_a_node_that_does_not_tell_what_its_bus_shows_is_unknown() -> None:
    made = rig()
    made.scrape(3)
    assert node(made) == (None, None)


def test_a_silent_node_is_unknown() -> None:
    made = rig()
    made.exporters[0].expected = 2
    made.scrape(3)
    made.now += 3 * INTERVAL + 1
    assert node(made) == (None, None)


# What free GPUs teach


def test_idle_power_and_baseline_are_learned_from_free_gpus_alone() -> None:
    made = rig(4)
    used, odd, unknown, free = made.exporters[0].devices
    made.exporters[0].allocate("slurm/7", 0)
    used.memory_used, used.power = 0.1 * GIB, 40
    odd.processes, odd.memory_used, odd.power = 1, 0.2 * GIB, 41
    unknown.processes, unknown.memory_used, unknown.power = None, 0.3 * GIB, 42
    scrape(made, 5)
    assert made.fleet.devices.learned() == {"idle_power": {MODEL: 65}, "baseline": {MODEL: 0.5 * GIB}}
    assert free.power == 65
    assert gpu(made, 1).memory_baseline == 0.5 * GIB
    window = made.run_pass()["slurm/7"].window(QUARTER)
    assert (window.gpus[0].idle_power, window.gpus[0].power_limit) == (65, 700)


def test_a_gpu_that_was_just_let_go_teaches_nothing() -> None:
    made = rig(1)
    made.scrape()
    made.run_pass()
    assert made.fleet.devices.learned() == {"idle_power": {}, "baseline": {}}
    assert gpu(made).memory_baseline is None
    made.scrape(int(RESOLUTION / INTERVAL))
    made.run_pass()
    assert made.fleet.devices.learned()["idle_power"] == {MODEL: 65}


def test_one_odd_reading_is_not_what_a_model_draws() -> None:
    made = rig(3)
    made.exporters[0].devices[0].power = 3
    made.exporters[0].devices[1].power = 400
    scrape(made, 5)
    assert made.fleet.devices.idle_power == {MODEL: 65}


def test_idle_power_falls_at_once_and_rises_slowly() -> None:
    made = rig(1)
    scrape(made, 5)
    one = made.exporters[0].devices[0]
    one.power = 50
    scrape(made, 1)
    assert made.fleet.devices.idle_power == {MODEL: 50}
    one.power = 65
    scrape(made, 30)
    assert made.fleet.devices.idle_power[MODEL] == pytest.approx(50 * 1.001**30)


def test_a_leak_does_not_become_the_baseline() -> None:
    made = rig(1)
    scrape(made, 5)
    made.exporters[0].devices[0].memory_used = 20 * GIB
    scrape(made, 120)
    assert made.fleet.devices.baseline == {MODEL: 0.5 * GIB}


def test_what_was_learned_is_recalled() -> None:
    made = rig(1)
    scrape(made, 5)
    fleet = Fleet(INTERVAL, RESOLUTION)
    fleet.devices.recall(made.fleet.devices.learned())
    assert fleet.devices.learned() == made.fleet.devices.learned()
    fleet.devices.recall(None)
    assert fleet.devices.learned() == made.fleet.devices.learned()


# What a workload's series say of units, links and throttling


def test_units_throttling_and_links_of_a_workload_are_known_over_a_window() -> None:
    made = rig(1)
    exporter = made.exporters[0]
    exporter.allocate("slurm/7", 0)
    one = exporter.devices[0]
    one.active = {"sm": 0.5, "tensor": 0.25, "dram": 0.4}
    for n in range(80):
        one.throttled = {"sw_thermal": 0.1 * INTERVAL * n, "power_cap": 0.5 * INTERVAL * n}
        one.links = {"nvlink": 5e12 + 1e9 * INTERVAL * n, "pcie": 3.0}
        made.scrape(1, 0.8)
    (used,) = made.run_pass()["slurm/7"].window(QUARTER).gpus
    assert (used.sm, used.tensor, used.dram) == pytest.approx((0.4 * QUARTER, 0.2 * QUARTER, 0.32 * QUARTER))
    assert used.throttle_thermal == pytest.approx(0.1 * QUARTER)
    assert used.link_bytes == pytest.approx(1e9 * QUARTER)


def test_links_are_pcie_where_there_is_no_nvlink_and_never_a_mix() -> None:
    made = rig(1)
    exporter = made.exporters[0]
    exporter.allocate("slurm/7", 0)
    one = exporter.devices[0]
    one.links = {"nvlink": 1e12, "pcie": 1e6}
    made.scrape(40)
    one.links = {"pcie": 2e6}  # a read of NVLink failed
    made.scrape()
    one.links = {"nvlink": 1e12, "pcie": 3e6}
    made.scrape(40)
    assert made.run_pass()["slurm/7"].window(QUARTER).gpus[0].link_bytes == 0
    exporter.allocate("slurm/9", 0)
    one.links = {"pcie": 4e6}
    made.scrape(40)
    one.links = {"pcie": 5e6}
    made.scrape(30)
    assert made.run_pass()["slurm/9"].window(QUARTER).gpus[0].link_bytes == pytest.approx(1e6)
