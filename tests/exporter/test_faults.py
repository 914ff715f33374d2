"""Real processes that are killed, hang and lose their GPUs: /metrics answers, and nothing reads as idle."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pynvml
import pytest

from tests.exporter.daemon import Daemon, alive, eventually
from tests.exporter.published import samples
from tests.fakes.nvml import Level, Load
from tests.fakes.slurm_prolog import PrologWriter

FLAGS = ("--sample-interval=250ms", "--series-hold=250ms", "--node-name=n1")
NOTICED_SOON = "--nvml.timeout=12s"
"""For tests that wait for a hang to be noticed: on a busy machine a child that is well may be silent for seconds."""


@pytest.fixture
def driver(nvml_driver):
    driver = nvml_driver()
    for _ in range(2):
        driver.add_gpu()
    driver.run("work", {gpu: Load(Level(0.7)) for gpu in range(2)})
    return driver.start()


@pytest.fixture
def start(tmp_path):
    daemons = []

    def begin(driver, *flags):
        daemon = Daemon(tmp_path, driver.environment if driver else {}, *FLAGS, *flags)
        daemons.append(daemon)
        return daemon.__enter__()

    yield begin
    for daemon in daemons:
        daemon.__exit__(None, None, None)


MEASURED = ("gpu_busy_seconds_total", "gpu_observed_seconds_total")


def observed(daemon):
    return daemon.total("gpu_observed_seconds_total")


def shown(daemon, name):
    """The values of one page by GPU."""
    return {sample.labels["gpu"]: sample.value for sample in samples(daemon.get("/metrics")[1], name)}


def measured(daemon):
    """What was measured, on a page that tells of it: after seconds without a snapshot none does."""
    return eventually(lambda: (found := daemon.totals(*MEASURED))[1] and found)


def observed_by(daemon):
    """What was observed of two GPUs, and by when: of some pages the one on which least of the time before is missing,
    as what a machine that stalls tells late.
    """
    pages = []
    for _ in range(8):
        at = time.time()
        pages.append((observed(daemon), at))
        time.sleep(0.2)
    return max(pages, key=lambda page: page[0] - 2 * page[1])


def test_a_killed_child_is_replaced_and_the_counters_go_on_and_nothing_is_counted_twice(driver, start):
    """The next child reads NVML's buffer from its beginning, which the one before has told already."""
    daemon = start(driver)
    eventually(lambda: observed(daemon) > 2)
    first = measured(daemon)
    for kills in (1, 2):
        (before, began), child = observed_by(daemon), daemon.child()
        os.kill(child, signal.SIGKILL)
        eventually(lambda kills=kills: daemon.total("dutycycle_exporter_child_restarts_total", reason="exit") == kills)
        eventually(lambda child=child: daemon.child() not in {None, child})
        eventually(lambda before=before: observed(daemon) > before + 1)
        # Two GPUs; what was measured of the time before the first scrape came late.
        assert observed(daemon) - before <= 2 * (time.time() - began + 1)
    last = measured(daemon)
    assert (last[0] - first[0]) / (last[1] - first[1]) == pytest.approx(0.7, abs=0.02)


def test_a_killed_exporter_leaves_no_child_behind(driver, start):
    daemon = start(driver)
    child = eventually(daemon.child)
    eventually(lambda: daemon.get("/-/ready")[0] == 200)
    driver.hang("nvmlDeviceGetFieldValues")
    eventually(lambda: driver.state.hung("nvmlDeviceGetFieldValues"))
    daemon.signal(signal.SIGKILL)
    daemon.process.wait()
    eventually(lambda: not alive(child), "the child ends with its parent, even inside a call that hangs")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(driver, start, number):
    daemon = start(driver)
    eventually(lambda: daemon.get("/-/ready")[0] == 200)
    child = daemon.child()
    daemon.signal(number)
    assert daemon.process.wait(60) == 0
    assert not alive(child)
    assert "Traceback" not in daemon.log


def test_while_a_call_hangs_metrics_answer_and_say_nothing_of_the_gpus(driver, start):
    daemon = start(driver, NOTICED_SOON)
    eventually(lambda: observed(daemon) > 1)
    before, child = observed(daemon), daemon.child()
    driver.hang("nvmlDeviceGetFieldValues")
    eventually(lambda: not daemon.values("gpu_utilization_ratio"), "stale readings are dropped")
    for name in ("gpu_info", "gpu_visible", "gpu_busy_seconds_total", "gpu_observed_seconds_total", "gpu_power_watts"):
        assert daemon.values(name) == [], name
    assert daemon.values("dutycycle_exporter_collector_age_seconds", collector="nvml")[0] > 0.5
    eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="hang") >= 1)
    assert not alive(child)
    assert daemon.values("dutycycle_exporter_collector_success", collector="nvml") == [0]
    driver.heal("nvmlDeviceGetFieldValues")
    eventually(lambda: observed(daemon) > before)
    assert daemon.get("/-/healthy")[0] == 200


def test_an_exporter_that_stood_still_with_its_child_does_not_take_that_for_the_childs_silence(driver, start):
    """As in a frozen cgroup."""
    daemon = start(driver, NOTICED_SOON)
    eventually(lambda: observed(daemon) > 1)
    child = daemon.child()
    stopped = [daemon.process.pid, child]
    for _ in range(2):
        before = observed(daemon)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(16.0)
        # It goes on before its child does, and has heard nothing for longer than it waits for a child.
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.5)
        eventually(lambda before=before: observed(daemon) > before + 2)
    assert daemon.child() == child
    assert daemon.total("dutycycle_exporter_child_restarts_total") == 0


def test_a_gpu_of_which_every_call_is_slow_is_left_out_and_the_others_are_read(driver, start):
    daemon = start(driver, "--nvml.timeout=30s")
    eventually(lambda: daemon.values("gpu_visible") == [2])
    driver.slow("ANY", 0.9, gpu=1)
    eventually(lambda: f"GPU 1 ({driver.gpus[1].uuid}) answers too slowly" in daemon.log)
    before = daemon.total("gpu_observed_seconds_total", gpu="0")
    eventually(lambda: daemon.total("gpu_observed_seconds_total", gpu="0") > before + 2)
    eventually(lambda: shown(daemon, "gpu_utilization_ratio").keys() == {"0"})
    eventually(lambda: daemon.values("gpu_visible") == [2])
    assert daemon.total("dutycycle_exporter_child_restarts_total") == 0


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetCount",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlGpmSampleGet",
        "nvmlGpmMetricsGet",
    ],
)
def test_whichever_call_never_returns_the_child_is_replaced_and_all_goes_on_when_it_does_again(driver, start, call):
    daemon = start(driver, NOTICED_SOON)
    eventually(lambda: observed(daemon) > 1)
    before = observed(daemon)
    driver.hang(call)
    eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="hang") >= 1)
    assert daemon.get("/metrics")[0] == 200
    driver.heal(call)
    eventually(lambda: len(daemon.values("gpu_sm_active_ratio")) == 2)
    eventually(lambda: observed(daemon) > before)


def test_a_wait_for_events_that_never_returns_holds_up_nothing(driver, start):
    daemon = start(driver)
    eventually(lambda: driver.state.calls("nvmlEventSetWait"))
    driver.hang("nvmlEventSetWait")
    eventually(lambda: driver.state.hung("nvmlEventSetWait"))
    before, child = observed(daemon), daemon.child()
    eventually(lambda: observed(daemon) > before + 4)
    assert daemon.child() == child
    daemon.signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 0
    assert not alive(child)


def test_an_xid_is_counted_by_its_class(driver, start):
    daemon = start(driver)
    eventually(lambda: driver.state.calls("nvmlDeviceRegisterEvents") == 2)
    waits = driver.state.calls("nvmlEventSetWait")
    eventually(lambda: driver.state.calls("nvmlEventSetWait") > waits)
    for _ in range(3):
        driver.xid(1, 79)
    labels = {"xid": "79", "class": "critical", "gpu_uuid": driver.gpus[1].uuid}
    eventually(lambda: daemon.values("gpu_xid_errors_total", **labels) == [3])


def test_an_xid_whose_gpu_hangs_is_counted_before_its_child_is_replaced_and_once(driver, start):
    """The call never returns because of what the XID tells."""
    daemon = start(driver, "--nvml.timeout=30s")
    eventually(lambda: driver.state.calls("nvmlDeviceRegisterEvents") == 2)
    waits = driver.state.calls("nvmlEventSetWait")
    eventually(lambda: driver.state.calls("nvmlEventSetWait") > waits)
    driver.hang("nvmlDeviceGetFieldValues", gpu=1)
    eventually(lambda: driver.state.hung("nvmlDeviceGetFieldValues"))
    driver.xid(1, 119)
    labels = {"xid": "119", "class": "critical", "gpu_uuid": driver.gpus[1].uuid}
    eventually(lambda: daemon.values("gpu_xid_errors_total", **labels) == [1])
    eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="hang"))
    driver.heal("nvmlDeviceGetFieldValues", gpu=1)
    eventually(lambda: len(daemon.values("gpu_utilization_ratio")) == 2)
    assert daemon.values("gpu_xid_errors_total", **labels) == [1]


def test_a_gpu_that_is_lost_and_hangs_what_closes_is_told_by_its_reason(driver, start):
    daemon = start(driver, "--time-scale=30")
    eventually(lambda: daemon.values("gpu_visible") == [2])
    driver.hang("nvmlGpmSampleFree")
    driver.hang("nvmlShutdown")
    driver.fail("nvmlDeviceGetCount", pynvml.NVML_ERROR_UNINITIALIZED, times=1)
    eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="uninitialized") == 1)
    assert daemon.total("dutycycle_exporter_child_restarts_total", reason="hang") == 0


@pytest.mark.parametrize("value", [101, 10**8, 2**32 - 1])
def test_impossible_samples_are_dropped_and_counted_and_nobody_s_work(driver, start, value):
    daemon = start(driver)
    eventually(lambda: observed(daemon) > 2)
    for number in range(5):
        driver.inject_sample(0, value, at=time.time() + number / 1000)
    eventually(lambda: daemon.total("dutycycle_exporter_samples_dropped_total", reason="out_of_range") >= 1)
    before = observed(daemon)
    eventually(lambda: observed(daemon) > before + 1)
    busy, of = measured(daemon)
    assert busy / of == pytest.approx(0.7, abs=0.1)


def test_samples_whose_time_goes_back_are_counted_once_and_their_counters_do_not_fall(driver, start):
    daemon = start(driver)
    eventually(lambda: observed(daemon) > 2)
    before, began = observed_by(daemon)
    driver.shift_clock(0, -30)
    seen, until = {}, time.time() + 2
    while time.time() < until:
        now = shown(daemon, "gpu_observed_seconds_total")
        assert all(value >= seen.get(gpu, 0.0) for gpu, value in now.items())
        seen |= now
    driver.shift_clock(0, 30)
    eventually(lambda: daemon.values("gpu_utilization_ratio", gpu="0"))
    assert observed(daemon) - before <= 2 * (time.time() - began + 1)


def test_ten_thousand_processes_on_a_gpu_are_counted_and_metrics_stay_small(driver, start):
    daemon = start(driver, "--collect.processes")
    driver.crowd(0, 10_000)
    eventually(lambda: daemon.values("gpu_processes", gpu="0") == [10_000])
    status, text = daemon.get("/metrics")
    assert status == 200
    assert text.count("gpu_process_memory_bytes{") <= 2 * 64
    assert len(text) < 2**20
    assert daemon.total("dutycycle_exporter_child_restarts_total") == 0


def test_while_a_call_on_one_gpu_hangs_jobs_stay_and_their_counters_do_not_fall_and_go_on(driver, start, tmp_path):
    """And no scrape waits until the hang is noticed."""
    prolog = PrologWriter(tmp_path / "prolog")
    prolog.start(7, [gpu.uuid for gpu in driver.gpus])
    daemon = start(driver, "--nvml.timeout=20s")
    counters = [f"workload_gpu_{name}_seconds_total" for name in ("allocated", "observed", "busy")]
    eventually(lambda: all(daemon.total(name) > 1 for name in counters))
    driver.hang("nvmlDeviceGetTemperature", gpu=1)
    before = [daemon.total(name) for name in counters]
    while daemon.total("dutycycle_exporter_child_restarts_total", reason="hang") == 0:
        assert len(daemon.values("gpu_allocation", workload="slurm/7", patience=18)) == 2
        now = [daemon.total(name) for name in counters]
        assert all(a <= b for a, b in zip(before, now, strict=True))
        before = now
        time.sleep(0.1)
    eventually(lambda: not daemon.values("workload_gpu_memory_used_bytes"), "a reading is not repeated")
    driver.heal("nvmlDeviceGetTemperature", gpu=1)
    for gpu in ("0", "1"):
        eventually(lambda gpu=gpu: daemon.values("gpu_utilization_ratio", gpu=gpu))
    eventually(lambda: daemon.total(counters[1]) > before[1] + 1)
    assert len(daemon.values("gpu_allocation", workload="slurm/7")) == 2


def test_a_job_that_ends_while_nvml_hangs_is_gone(driver, start, tmp_path):
    prolog, uuid = PrologWriter(tmp_path / "prolog"), driver.gpus[0].uuid
    prolog.start(7, [uuid])
    daemon = start(driver)
    eventually(lambda: daemon.values("gpu_allocation", workload="slurm/7"))
    driver.hang("ANY")
    prolog.end(7, [uuid])
    eventually(lambda: not daemon.values("gpu_allocation"))
    assert daemon.values("gpu_visible") == []


def test_a_driver_that_is_not_loaded_yet_is_found_when_it_is(driver, start):
    driver.fail("nvmlInit", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    daemon = start(driver)
    eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="driver_not_loaded") >= 1)
    status, reason = daemon.get("/-/ready")
    assert status == 503
    assert "Driver Not Loaded" in reason
    assert daemon.get("/metrics")[0] == daemon.get("/-/healthy")[0] == 200
    assert daemon.values("gpu_visible") == []
    driver.heal("nvmlInit")
    eventually(lambda: daemon.values("gpu_visible") == [2])
    assert daemon.get("/-/ready")[0] == 200


def test_without_any_library_it_serves_and_says_so(start, no_nvml):
    daemon = start(None)
    eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="library_not_found") >= 1)
    assert "libnvidia-ml.so.1" in daemon.get("/-/ready")[1]


def test_a_driver_that_was_upgraded_under_it_is_read_again_when_it_fits(driver, start):
    daemon = start(driver)
    eventually(lambda: daemon.values("gpu_visible") == [2])
    driver.fail("nvmlDeviceGetCount", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    driver.fail("nvmlInit", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="lib_rm_version_mismatch") >= 1)
    eventually(lambda: daemon.values("gpu_visible") == [])
    driver.heal("nvmlDeviceGetCount")
    driver.heal("nvmlInit")
    eventually(lambda: daemon.values("gpu_visible") == [2])


def test_a_gpu_falls_off_the_bus_and_comes_back(driver, start):
    daemon = start(driver)
    eventually(lambda: daemon.values("gpu_visible") == [2])
    driver.lose(1)
    eventually(lambda: daemon.values("gpu_visible") == [1])
    eventually(lambda: shown(daemon, "gpu_utilization_ratio").keys() == {"0"})
    driver.restore(1)
    eventually(lambda: len(daemon.values("gpu_utilization_ratio")) == 2)
    assert daemon.total("dutycycle_exporter_child_restarts_total") == 0


def test_a_gpu_that_stays_lost_is_looked_for_by_a_fresh_child_and_the_others_counters_go_on(driver, start):
    """It may have been reset, which a process that has initialised NVML before does not notice."""
    daemon = start(driver, "--time-scale=30")
    eventually(lambda: daemon.values("gpu_visible") == [2])
    first, counter = driver.gpus[0].uuid, "gpu_energy_joules_total"
    before = daemon.total(counter, gpu_uuid=first)
    driver.lose(1)
    eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="gpu_lost") >= 1)
    eventually(lambda: daemon.total(counter, gpu_uuid=first) > before)
    eventually(lambda: daemon.values("gpu_visible") == [1])
    driver.restore(1)
    eventually(lambda: daemon.values("gpu_visible") == [2])


def resources(pid):
    """Open files, threads and resident bytes of a process."""
    process = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    open_files = len(list((process / "fd").iterdir()))
    return open_files, int(status["Threads"]), int(status["VmRSS"].split()[0]) * 1024


def test_two_thousand_scrapes_leave_nothing_behind(driver, start, tmp_path):
    PrologWriter(tmp_path / "prolog").start(7, [gpu.uuid for gpu in driver.gpus])
    daemon = start(driver, "--sample-interval=50ms")
    eventually(lambda: daemon.values("gpu_allocation"))
    for _ in range(200):
        daemon.get("/metrics")
    pids = (daemon.process.pid, daemon.child())
    before = [resources(pid) for pid in pids]
    with ThreadPoolExecutor(2) as pool:
        statuses = Counter(status for status, _ in pool.map(daemon.get, ["/metrics"] * 2000))
    assert statuses == {200: 2000}
    assert daemon.child() == pids[1]
    for pid, (files, threads, memory) in zip(pids, before, strict=True):
        # A request may still be on its way out of its thread.
        eventually(lambda pid=pid, files=files, threads=threads: resources(pid)[:2] <= (files, threads))
        assert resources(pid)[2] < memory + 16 * 2**20
