"""Who is on a GPU and what each does: every context, the clients of MPS, and ten thousand of them."""

from __future__ import annotations

import pickle

import pynvml
import pytest

from dutycycle_exporter.collected import DEFAULT
from dutycycle_exporter.pipe import MAX_BYTES
from tests.fakes.nvml import GpuProcess, Level, Load, Paused
from tests.fakes.nvml.layout import GRAPHICS, MPS

GIB = 2**30
DETAIL = DEFAULT | {"processes"}


def test_of_a_single_process_it_is_not_asked_what_it_does_unless_processes_are_collected(make_rack):
    load = {0: Load(Level(0.6), [GpuProcess(10, GIB)], memory_activity=0.5)}
    rack = make_rack()
    rack.driver.run("one", load)
    [process] = rack.turn(2).gpu.processes
    assert (process.pid, process.memory, process.utilization, process.memory_activity) == (10, GIB, None, None)
    assert rack.driver.state.calls("nvmlDeviceGetProcessUtilization") == 0


def test_what_each_process_does_of_the_gpu_s_time_and_memory(make_rack):
    rack = make_rack(collect=DETAIL)
    rack.driver.run("one", {0: Load(Level(0.6), [GpuProcess(10)], memory_activity=0.5)})
    rack.turn(2)
    [process] = rack.gpu.processes
    assert (process.utilization, process.memory_activity) == (0.6, 0.3)
    rack.driver.run("two", {0: Load(Level(0.2), [GpuProcess(11)], memory_activity=1.0)})
    assert {process.pid: (process.utilization, process.memory_activity) for process in rack.turn().gpu.processes} == {
        10: (0.6, 0.3),
        11: (0.2, 0.2),
    }


def test_a_process_that_did_nothing_is_at_0_and_one_of_which_that_cannot_be_read_is_unknown(make_rack):
    rack = make_rack(collect=DETAIL)
    rack.driver.run("idle", {0: Load(Level(0.0), [GpuProcess(10)])})
    rack.driver.run("busy", {0: Load(Level(0.5), [GpuProcess(11)])})
    assert [process.utilization for process in rack.turn(2).gpu.processes] == [0.0, 0.5]
    rack.driver.fail("nvmlDeviceGetProcessUtilization", pynvml.NVML_ERROR_UNKNOWN)
    assert [process.utilization for process in rack.turn().gpu.processes] == [None, None]


def test_what_an_earlier_turn_left_in_the_array_is_not_told_again(make_rack, monkeypatch):
    """Where NVML says that it filled in more than it did."""
    real = pynvml._nvmlGetFunctionPointer

    def boasting(name):
        function = real(name)

        def answer(handle, samples, count, since):
            code = function(handle, samples, count, since)
            count._obj.value += 1
            return code

        return answer if name == "nvmlDeviceGetProcessUtilization" else function

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", boasting)
    rack = make_rack(collect=DETAIL)
    rack.driver.run("one", {0: Load(Level(0.5), [GpuProcess(10)])})
    rack.driver.run("two", {0: Load(Paused(Level(0.2), every=12, length=3600), [GpuProcess(11)])})
    assert [process.utilization for process in rack.turn(2).gpu.processes] == [0.5, 0.2]
    assert [process.utilization for process in rack.turn(3).gpu.processes] == [0.5, 0.0]


def test_clients_of_mps_are_processes_beside_their_server(make_rack):
    rack = make_rack(collect=DETAIL)
    clients = [GpuProcess(20, 2 * GIB, MPS), GpuProcess(21, GIB, MPS)]
    rack.driver.run("server", {0: Load(Level(0.0), [GpuProcess(19, 2**25)])})
    rack.driver.run("clients", {0: Load(Level(0.8), clients)})
    found = {process.pid: (process.memory, process.utilization) for process in rack.turn(2).gpu.processes}
    assert found == {19: (2**25, 0.0), 20: (2 * GIB, 0.4), 21: (GIB, 0.4)}
    assert {process.pid for process in rack.gpu.processes if process.mps_client} == {20, 21}


def test_where_the_clients_of_mps_could_not_be_listed_nobody_knows_the_processes(make_rack):
    """They would seem to have ended, and their server to work."""
    rack = make_rack()
    rack.driver.run("server", {0: Load(Level(0.0), [GpuProcess(19)])})
    rack.driver.run("clients", {0: Load(Level(0.8), [GpuProcess(20, kind=MPS)])})
    rack.driver.fail("nvmlDeviceGetMPSComputeRunningProcesses", pynvml.NVML_ERROR_UNKNOWN, times=1)
    assert rack.turn().gpu.processes is None
    assert rack.snapshot.failures == {("nvmlDeviceGetMPSComputeRunningProcesses", "unknown"): 1}
    assert len(rack.turn().gpu.processes) == 2


def test_what_only_draws_is_told_apart_with_what_it_does(make_rack):
    rack = make_rack()
    rack.driver.run("notebook", {0: Load(Level(0.1), [GpuProcess(10, GIB)])})
    assert (rack.turn().gpu.graphics, rack.gpu.processes[0].utilization) == ((), None)
    rack.driver.run("game", {0: Load(Level(0.5), [GpuProcess(20, 2 * GIB, GRAPHICS)])})
    rack.turn(2)
    assert [(one.pid, one.memory, one.utilization) for one in rack.gpu.processes] == [(10, GIB, 0.1)]
    assert [(one.pid, one.memory, one.utilization) for one in rack.gpu.graphics] == [(20, 2 * GIB, 0.5)]


def test_what_draws_and_computes_counts_among_those_that_compute(make_rack, monkeypatch):
    rack = make_rack()
    rack.driver.run("one", {0: Load(Level(0.5), [GpuProcess(10, GIB)])})
    monkeypatch.setattr(pynvml, "nvmlDeviceGetGraphicsRunningProcesses", pynvml.nvmlDeviceGetComputeRunningProcesses)
    assert ([one.pid for one in rack.turn().gpu.processes], rack.gpu.graphics) == ([10], ())


def test_where_what_draws_could_not_be_listed_nobody_knows_the_processes(make_rack):
    rack = make_rack()
    rack.driver.run("one", {0: Load(Level(0.0), [GpuProcess(19)])})
    rack.driver.fail("nvmlDeviceGetGraphicsRunningProcesses", pynvml.NVML_ERROR_UNKNOWN, times=1)
    assert rack.turn().gpu.processes is None
    assert len(rack.turn().gpu.processes) == 1
    rack.driver.fail("nvmlDeviceGetGraphicsRunningProcesses", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert len(rack.turn(2).gpu.processes) == 1


def test_what_two_do_is_asked_since_a_moment_ago_however_long_one_was_alone(make_rack, monkeypatch):
    real, asked = pynvml._nvmlGetFunctionPointer, []

    def spying(name):
        function = real(name)

        def answer(handle, samples, count, since):
            asked.append(since.value)
            return function(handle, samples, count, since)

        return answer if name == "nvmlDeviceGetProcessUtilization" else function

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", spying)
    rack = make_rack()
    rack.driver.run("one", {0: Load(Level(0.1), [GpuProcess(10)])})
    second = rack.driver.run("two", {0: Load(Level(0.5), [GpuProcess(20)])})
    rack.turn(3)
    second.stop()
    rack.turn(100)
    before = asked[-1]
    rack.driver.run("three", {0: Load(Level(0.7), [GpuProcess(30)])})
    rack.turn()
    assert asked[-1] - before >= 98 * rack.interval * 1e6
    assert [one.utilization for one in rack.turn().gpu.processes] == [0.1, 0.7]


def test_a_driver_that_knows_of_no_mps_has_processes_all_the_same(make_rack):
    rack = make_rack()
    rack.driver.run("one", {0: Load(Level(0.0), [GpuProcess(19)])})
    rack.driver.fail("nvmlDeviceGetMPSComputeRunningProcesses", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert [process.pid for process in rack.turn(2).gpu.processes] == [19]


def test_a_process_that_is_in_both_lists_counts_once(make_rack, monkeypatch):
    rack = make_rack()
    rack.driver.run("one", {0: Load(Level(0.5), [GpuProcess(10, GIB)])})
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMPSComputeRunningProcesses", pynvml.nvmlDeviceGetComputeRunningProcesses)
    assert len(rack.turn().gpu.processes) == 1


def test_without_processes_nobody_asks_for_mps(make_rack):
    rack = make_rack().turn(3)
    assert rack.gpu.processes == ()
    assert rack.driver.state.calls("nvmlDeviceGetMPSComputeRunningProcesses") == 0


def test_memory_that_nvml_does_not_tell_is_unknown(make_rack, monkeypatch):
    process = pynvml.nvmlFriendlyObject({"pid": 10, "usedGpuMemory": None})
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", lambda handle: [process])
    assert make_rack().turn().gpu.processes[0].memory is None


def test_ten_thousand_processes_are_all_told_and_fit_a_message(make_rack):
    rack = make_rack(gpus=2, collect=DETAIL)
    for gpu in range(2):
        rack.driver.crowd(gpu, 10_000, memory=2**21)
    rack.turn(2)
    assert [len(gpu.processes) for gpu in rack.gpus] == [10_000, 10_000]
    assert {process.memory for process in rack.gpu.processes} == {2**21}
    assert {process.utilization for process in rack.gpu.processes} == {0.0}
    assert len(pickle.dumps(rack.snapshot, protocol=5)) < MAX_BYTES / 8


@pytest.mark.parametrize("value", [101, 2**32 - 1])
def test_a_utilization_that_cannot_be_is_unknown_and_counted(make_rack, monkeypatch, value):
    rack = make_rack(collect=DETAIL)
    rack.driver.run("one", {0: Load(Level(0.5), [GpuProcess(10)])})
    rack.turn()
    sample = pynvml.c_nvmlProcessUtilizationSample_t(
        pid=10, timeStamp=round((rack.clock.now + 1) * 1e6), smUtil=value, memUtil=value
    )
    real = pynvml._nvmlGetFunctionPointer

    def answer(handle, samples, count, since):
        samples[0], count._obj.value = sample, 1
        return pynvml.NVML_SUCCESS

    monkeypatch.setattr(
        pynvml,
        "_nvmlGetFunctionPointer",
        lambda name: answer if name == "nvmlDeviceGetProcessUtilization" else real(name),
    )
    [process] = rack.turn().gpu.processes
    assert (process.utilization, process.memory_activity) == (None, None)
    assert rack.snapshot.dropped == {"out_of_range": 1}
