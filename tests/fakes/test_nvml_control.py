"""The double misbehaves as told: errors, hangs, GPUs that go and come back, and it counts what it was asked.

Clients run in processes of their own, as the exporter's child does.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from threading import Thread

import pynvml
import pytest

from tests.fakes.nvml import FULL, Driver, GpuProcess, Level, Load, Steps
from tests.fakes.nvml.state import StateFile

CLIENT = """
import json, sys, pynvml
nvml = {name: getattr(pynvml, name) for name in dir(pynvml)}
try:
    pynvml.nvmlInit()
    print(json.dumps(eval(sys.argv[1], nvml)))
except pynvml.NVMLError as error:
    print(json.dumps({"error": error.value}))
"""


def environment(driver):
    return {**os.environ, **driver.environment}


def ask(driver, expression):
    """Evaluates an expression over pynvml in a new process: its value, or the error's code."""
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, expression],
        env=environment(driver),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answer = json.loads(done.stdout)
    return answer["error"] if isinstance(answer, dict) else answer


@contextmanager
def client(driver, expression):
    """A client that is still running."""
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, expression], env=environment(driver), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "never happened"
        time.sleep(0.01)


def uuids(driver):
    return ask(driver, "[nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(i)) for i in range(nvmlDeviceGetCount())]")


UTILIZATION = "nvmlDeviceGetUtilizationRates(nvmlDeviceGetHandleByIndex({})).gpu"


def test_a_program_started_with_the_driver_s_environment_finds_its_gpus(nvml_driver):
    driver = nvml_driver()
    gpus = [driver.add_gpu() for _ in range(3)]
    assert uuids(driver) == [gpu.uuid for gpu in gpus]
    assert ask(driver, "nvmlSystemGetDriverVersion()") == "580.95.05"
    assert ask(driver, "nvmlSystemGetCudaDriverVersion()") == 13000


def test_uuids_are_the_same_in_every_run_and_differ_between_nodes(nvml_driver):
    first, again, other = (nvml_driver(name, node=node) for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")))
    assert first.add_gpu().uuid == again.add_gpu().uuid != other.add_gpu().uuid


def test_without_a_state_there_is_no_driver(nvml_driver, tmp_path):
    driver = nvml_driver()
    driver.state.path.unlink()
    assert ask(driver, "0") == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    driver.state.path.write_bytes(b"something else")
    assert ask(driver, "0") == pynvml.NVML_ERROR_DRIVER_NOT_LOADED


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH])
def test_init_can_fail_and_heal(nvml_driver, code):
    driver = nvml_driver()
    driver.fail("nvmlInit", code)
    assert ask(driver, "0") == code
    driver.heal("nvmlInit_v2")
    assert ask(driver, "nvmlDeviceGetCount()") == 0


def test_an_error_of_one_function_on_one_gpu_leaves_the_others_alone(nvml_driver):
    driver = nvml_driver()
    driver.add_gpu()
    driver.add_gpu()
    driver.fail("nvmlDeviceGetUtilizationRates", pynvml.NVML_ERROR_NO_PERMISSION, gpu=1)
    assert ask(driver, UTILIZATION.format(0)) == 0
    assert ask(driver, UTILIZATION.format(1)) == pynvml.NVML_ERROR_NO_PERMISSION
    assert ask(driver, "nvmlDeviceGetIndex(nvmlDeviceGetHandleByIndex(1))") == 1
    driver.fail("nvmlDeviceGetHandleByIndex", pynvml.NVML_ERROR_IRQ_ISSUE, gpu=0)
    assert ask(driver, UTILIZATION.format(0)) == pynvml.NVML_ERROR_IRQ_ISSUE


def test_an_error_can_hold_for_a_number_of_calls(nvml_driver):
    driver = nvml_driver()
    driver.add_gpu()
    driver.fail("nvmlDeviceGetUtilizationRates", pynvml.NVML_ERROR_UNKNOWN, times=2)
    answers = [ask(driver, UTILIZATION.format(0)) for _ in range(3)]
    assert answers == [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_UNKNOWN, 0]


def test_every_function_can_fail_at_once(nvml_driver):
    """As after a driver was unloaded below a client."""
    driver = nvml_driver()
    driver.add_gpu()
    driver.fail("ANY", pynvml.NVML_ERROR_UNKNOWN)
    assert ask(driver, "0") == pynvml.NVML_ERROR_UNKNOWN
    driver.heal("ANY")
    assert ask(driver, "nvmlDeviceGetCount()") == 1


def test_a_lost_gpu_is_counted_and_answers_nothing(nvml_driver):
    driver = nvml_driver()
    for _ in range(2):
        driver.add_gpu()
    driver.lose(1)
    assert ask(driver, "nvmlDeviceGetCount()") == 2
    assert ask(driver, "nvmlDeviceGetHandleByIndex(1)") == pynvml.NVML_ERROR_GPU_IS_LOST
    driver.restore(1)
    assert ask(driver, UTILIZATION.format(1)) == 0


def test_a_vanished_gpu_moves_the_indexes_and_comes_back_under_its_uuid(nvml_driver):
    driver = nvml_driver()
    gpus = [driver.add_gpu() for _ in range(3)]
    driver.vanish(1)
    assert uuids(driver) == [gpus[0].uuid, gpus[2].uuid]
    assert ask(driver, f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('{gpus[2].uuid}'))") == 1
    assert ask(driver, f"nvmlDeviceGetHandleByUUID('{gpus[1].uuid}')") == pynvml.NVML_ERROR_NOT_FOUND
    driver.restore(1)
    assert uuids(driver) == [gpu.uuid for gpu in gpus]


def test_a_handle_outlives_the_gpu_that_it_means(nvml_driver, pynvml_double, monkeypatch):
    driver = nvml_driver()
    for _ in range(2):
        driver.add_gpu()
    monkeypatch.setenv("NVML_DOUBLE_STATE", str(driver.state.path))
    pynvml_double.nvmlInit()
    handle = pynvml_double.nvmlDeviceGetHandleByIndex(1)
    driver.vanish(1)
    with pytest.raises(pynvml_double.NVMLError_GpuIsLost):
        pynvml_double.nvmlDeviceGetPowerUsage(handle)
    driver.restore(1)
    driver.vanish(0)
    assert pynvml_double.nvmlDeviceGetIndex(handle) == 0
    pynvml_double.nvmlShutdown()
    with pytest.raises(pynvml_double.NVMLError_Uninitialized):
        pynvml_double.nvmlDeviceGetPowerUsage(handle)


def test_init_is_counted_and_the_last_shutdown_ends_it(nvml_driver, pynvml_double, monkeypatch):
    driver = nvml_driver()
    monkeypatch.setenv("NVML_DOUBLE_STATE", str(driver.state.path))
    pynvml_double.nvmlInit()
    pynvml_double.nvmlInit()
    pynvml_double.nvmlShutdown()
    assert pynvml_double.nvmlDeviceGetCount() == 0
    pynvml_double.nvmlShutdown()
    with pytest.raises(pynvml_double.NVMLError_Uninitialized):
        pynvml_double.nvmlShutdown()


def test_a_new_driver_is_found_at_the_next_init(nvml_driver, pynvml_double, monkeypatch):
    """A driver reload: a client that initialised before goes on with what it had, until it initialises again."""
    old = nvml_driver()
    old.add_gpu()
    monkeypatch.setenv("NVML_DOUBLE_STATE", str(old.state.path))
    pynvml_double.nvmlInit()
    new = nvml_driver()
    assert new.state.path == old.state.path
    assert pynvml_double.nvmlDeviceGetCount() == 1
    pynvml_double.nvmlShutdown()
    pynvml_double.nvmlInit()
    assert pynvml_double.nvmlDeviceGetCount() == 0
    pynvml_double.nvmlShutdown()


def test_a_call_hangs_until_it_is_let_go(nvml_driver):
    driver = nvml_driver()
    driver.add_gpu()
    driver.hang("nvmlDeviceGetPowerUsage", gpu=0)
    with client(driver, "nvmlDeviceGetPowerUsage(nvmlDeviceGetHandleByIndex(0))") as process:
        wait_for(lambda: driver.state.hung("nvmlDeviceGetPowerUsage") == 1)
        assert process.poll() is None
        driver.heal("nvmlDeviceGetPowerUsage", gpu=0)
        answer, _ = process.communicate(timeout=60)
    assert json.loads(answer) == 70_000


def test_a_hanging_client_ignores_sigterm_and_dies_of_sigkill(nvml_driver):
    """Python runs no signal handler while a C call hangs, as while a real one does."""
    driver = nvml_driver()
    driver.hang("nvmlDeviceGetCount")
    handler = "__import__('signal').signal(__import__('signal').SIGTERM, lambda *_: sys.exit(0))"
    with client(driver, f"[{handler}, nvmlDeviceGetCount()]") as process:
        wait_for(lambda: driver.state.hung("nvmlDeviceGetCount") == 1)
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
        process.kill()
        assert process.wait(timeout=60) == -9


def test_one_client_that_hangs_does_not_stop_another(nvml_driver):
    driver = nvml_driver()
    driver.add_gpu()
    driver.add_gpu()
    driver.hang("nvmlDeviceGetUtilizationRates", gpu=0)
    with client(driver, UTILIZATION.format(0)):
        wait_for(lambda: driver.state.hung("nvmlDeviceGetUtilizationRates") == 1)
        assert ask(driver, UTILIZATION.format(1)) == 0


def test_a_call_can_be_slow(nvml_driver):
    driver = nvml_driver()
    driver.slow("nvmlDeviceGetCount", 0.2)
    clock = "__import__('time').monotonic()"
    before, _, after = ask(driver, f"[{clock}, nvmlDeviceGetCount(), {clock}]")
    assert after - before >= 0.2
    with pytest.raises(ValueError, match="hang"):
        driver.slow("nvmlDeviceGetCount", 5)


def test_calls_of_all_processes_are_counted_by_function_and_gpu(nvml_driver):
    driver = nvml_driver()
    for _ in range(2):
        driver.add_gpu()
    for _ in range(2):
        ask(driver, UTILIZATION.format(1))
    driver.fail("nvmlDeviceGetUtilizationRates", pynvml.NVML_ERROR_UNKNOWN)
    ask(driver, UTILIZATION.format(0))
    calls = driver.state.calls
    assert [calls("nvmlDeviceGetUtilizationRates", gpu) for gpu in (0, 1)] == [1, 2]
    assert calls("nvmlDeviceGetUtilizationRates") == 3
    assert driver.state.called() == {
        "nvmlInit": 3,
        "nvmlDeviceGetHandleByIndex": 3,
        "nvmlDeviceGetUtilizationRates": 3,
    }


def test_time_passes_by_itself_once_started(nvml_driver):
    driver = nvml_driver(time_scale=30)
    driver.add_gpu()
    driver.run("train", {0: Load(Steps(2, 0.5), [GpuProcess(4242, 2**30)])})
    driver.start()
    rates = "nvmlDeviceGetSamples(nvmlDeviceGetHandleByIndex(0), 1, 0)[1].__len__()"
    wait_for(lambda: ask(driver, rates) == 100)
    throughput = "nvmlDeviceGetPcieThroughput(nvmlDeviceGetHandleByIndex(0), NVML_PCIE_UTIL_RX_BYTES)"
    wait_for(lambda: ask(driver, throughput) > 0)


def test_jobs_can_be_changed_from_many_threads(nvml_driver):
    """Starting, changing and ending jobs while time passes neither raises nor loses busy time."""
    driver = nvml_driver(time_scale=60)
    for _ in range(4):
        driver.add_gpu()
    driver.start()
    started = time.time()

    def churn(gpu):
        for i in range(30):
            job = driver.run(f"job{gpu}.{i}", {gpu: Load(FULL, [GpuProcess(1000 * gpu + i)])})
            job.change(Level(0.5))
            job.stop()

    threads = [Thread(target=churn, args=(gpu,)) for gpu in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for gpu in range(4):
        runs = driver.gpus[gpu].timeline.runs
        assert len(runs) == 60
        assert all(run.end_us is not None for run in runs)
        held = sum(run.end_us - run.start_us for run in runs) / 1e6
        assert 0 <= driver.truth.busy_seconds(gpu, started - 1, time.time()) <= held + 1e-6


def test_what_has_ended_cannot_be_changed(nvml_driver):
    driver = nvml_driver()
    driver.add_gpu()
    job = driver.run("train", {0: Load(FULL)})
    job.stop()
    with pytest.raises(RuntimeError, match="train has ended"):
        job.change(Level(0.5))


@pytest.mark.parametrize("capacity", [0, 4096])
def test_a_buffer_that_does_not_fit_is_refused(nvml_libraries, tmp_path, capacity):
    with pytest.raises(ValueError, match="room"):
        Driver(tmp_path / "state", nvml_libraries, capacity=capacity)


def test_there_is_room_for_sixteen_gpus(nvml_driver):
    driver = nvml_driver()
    for _ in range(16):
        driver.add_gpu()
    with pytest.raises(ValueError, match="room for 16"):
        driver.add_gpu()
    assert len(set(uuids(driver))) == 16


CONSISTENCY = """
import sys, pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
seen = set()
while len(seen) < 200:
    fields = pynvml.nvmlDeviceGetFieldValues(handle, [83, 197, 198, (138, 2**32 - 1), (139, 2**32 - 1), 74, 269])
    values = {field.value.ullVal for field in fields} | {fields[0].timestamp}
    assert len(values) == 1, values
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert memory.used == memory.reserved, memory
    samples = pynvml.nvmlDeviceGetSamples(handle, 1, 0)[1]
    assert len({sample.timeStamp - sample.sampleValue.uiVal for sample in samples}) == 1
    seen |= values
"""


def test_readers_never_see_half_an_update(nvml_driver):
    """Every publication carries one number in all its members; no reader in another process ever finds two."""
    driver = nvml_driver(capacity=100)
    gpu = driver.add_gpu()
    device = gpu.device
    state: StateFile = driver.state

    def publish(number):
        telemetry = device.telemetry
        for name in ("time_us", "energy_mj", "pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_kib", "nvlink_rx_kib"):
            setattr(telemetry, name, number)
        telemetry.throttle_ns[:] = [number] * len(telemetry.throttle_ns)
        telemetry.memory_used = telemetry.memory_reserved = number
        device.gpu.written = 100
        for i in range(100):
            device.gpu.samples[i].timestamp_us = number + 10**6
            device.gpu.samples[i].value = number % 2**31
        state.publish_device(0, device)

    publish(1)
    with subprocess.Popen([sys.executable, "-c", CONSISTENCY], env=environment(driver)) as reader:
        number = 1
        while reader.poll() is None:
            number += 1
            publish(number)
    assert reader.returncode == 0
