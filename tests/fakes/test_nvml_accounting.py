"""Accounting mode, and lists of very many processes."""

import pytest

from tests.fakes.nvml import FULL, RTX_3080_TI, GpuProcess, Level, Load

GIB = 2**30


def stats(m, pid, gpu=0):
    found = m.nvml.nvmlDeviceGetAccountingStats(m.handle(gpu), pid)
    return {
        "gpu": found.gpuUtilization,
        "memory": found.memoryUtilization,
        "peak": found.maxMemoryUsage,
        "ms": found.time,
        "start": found.startTime,
        "running": found.isRunning,
    }


def test_without_the_mode_nothing_is_kept(machine):
    m = machine()
    m.driver.add_gpu(RTX_3080_TI)
    m.driver.run("train", {0: Load(FULL, [GpuProcess(100)])})
    m.advance(1)
    nvml, handle = m.nvml, m.handle()
    assert nvml.nvmlDeviceGetAccountingMode(handle) == nvml.NVML_FEATURE_DISABLED
    assert nvml.nvmlDeviceGetAccountingBufferSize(handle) == 128
    for ask in (lambda: nvml.nvmlDeviceGetAccountingPids(handle), lambda: stats(m, 100)):
        with pytest.raises(nvml.NVMLError_NotSupported):
            ask()


def test_a_process_is_accounted_while_it_runs_and_after_its_end(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.accounting(0, True)
    assert m.nvml.nvmlDeviceGetAccountingMode(m.handle()) == m.nvml.NVML_FEATURE_ENABLED
    assert m.nvml.nvmlDeviceGetAccountingPids(m.handle()) == []
    m.advance(1)
    start = round(m.clock.now * 1e6)
    job = m.driver.run("train", {0: Load(Level(0.6), [GpuProcess(100, 3 * GIB)], memory_activity=0.5)})
    m.advance(10)
    running = {"gpu": 60, "memory": 30, "peak": 3 * GIB, "ms": 0, "start": start, "running": 1}
    assert stats(m, 100) == running
    job.stop()
    m.advance(50)
    assert stats(m, 100) == {**running, "ms": 10_000, "running": 0}
    assert m.nvml.nvmlDeviceGetAccountingPids(m.handle()) == [100]
    with pytest.raises(m.nvml.NVMLError_NotFound):
        stats(m, 101)


def test_a_process_that_changes_what_it_does_keeps_its_account(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.accounting(0, True)
    job = m.driver.run("train", {0: Load(Level(0.2), [GpuProcess(100, GIB)])})
    m.advance(10)
    job.change(Level(0.8))
    m.advance(10)
    assert (stats(m, 100)["gpu"], stats(m, 100)["running"]) == (50, 1)


def test_processes_that_were_there_before_are_not_accounted(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("old", {0: Load(FULL, [GpuProcess(100)])})
    m.advance(1)
    m.driver.accounting(0, True)
    m.driver.run("new", {0: Load(FULL, [GpuProcess(200)])})
    m.advance(1)
    assert m.nvml.nvmlDeviceGetAccountingPids(m.handle()) == [200]
    assert stats(m, 200)["gpu"] == 50


def test_turning_the_mode_off_forgets(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.accounting(0, True)
    m.driver.run("train", {0: Load(FULL, [GpuProcess(100)])})
    m.advance(1)
    m.driver.accounting(0, False)
    m.driver.accounting(0, True)
    m.advance(1)
    assert m.nvml.nvmlDeviceGetAccountingPids(m.handle()) == []


def test_the_buffer_keeps_the_newest_and_a_pid_may_be_used_again(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.accounting(0, True)
    for pid in (*range(1000, 1130), 1129):
        job = m.driver.run("short", {0: Load(FULL, [GpuProcess(pid, GIB)])})
        m.advance(0.5)
        job.stop()
        m.advance(0.1)
    pids = m.nvml.nvmlDeviceGetAccountingPids(m.handle())
    assert pids == [*range(1003, 1130), 1129]
    assert stats(m, 1129)["start"] == round((m.clock.now - 0.6) * 1e6)


def test_the_number_of_pids_can_be_asked_for(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.accounting(0, True)
    nvml, count = m.nvml, m.nvml.c_uint(0)
    ask = nvml._nvmlGetFunctionPointer("nvmlDeviceGetAccountingPids")
    assert ask(m.handle(), nvml.byref(count), None) == nvml.NVML_SUCCESS
    m.driver.run("train", {0: Load(FULL, [GpuProcess(100), GpuProcess(101)])})
    m.advance(1)
    assert ask(m.handle(), nvml.byref(count), None) == nvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert count.value == 2


def test_a_partitioned_gpu_keeps_no_accounts(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.accounting(0, True)
    m.driver.set_mig(0, ["1g.10gb"])
    with pytest.raises(m.nvml.NVMLError_NotSupported):
        m.nvml.nvmlDeviceGetAccountingPids(m.handle())


def test_ten_thousand_processes_on_a_gpu(machine):
    m = machine()
    m.driver.add_gpu()
    m.driver.run("train", {0: Load(FULL, [GpuProcess(100, GIB)])})
    m.driver.crowd(0, 10_000, memory=2**20)
    m.advance(1)
    nvml = m.nvml
    found = nvml.nvmlDeviceGetComputeRunningProcesses(m.handle())
    assert len({process.pid for process in found}) == 10_001
    assert (found[0].pid, found[0].usedGpuMemory) == (100, GIB)
    assert {process.usedGpuMemory for process in found[1:]} == {2**20}
    assert min(process.pid for process in found[1:]) > 2**22
    assert [use.pid for use in nvml.nvmlDeviceGetProcessUtilization(m.handle(), 0)] == [100]
    assert nvml.nvmlDeviceGetGraphicsRunningProcesses(m.handle()) == []
    room = (nvml.c_nvmlProcessInfo_v3_t * 10)()
    count = nvml.c_uint(10)
    ask = nvml._nvmlGetFunctionPointer("nvmlDeviceGetComputeRunningProcesses_v3")
    assert ask(m.handle(), nvml.byref(count), room) == nvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert count.value == 10_001
    m.driver.crowd(0, 0)
    assert [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(m.handle())] == [100]
