"""What a scrape shows when snapshots come, fail to come, and come again."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dutycycle_exporter.attribution import Attribution
from dutycycle_exporter.collector import ExporterCollector, Operation
from dutycycle_exporter.contract import FAMILIES, RESTART_REASONS
from dutycycle_exporter.model import (
    Allocation,
    GpuReading,
    HostReading,
    Ownership,
    Process,
    Snapshot,
    Span,
    Workload,
    Xid,
)
from dutycycle_exporter.service import Service
from tests.exporter.daemon import eventually
from tests.exporter.full_log import full_log
from tests.exporter.published import registry_of
from tests.fakes.clock import FakeClock
from tests.fakes.pci import PciTree

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


@pytest.fixture
def page(tmp_path):
    return Page(tmp_path)


DEVICE = {"gpu_info", "gpu_utilization_ratio", "gpu_busy_seconds_total", "gpu_observed_seconds_total", "gpu_visible"}


def test_until_it_is_known_who_held_the_gpus_before_none_is_said_to_be_visible(page):
    """Or a job of which nobody has told yet would seem to have ended."""
    page.ownership = Ownership(settling=True)
    page.snapshot()
    assert DEVICE - page.names() == {"gpu_visible"}
    page.clock.advance(5)
    page.ownership = OWNERSHIP
    assert page.snapshot().value("gpu_visible", {"node": "n1"}) == 1


def test_before_the_first_snapshot_there_is_no_gpu_and_a_reason(page):
    assert page.service.unready() == "no snapshot yet"
    assert not any(name.startswith(("gpu_", "workload_")) for name in page.names())
    page.service.on_loss("driver_not_loaded", "the driver is not loaded")
    assert page.service.unready() == "the driver is not loaded"
    assert page.snapshot().service.unready() == ""


@pytest.mark.parametrize(("interval", "stale_after"), [(5.0, 15.0), (0.1, 2.0)])
def test_readings_are_shown_for_a_few_intervals_and_then_dropped_and_not_frozen(tmp_path, interval, stale_after):
    page = Page(tmp_path, interval=interval).snapshot()
    page.clock.advance(stale_after - 0.05)
    assert page.names() >= DEVICE
    page.clock.advance(0.1)
    assert not page.names() & DEVICE
    assert "workload_gpu_memory_used_bytes" not in page.names()
    assert page.value("dutycycle_exporter_collector_age_seconds", {"collector": "nvml"}) == pytest.approx(
        stale_after + 0.05
    )


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_clock_that_was_set_makes_readings_neither_old_nor_new(page, step):
    page.elapsed = 1000.0
    page.snapshot()
    page.clock.advance(step)
    assert page.names() >= DEVICE
    page.elapsed += 16
    assert not page.names() & DEVICE


@pytest.mark.parametrize("step", [-3600, 3600])
def test_while_nvml_is_gone_a_clock_that_was_set_makes_no_allocation_longer_or_shorter(page, step):
    page.elapsed = 1000.0
    page.snapshot()
    page.clock.advance(step)
    page.elapsed += 25
    page.service.on_loss("hang", "silent for 25 s")
    page.clock.advance(25)
    page.elapsed += 25
    page.service.on_loss("hang", "silent for 25 s")
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 50


def lose(page, seconds, *, every=25):
    """NVML is gone for so long; the supervisor says so each time it tries another child."""
    for _ in range(seconds // every):
        page.clock.advance(every)
        page.service.on_loss("hang", "silent for 25 s")


def test_while_nvml_is_gone_an_allocation_goes_on_and_is_not_measured(page):
    page.snapshot()
    lose(page, 100)
    assert page.value("gpu_allocation", OWNER) == 1
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 100
    assert page.value("workload_gpu_observed_seconds_total", OWNER) == 0
    page.snapshot()
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 100


def test_while_nvml_is_gone_a_job_can_end(page):
    page.snapshot()
    page.ownership = Ownership()
    lose(page, 50)
    assert "gpu_allocation" not in page.names()
    assert "workload_gpu_allocated_seconds_total" not in page.names()


def test_a_snapshot_that_was_held_up_in_a_call_does_not_count_the_time_of_silence_twice(page):
    page.snapshot()
    begun = page.clock.advance(5)
    page.clock.advance(15)
    page.service.on_silence()
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 20
    page.clock.advance(2)
    page.snapshot(t=begun)
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 22
    page.clock.advance(5)
    page.snapshot()
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 27


@pytest.mark.parametrize(("stood", "known"), [(60, True), (900, False)], ids=["a minute", "beyond what a start may be"])
def test_a_snapshot_that_waited_while_the_exporter_was_stopped_is_not_of_a_job_that_began_since(page, stood, known):
    """By far too late a start is one that nobody knows."""
    page.snapshot()
    stopped = page.clock.now
    page.clock.advance(stood)
    second = replace(WORKLOAD, id="slurm/2", job_id="2")
    began = stopped + stood - 10
    page.ownership = Ownership((Allocation("GPU-0", second, start=began if known else None),))
    for waited in range(5, 45, 5):
        page.snapshot(t=stopped + waited)
    page.ownership = Ownership((Allocation("GPU-0", second, start=began),))
    page.snapshot()
    labels = {**OWNER, "workload": "slurm/2", "job_id": "2"}
    assert page.value("workload_gpu_allocated_seconds_total", labels) == pytest.approx(10)


def test_a_job_that_began_again_while_snapshots_waited_holds_the_gpu_from_then_on(page):
    """A requeued one keeps its number."""
    page.ownership = Ownership((Allocation("GPU-0", WORKLOAD, start=page.clock.now - 5),))
    page.snapshot()
    stopped = page.clock.now
    page.clock.advance(60)
    page.ownership = Ownership((Allocation("GPU-0", WORKLOAD, start=stopped + 50),))
    for waited in range(5, 45, 5):
        page.snapshot(t=stopped + waited)
        assert page.service.state().view.ownership.allocations == ()
    page.snapshot()
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == pytest.approx(10)


@pytest.mark.parametrize(("start", "waited"), [(None, 60), (100, 0), (100, 60)], ids=["unknown", "to come", "so late"])
def test_who_does_not_say_truly_when_it_began_held_the_gpu_when_a_snapshot_that_waited_was_read(page, start, waited):
    """Its start is not known, or is another clock's that is ahead."""
    page.ownership = Ownership()
    page.snapshot()
    read = page.clock.now + 5
    page.clock.advance(5 + waited)
    page.ownership = Ownership((Allocation("GPU-0", WORKLOAD, start and page.clock.now + start),))
    page.snapshot(t=read)
    assert page.service.state().view.ownership == page.ownership


@pytest.mark.parametrize("step", [-3600.0, -20.0, 20.0, 3600.0])
def test_a_clock_that_is_set_while_snapshots_wait_takes_a_gpu_from_nobody(page, step):
    """Neither from who held it already, nor from who had just begun, whose start is of the time before."""
    page.elapsed = 100.0
    start = page.clock.now + 1
    page.snapshot()
    page.ownership = Ownership((Allocation("GPU-0", WORKLOAD, start=start),))
    for _ in range(2):
        page.clock.advance(5)
        page.elapsed += 5
        page.snapshot()
    read, at = page.clock.now, page.elapsed
    page.clock.advance(20 + step)
    for waited in range(5, 25, 5):
        page.elapsed = at + waited
        gpu = GpuReading("GPU-0", 0, "H100")
        snapshot = Snapshot(read + waited, (gpu,), visible=1, elapsed=page.elapsed)
        page.elapsed = at + 20
        page.service.on_snapshot(snapshot)
        assert page.service.state().view.ownership == page.ownership
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == pytest.approx(30)


def test_who_began_after_a_clock_was_set_back_did_not_hold_the_gpu_when_a_snapshot_was_read_before_that(page):
    page.elapsed = 100.0
    page.snapshot()
    read = page.clock.now
    page.clock.advance(20 - 3600)
    second = replace(WORKLOAD, id="slurm/2", job_id="2")
    page.ownership = Ownership((Allocation("GPU-0", second, start=page.clock.now - 5),))
    page.elapsed = 120.0
    page.service.on_snapshot(Snapshot(read + 5, (GpuReading("GPU-0", 0, "H100"),), visible=1, elapsed=105.0))
    assert page.service.state().view.ownership.allocations == ()
    page.snapshot()
    assert page.value("workload_gpu_allocated_seconds_total", {**OWNER, "workload": "slurm/2", "job_id": "2"}) == 5


def test_one_lost_child_changes_nothing_that_is_shown(page):
    page.snapshot()
    before = page.names()
    page.clock.advance(1)
    page.service.on_loss("exit", "killed by signal 9")
    assert page.names() == before


def test_without_nvml_jobs_use_their_hosts_and_gpus_are_expected_and_it_is_not_ready(page, tmp_path):
    PciTree(tmp_path / "sys").add("0000:1b:00.0")
    page.service._sysfs = tmp_path / "sys"
    page.service.on_loss("driver_not_loaded", "no driver")
    assert page.value("gpu_expected", {"node": "n1"}) == 1
    assert "gpu_visible" not in page.names()
    assert "workload_cpu_seconds_total" in page.names()
    assert page.service.unready() == "no driver"


def test_what_a_recording_said_of_owners_stays_true_while_its_player_is_gone(page):
    page.snapshot(ownership=OWNERSHIP)
    page.ownership = Ownership()
    lose(page, 100)
    assert "gpu_allocation" in page.names()


def test_an_attribution_that_fails_is_shown_and_its_success_later(page):
    page.snapshot()
    page.ownership = ZeroDivisionError("a defect")
    page.clock.advance(5)
    page.snapshot()
    attribution = {"collector": "attribution"}
    assert page.value("dutycycle_exporter_collector_success", attribution) == 0
    assert page.value("dutycycle_exporter_collector_age_seconds", attribution) == 5
    page.ownership = OWNERSHIP
    page.snapshot()
    assert page.value("dutycycle_exporter_collector_success", attribution) == 1


def test_while_attribution_fails_gpus_are_read_and_stay_with_those_who_had_them(page, caplog):
    page.ownership = replace(OWNERSHIP, pids={7: WORKLOAD.id})
    page.snapshot(processes=(Process(7),))
    page.ownership = ZeroDivisionError("a defect")
    for _ in range(3):
        page.clock.advance(5)
        page.snapshot(processes=(Process(7),))
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 15
    assert page.value("workload_gpu_busy_seconds_total", OWNER) == pytest.approx(1.5)
    assert page.value("workload_gpu_processes", OWNER) == 1
    assert "workload_cpu_seconds_total" not in page.names(), "what is measured is not repeated"
    assert caplog.text.count("a defect") == 1
    failures = page.value("dutycycle_exporter_attribution_failures_total", {"source": "slurm", "reason": "symlink"})
    assert failures == 1
    page.clock.advance(5)
    page.snapshot(processes=(Process(7), Process(8)))
    assert page.value("workload_gpu_processes", OWNER) is None, "whose a new one is, nobody knows"


def test_while_attribution_and_nvml_both_fail_allocations_go_on(page):
    page.snapshot()
    page.ownership = ZeroDivisionError("a defect")
    lose(page, 50)
    assert page.value("workload_gpu_allocated_seconds_total", OWNER) == 50


def test_where_attribution_fails_from_the_start_no_gpu_is_shown_as_if_it_were_free(page):
    page.ownership = ZeroDivisionError("a defect")
    with pytest.raises(ZeroDivisionError):
        page.snapshot()
    assert not page.names() & DEVICE


def test_a_collector_that_never_ran_to_its_end_has_no_duration(page):
    page.service.on_loss("driver_not_loaded", "no driver")
    nvml = {"collector": "nvml"}
    assert page.value("dutycycle_exporter_collector_success", nvml) == 0
    assert page.value("dutycycle_exporter_collector_duration_seconds", nvml) is None
    page.snapshot(duration=0.25)
    page.service.on_loss("hang", "why")
    assert page.value("dutycycle_exporter_collector_duration_seconds", nvml) == 0.25


def test_losses_are_counted_by_reason(page):
    for reason in ("hang", "hang", "exit"):
        page.service.on_loss(reason, "why")
    assert page.value("dutycycle_exporter_child_restarts_total", {"reason": "hang"}) == 2
    assert page.value("dutycycle_exporter_child_restarts_total", {"reason": "exit"}) == 1
    assert page.value("dutycycle_exporter_collector_success", {"collector": "nvml"}) == 0
    page.snapshot()
    assert page.value("dutycycle_exporter_collector_success", {"collector": "nvml"}) == 1


def test_every_reason_that_is_known_is_shown_at_0_before_the_first_loss(page):
    """PromQL's increase() does not see a series begin."""
    shown = [page.value("dutycycle_exporter_child_restarts_total", {"reason": reason}) for reason in RESTART_REASONS]
    assert set(shown) == {0}
    page.service.on_loss("no_permission", "another that NVML gave")
    assert page.value("dutycycle_exporter_child_restarts_total", {"reason": "no_permission"}) == 1


def test_the_documentation_has_every_reason_for_another_child():
    text = (Path(__file__).parents[2] / "docs" / "exporter.md").read_text()
    assert [reason for reason in RESTART_REASONS if f"`{reason}`" not in text] == []


def test_what_could_not_be_read_is_counted(page):
    for _ in range(2):
        page.snapshot(failures={("nvmlDeviceGetFanSpeed", "unknown"): 1}, dropped={"out_of_range": 3})
        page.clock.advance(5)
    labels = {"call": "nvmlDeviceGetFanSpeed", "error": "unknown"}
    assert page.value("dutycycle_exporter_read_failures_total", labels) == 2
    assert page.value("dutycycle_exporter_samples_dropped_total", {"reason": "out_of_range"}) == 6
    assert page.value("dutycycle_exporter_attribution_failures_total", {"source": "slurm", "reason": "symlink"}) == 2


@pytest.mark.parametrize("reason", ["hang", "driver_not_loaded", "library_not_found", "exit"])
def test_health_does_not_fail_where_a_restart_would_not_help(page, reason):
    page.service.on_loss(reason, "why")
    page.clock.advance(3600)
    assert page.service.unhealthy() == ""


@pytest.mark.parametrize("reason", ["lib_rm_version_mismatch", "garbled"])
def test_what_another_child_does_not_help_fails_health_after_a_while_and_until_it_fits(page, reason):
    """A library that is not the driver's, and children of another version than the exporter itself."""
    page.service.on_loss(reason, "restart the container")
    assert page.service.unhealthy() == ""
    page.clock.advance(200)
    page.service.on_loss(reason, "restart the container")
    assert page.service.unhealthy() == "restart the container"
    page.snapshot()
    assert page.service.unhealthy() == ""


@pytest.mark.parametrize("reason", ["unknown", "no_permission"])
@pytest.mark.parametrize(
    ("read", "driven", "helps"), [(True, False, True), (False, True, True), (False, False, False)], ids=str
)
def test_a_container_that_may_have_lost_its_devices_fails_health_after_a_while(page, reason, read, driven, helps):
    """As after a daemon-reload of systemd. One that never had any is not restarted again and again."""
    page.service._driven = lambda: driven
    if read:
        page.snapshot()
    page.service.on_loss(reason, "NVML cannot be used: Unknown Error")
    page.clock.advance(290)
    page.service.on_loss(reason, "NVML cannot be used: Unknown Error")
    assert page.service.unhealthy() == ""
    page.clock.advance(20)
    assert bool(page.service.unhealthy()) == helps
    if helps:
        assert "Unknown Error; this container may have lost its devices: restart it" in page.service.unhealthy()
    page.snapshot()
    assert page.service.unhealthy() == ""


@pytest.mark.parametrize("news", ["a loss", "its end"])
def test_a_log_that_nobody_reads_keeps_no_scrape_waiting(page, news, caplog):
    caplog.set_level(logging.INFO, "dutycycle_exporter")
    page.snapshot()
    tell, success = page.snapshot, 1
    if news == "a loss":
        tell, success = lambda: page.service.on_loss("hang", "why"), 0
    else:
        page.service.on_loss("hang", "why")
    with full_log():
        told = threading.Thread(target=tell, daemon=True)
        told.start()
        # Under the lock the log would be waited for here.
        eventually(lambda: page.value("dutycycle_exporter_collector_success", {"collector": "nvml"}) == success)
        assert told.is_alive(), "the log is full"
    told.join()


XID = {"node": "n1", "gpu": "0", "gpu_uuid": "GPU-0", "mig": "", "xid": "79", "class": "critical"}


def test_an_xid_is_shown_as_soon_as_it_is_told(page):
    """The next snapshot may not come before NVML has been silent for long, or at all."""
    page.snapshot()
    page.clock.advance(2)
    page.service.on_xid(Xid("GPU-0", 79, page.clock.now - 1))
    assert page.value("gpu_xid_errors_total", XID) == 1
    assert page.value("gpu_xid_last_timestamp_seconds", XID) == page.clock.now - 1


def test_the_series_of_an_xid_is_the_same_while_readings_are_stale_and_when_the_gpu_is_lost(page):
    page.snapshot().service.on_xid(Xid("GPU-0", 79, page.clock.now))
    page.clock.advance(60)
    page.service.on_silence()
    assert page.value("gpu_xid_errors_total", XID) == 1
    page.clock.advance(5)
    page.service.on_snapshot(Snapshot(page.clock.now, (), visible=0))
    assert page.value("gpu_xid_errors_total", XID) == 1


def test_an_xid_that_a_snapshot_has_counts_as_one_that_came_by_itself(page):
    page.snapshot(xids=(Xid("GPU-0", 79, 5.0),))
    page.service.on_xid(Xid("GPU-0", 79, 6.0))
    assert page.value("gpu_xid_errors_total", XID) == 2


def test_xids_beyond_what_is_counted_are_dropped_and_that_is_counted(page):
    page.snapshot()
    for code in range(1100):
        page.service.on_xid(Xid("GPU-0", code, 1.0))
    assert page.value("gpu_xid_errors_total", XID) == 1
    assert page.value("dutycycle_exporter_samples_dropped_total", {"reason": "xid"}) == 1100 - 1024


def test_time_scale_and_replay_are_published(tmp_path):
    page = Page(tmp_path, time_scale=30.0, replay=True)
    assert page.value("dutycycle_exporter_time_scale") == 30
    assert page.value("dutycycle_exporter_replay") == 1


def test_nothing_is_published_that_the_contract_does_not_have(page):
    page.snapshot(driver_version="580", cuda_version="13.0", nvml_version="13.580")
    declared = set()
    for family in FAMILIES.values():
        ends = ("_bucket", "_count", "_sum") if family.kind == "histogram" else ("",)
        declared |= {family.name + end for end in ends}
    assert page.names() <= declared


def test_labels_are_those_of_the_contract_and_in_no_family_more_than_thirty(page):
    page.snapshot()
    for metric in page.registry.collect():
        family = FAMILIES.get(metric.name) or FAMILIES[f"{metric.name}_total"]
        for sample in metric.samples:
            assert set(sample.labels) - {"le"} == set(family.labels)
            assert len(sample.labels) <= 30


def test_ten_thousand_processes_on_a_gpu_are_told_and_credited(tmp_path):
    """Their numbers, and not a label for each."""
    page = Page(tmp_path)
    processes = tuple(Process(pid, 1e6, 1e-4) for pid in range(10_000))
    page.ownership = replace(OWNERSHIP, pids={process.pid: WORKLOAD.id for process in processes})
    for _ in range(2):
        page.clock.advance(5)
        page.snapshot(processes=processes)
    assert page.value("workload_gpu_processes", OWNER) == 10_000
    assert page.value("workload_gpu_memory_used_bytes", OWNER) == pytest.approx(1e10)
    assert page.value("workload_gpu_busy_seconds_total", OWNER) == 0.5
    assert len(page.collector.text()) < 100_000


def test_ten_thousand_processes_that_are_gone_do_not_keep_a_snapshot_from_being_shown(tmp_path):
    """NVML names them by numbers that mean nothing in this process's /proc."""
    page = Page(tmp_path)
    attribution = Attribution(slurm_prolog_dir=tmp_path, procfs=tmp_path)
    page.resolve = attribution.resolve
    page.snapshot(processes=tuple(Process(pid) for pid in range(10_000)))
    assert page.value("gpu_processes", {"node": "n1", "gpu": "0", "gpu_uuid": "GPU-0", "mig": ""}) == 10_000
    failures = page.value("dutycycle_exporter_attribution_failures_total", {"source": "process", "reason": "gone"})
    assert failures == 10_000


def test_a_snapshot_that_was_held_up_in_a_call_does_not_count_its_time_twice(tmp_path):
    """While the call hung, its time was counted as allocated; the late snapshot tells of now, not of then."""
    page = Page(tmp_path)
    page.snapshot()
    began = page.clock.now
    held_up = began + 5
    for _ in range(12):
        page.clock.advance(5)
        page.service.on_silence()
    gpu = GpuReading("GPU-0", 0, "H100", spans=(Span(held_up - 1, held_up, 0.5),), utilization=0.5)
    page.clock.advance(1)
    page.service.on_snapshot(Snapshot(held_up, (gpu,), visible=1))
    allocated = page.registry.get_sample_value("workload_gpu_allocated_seconds_total", OWNER)
    assert allocated == pytest.approx(page.clock.now - began)
    page.clock.advance(5)
    page.snapshot()
    allocated = page.registry.get_sample_value("workload_gpu_allocated_seconds_total", OWNER)
    assert allocated == pytest.approx(page.clock.now - began)


def test_dcgm_exporters_names_are_shown_beside_ours_where_that_was_asked_for(page):
    page.snapshot()
    ours = page.names()
    page.collector.like_dcgm = True
    added = page.names() - ours
    assert "DCGM_FI_DEV_GPU_UTIL" in added
    assert {name.startswith("DCGM_FI_") for name in added} == {True}
    assert ours < page.names()


@pytest.mark.parametrize("before", [False, True])
def test_a_reload_in_the_midst_of_a_page_holds_from_the_next_one_on(page, before):
    page.snapshot()

    def reload():
        page.collector.like_dcgm = not before
        return Operation()

    page.collector._operation = reload
    page.collector.like_dcgm = before
    assert ("DCGM_FI_DEV_GPU_UTIL" in page.names()) is before
    assert ("DCGM_FI_DEV_GPU_UTIL" in page.names()) is not before


@pytest.mark.parametrize(
    ("apart", "processes", "shown"),
    [
        (False, (), 0),
        # A newer driver shows none but those of the exporter's own namespace.
        (True, (), None),
        # An older one shows those of the host.
        (True, (Process(7), Process(8)), 2),
    ],
)
def test_in_a_pid_namespace_of_its_own_no_process_is_not_known(apart, processes, shown, tmp_path):
    page = Page(tmp_path, apart=apart).snapshot(processes=processes)
    assert page.value("gpu_processes", {"node": "n1", "gpu": "0", "gpu_uuid": "GPU-0", "mig": ""}) == shown
    # None of them is this workload's.
    assert page.value("workload_gpu_processes", OWNER) == (None if shown is None else 0)
