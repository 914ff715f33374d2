"""What a scrape shows of snapshots, owners, events and processes."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

import pytest

from dutycycle_exporter.attribution import Attribution
from dutycycle_exporter.collector import Operation
from dutycycle_exporter.contract import FAMILIES
from dutycycle_exporter.model import (
    Ownership,
    Process,
    Snapshot,
    Xid,
)
from tests.exporter.daemon import eventually
from tests.exporter.full_log import full_log
from tests.exporter.service_page import DEVICE, OWNER, OWNERSHIP, WORKLOAD, Page


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


def test_what_a_recording_said_of_owners_stays_true_while_its_player_is_gone(page):
    page.snapshot(ownership=OWNERSHIP)
    page.ownership = Ownership()
    page.lose(100)
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
    page.lose(50)
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


def test_what_could_not_be_read_is_counted(page):
    for _ in range(2):
        page.snapshot(failures={("nvmlDeviceGetFanSpeed", "unknown"): 1}, dropped={"out_of_range": 3})
        page.clock.advance(5)
    labels = {"call": "nvmlDeviceGetFanSpeed", "error": "unknown"}
    assert page.value("dutycycle_exporter_read_failures_total", labels) == 2
    assert page.value("dutycycle_exporter_samples_dropped_total", {"reason": "out_of_range"}) == 6
    assert page.value("dutycycle_exporter_attribution_failures_total", {"source": "slurm", "reason": "symlink"}) == 2


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


def test_a_page_that_shows_no_gpu_any_more_does_not_say_that_nvml_was_read(page):
    """A child that has stopped is replaced only after a while: until then nothing else would tell."""
    nvml = {"collector": "nvml"}
    page.snapshot()
    page.service.on_silence()
    assert page.value("dutycycle_exporter_collector_success", nvml) == 1
    page.clock.advance(60)
    page.service.on_silence()
    assert "gpu_utilization_ratio" not in page.names()
    assert page.value("dutycycle_exporter_collector_success", nvml) == 0
    page.snapshot()
    assert page.value("dutycycle_exporter_collector_success", nvml) == 1


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
