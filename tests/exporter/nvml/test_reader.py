"""What NVML answers becomes readings in base units; what it does not answer is missing, and nothing becomes 0."""

from __future__ import annotations

import math

import pynvml
import pytest

from dutycycle_exporter.errors import NvmlUnavailableError
from dutycycle_exporter.nvml import NvmlReader
from tests.fakes.nvml import RTX_3080_TI, GpuProcess, Level, Load, Steps
from tests.fakes.nvml.layout import FUNCTIONS, MPS

SILENCED = {
    "nvmlSystemGetDriverVersion": (),
    "nvmlSystemGetNVMLVersion": (),
    "nvmlSystemGetCudaDriverVersion": (),
    "nvmlDeviceGetCount": ("gpu_visible",),
    "nvmlDeviceGetHandleByIndex": (),
    "nvmlDeviceGetUUID": (),
    "nvmlGetExcludedDeviceCount": (),
    "nvmlDeviceGetName": (),
    "nvmlDeviceGetMinorNumber": (),
    "nvmlDeviceGetPciInfo": (),
    "nvmlDeviceGetMigMode": (),
    "nvmlDeviceGetUtilizationRates": ("gpu_utilization_ratio", "gpu_memory_activity_ratio"),
    "nvmlDeviceGetEncoderUtilization": ("gpu_encoder_utilization_ratio",),
    "nvmlDeviceGetDecoderUtilization": ("gpu_decoder_utilization_ratio",),
    "nvmlDeviceGetMemoryInfo": ("gpu_memory_used_bytes", "gpu_memory_total_bytes", "gpu_memory_reserved_bytes"),
    "nvmlDeviceGetSamples": (),
    "nvmlDeviceGetFieldValues": (
        "gpu_energy_joules_total",
        "gpu_power_watts",
        "gpu_power_limit_watts",
        "gpu_throttle_seconds_total",
        "gpu_pcie_replays_total",
        "gpu_recovery_action",
    ),
    "nvmlDeviceGetTemperature": ("gpu_temperature_celsius",),
    "nvmlDeviceGetFanSpeed": ("gpu_fan_ratio",),
    "nvmlDeviceGetPerformanceState": ("gpu_performance_state",),
    "nvmlDeviceGetClockInfo": ("gpu_clock_hertz",),
    "nvmlDeviceGetComputeRunningProcesses": ("gpu_processes",),
    "nvmlDeviceGetMPSComputeRunningProcesses": ("gpu_processes",),
    "nvmlDeviceGetGraphicsRunningProcesses": ("gpu_processes",),
    "nvmlDeviceGetProcessUtilization": (),
    "nvmlDeviceGetSramEccErrorStatus": (),
    "nvmlGpmQueryDeviceSupport": (),
}
"""Every function that the reader calls, and the series of a GPU that go when it fails from now on."""

VERSIONS = {
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlGetExcludedDeviceCount",
}
IDENTITY = {"nvmlDeviceGetName", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo"}
BESIDE = {"nvmlEventSetCreate", "nvmlDeviceRegisterEvents"}
"""Called on a thread of its own."""

ASKED_ONCE = (
    VERSIONS
    | IDENTITY
    | {"nvmlDeviceGetMigMode", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"}
    | {"nvmlDeviceGetSramEccErrorStatus", "nvmlGpmQueryDeviceSupport"}
)
"""Known already, or known not to be supported, when the failures begin."""


def node_with_two_gpus(make_rig):
    """Consumer GPUs, which have a fan; two processes on the second, so that their utilization is read."""
    rig = make_rig(gpus=2, model=RTX_3080_TI)
    rig.node.driver.run("pair", {1: Load(Level(0.5), [GpuProcess(10, 2**30), GpuProcess(11, 2**30)])})
    return rig.turn(2)


def series_by_gpu(rig):
    """{(metric, gpu): value} of everything that is published of devices; what is the node's belongs to both."""
    return {
        (sample.name, gpu, *(value for name, value in sample.labels.items() if name in {"sensor", "domain"})): value
        for family in rig.registry.collect()
        for sample in family.samples
        if sample.name.startswith("gpu_") and sample.name != "gpu_driver_info"
        for gpu, value in [(sample.labels.get("gpu", ""), sample.value)]
    }


def test_every_function_that_is_called_is_made_to_fail_below(make_rig):
    rig = node_with_two_gpus(make_rig)
    called = {name for name in FUNCTIONS if name != "ANY" and rig.node.driver.state.calls(name)}
    assert called - {"nvmlInit"} - BESIDE == set(SILENCED)


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_TIMEOUT, pynvml.NVML_ERROR_NO_PERMISSION]
)
@pytest.mark.parametrize("call", SILENCED)
def test_a_failed_read_drops_its_series_and_is_counted_and_nothing_becomes_0_and_the_rest_is_there(
    make_rig, call, code
):
    rig = node_with_two_gpus(make_rig)
    before = series_by_gpu(rig)
    node_wide = call.startswith("nvmlSystem") or call in ("nvmlDeviceGetCount", "nvmlGetExcludedDeviceCount")
    rig.node.driver.fail(call, code, **({} if node_wide else {"gpu": 1}))
    after = series_by_gpu(rig.turn())
    gone = {(name, gpu) for name, gpu, *_ in before.keys() - after.keys()}
    expected = {(name, "" if name == "gpu_visible" else "1") for name in SILENCED[call]}
    assert gone == expected
    assert after.keys() <= before.keys()
    zeros = {key for key, value in after.items() if value == 0 and before[key] != 0}
    assert not zeros
    counted = rig.values("dutycycle_exporter_read_failures_total", call=call)
    assert counted == ([] if call in ASKED_ONCE else [4 if call == "nvmlDeviceGetClockInfo" else 1])
    rig.node.driver.heal(call, **({} if node_wide else {"gpu": 1}))
    assert series_by_gpu(rig.turn()).keys() == before.keys()


@pytest.mark.parametrize(
    "call", sorted(set(SILENCED) - VERSIONS - {"nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"})
)
def test_what_a_gpu_does_not_support_is_asked_once_and_never_counted_as_a_failure(make_rig, call):
    rig = make_rig(gpus=1, model=RTX_3080_TI)
    rig.node.driver.run("pair", {0: Load(Level(0.5), [GpuProcess(10), GpuProcess(11)])})
    rig.node.driver.fail(call, pynvml.NVML_ERROR_NOT_SUPPORTED)
    rig.turn()
    asked = rig.node.driver.state.calls(call)
    rig.turn(3)
    if call != "nvmlDeviceGetUUID":
        assert rig.node.driver.state.calls(call) == asked
    # A driver that knows nothing of MPS, or of graphics, has all processes in one list.
    others = ("nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
    shown = {"gpu_processes"} if call in others else set()
    for metric in set(SILENCED[call]) - {"gpu_power_watts", "gpu_power_limit_watts"} - shown:
        assert rig.values(metric) == [], metric
    assert rig.values("dutycycle_exporter_read_failures_total") == []


def test_a_mig_mode_that_cannot_be_read_for_once_changes_no_label(make_rig):
    rig = make_rig(gpus=1).turn()
    rig.node.driver.fail("nvmlDeviceGetMigMode", pynvml.NVML_ERROR_TIMEOUT)
    assert rig.turn().value("gpu_info", mig_mode="disabled") == 1


def test_a_gpu_whose_mig_mode_was_changed_is_asked_again_for_all_that_it_did_not_support(make_rig):
    rig = make_rig(gpus=1)
    rig.node.driver.force(0, mig_current=1)
    rig.turn(2)
    assert rig.value("gpu_utilization_ratio") is None
    assert rig.value("gpu_info", mig_mode="enabled") == 1
    rig.node.driver.force(0, mig_current=None)
    rig.turn(2)
    assert rig.value("gpu_utilization_ratio") == 0
    assert rig.value("gpu_info", mig_mode="disabled") == 1


@pytest.mark.parametrize("call", sorted(IDENTITY))
def test_an_identity_that_could_not_be_read_at_first_is_read_later(make_rig, call):
    rig = make_rig(gpus=2)
    expected = {gpu.slot: (gpu.model.name, str(gpu.slot), f"0000{gpu.bus_id}") for gpu in rig.node.driver.gpus}
    rig.node.driver.fail(call, pynvml.NVML_ERROR_TIMEOUT, times=2)
    rig.turn()
    assert rig.values("dutycycle_exporter_read_failures_total", call=call, error="timeout") == [2]
    rig.turn()
    for slot, (model, minor, bus) in expected.items():
        assert rig.value("gpu_info", gpu=str(slot), model=model, minor=minor, pci_bus_id=bus) == 1


def test_while_nvml_does_not_tell_how_many_gpus_there_are_those_that_are_known_are_read(make_rig):
    rig = make_rig(gpus=2).turn(2)
    rig.node.driver.fail("nvmlDeviceGetCount", pynvml.NVML_ERROR_TIMEOUT)
    before = rig.values("gpu_observed_seconds_total")
    rig.turn(2)
    assert rig.value("gpu_visible") is None
    assert rig.values("gpu_observed_seconds_total") == [pytest.approx(seconds + 10) for seconds in before]


def test_while_samples_fail_time_is_not_observed(make_rig):
    rig = make_rig(gpus=1).turn(2)
    before = rig.value("gpu_observed_seconds_total")
    rig.node.driver.fail("nvmlDeviceGetSamples", pynvml.NVML_ERROR_UNKNOWN)
    assert rig.turn(4).value("gpu_observed_seconds_total") == before


def test_a_library_without_the_newer_functions_is_read_by_the_older_ones(make_rig, monkeypatch):
    """Driver 470 has neither memory's second form nor the processes' third."""
    real = pynvml._nvmlGetFunctionPointer

    def older(name):
        if name == "nvmlDeviceGetMemoryInfo_v2" or name.endswith("ComputeRunningProcesses_v3"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return real(name)

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", older)
    rig = make_rig(gpus=1)
    processes = [GpuProcess(10, 2**30), GpuProcess(20, 2**20, MPS)]
    rig.node.driver.run("one", {0: Load(Level(0.5), processes)})
    rig.turn(2)
    assert rig.value("gpu_processes") == 2
    assert rig.value("gpu_memory_used_bytes") >= 2**30
    assert rig.value("gpu_memory_reserved_bytes") is None


@pytest.mark.parametrize(("percent", "shown"), [(0, 0), (37, 0.37), (100, 1), (101, None), (2**32 - 1, None)])
@pytest.mark.parametrize("engine", ["Encoder", "Decoder"])
def test_the_video_engines_are_ratios_and_what_cannot_be_is_not_shown(make_rig, monkeypatch, engine, percent, shown):
    rig = make_rig(gpus=1)
    call = f"nvmlDeviceGet{engine}Utilization"
    monkeypatch.setattr(pynvml, call, lambda handle: [percent, 167_000])
    rig.turn()
    values = {name: rig.value(f"gpu_{name}_utilization_ratio") for name in ("encoder", "decoder")}
    assert values == {"encoder": 0, "decoder": 0, engine.lower(): shown}


def test_a_gpu_that_has_a_fan_shows_it(make_rig):
    assert make_rig(gpus=1, model=RTX_3080_TI).turn().value("gpu_fan_ratio") == 0.3


@pytest.mark.parametrize("value", [101, 10**8])
def test_samples_over_100_are_dropped_and_counted(make_rig, value):
    rig = make_rig(gpus=1).turn()
    rig.node.driver.inject_sample(0, value, at=rig.clock.now + 0.05)
    rig.turn()
    assert rig.value("dutycycle_exporter_samples_dropped_total", reason="out_of_range") == 1
    assert rig.value("gpu_busy_seconds_total") == 0


def test_a_process_whose_utilization_cannot_be_is_unknown_and_counted_and_not_idle(make_rig):
    rig = make_rig(gpus=1, hold=0.0)
    jobs = [rig.node.slurm_job(job, {0: Level(0.5)}) for job in (1, 2)]
    rig.turn(2)
    rig.node.driver.state.publish_device = hostile(rig.node.driver.state.publish_device, jobs[0].pids[0])
    before = rig.values("workload_gpu_busy_seconds_total")
    rig.turn(4)
    assert rig.value("dutycycle_exporter_samples_dropped_total", reason="out_of_range") == 4
    after = rig.values("workload_gpu_busy_seconds_total")
    assert [b - a for a, b in zip(before, after, strict=True)] == [pytest.approx(10), pytest.approx(10)]


def test_of_two_jobs_on_a_gpu_the_one_without_a_process_is_idle(make_rig):
    """NVML is not asked what the only process does: all that the GPU does is its."""
    rig = make_rig(gpus=1, hold=0.0)
    rig.node.slurm_job(1, {0: Level(0.9)})
    first = rig.allocate(0, 1)
    first.rename(first.with_name(f"{first.stem}.1.json"))
    rig.allocate(0, 2)
    before = rig.turn(2).value("workload_gpu_busy_seconds_total", workload="slurm/1")
    after = rig.turn(4).value("workload_gpu_busy_seconds_total", workload="slurm/1")
    assert after - before == pytest.approx(18)
    assert rig.values("gpu_allocation") == [0.5, 0.5]
    assert rig.value("workload_gpu_busy_seconds_total", workload="slurm/2") == 0


def test_what_a_job_does_on_the_gpu_of_another_is_not_that_ones_work(make_rig):
    rig = make_rig(gpus=1, hold=0.0)
    rig.node.slurm_job(1, {0: Level(0.9)})
    rig.allocate(0, 2)
    rig.turn(4)
    assert rig.value("gpu_allocation", workload="slurm/2") == 1
    assert rig.value("workload_gpu_observed_seconds_total", workload="slurm/2") == pytest.approx(20, abs=5)
    assert rig.values("workload_gpu_busy_seconds_total") == [0]


def test_a_job_whose_process_cannot_be_read_is_not_told_to_have_none(make_rig):
    rig = make_rig(gpus=1)
    job = rig.node.slurm_job(7, {0: Level(0.5)})
    rig.allocate(0, 7)
    assert rig.turn().value("workload_gpu_processes") == 1
    rig.node.processes.remove(job.pids[0])
    rig.turn(2)
    assert rig.value("gpu_processes") == rig.value("gpu_allocation") == 1
    assert rig.value("workload_gpu_processes") is None
    assert rig.value("workload_gpu_memory_used_bytes") is None
    assert rig.value("dutycycle_exporter_attribution_failures_total", source="process", reason="gone") == 2


def hostile(publish, pid):
    """The double's NVML says that a process used more than all of the GPU."""

    def publish_more(slot, device):
        for process in device.processes[: device.process_count]:
            if process.pid == pid:
                for sample in process.utilization[: device.gpu.capacity]:
                    sample.sm = 200
        publish(slot, device)

    return publish_more


def test_every_compute_context_counts(make_rig):
    rig = make_rig(gpus=1)
    rig.node.driver.run("many", {0: Load(Level(0.5), [GpuProcess(pid, 2**20) for pid in range(100, 130)])})
    assert rig.turn().value("gpu_processes") == 30


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "driver_not_loaded"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "lib_rm_version_mismatch"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "no_permission"),
    ],
)
def test_nvml_that_cannot_be_initialised_says_why(make_rig, code, reason):
    rig = make_rig(gpus=1)
    rig.node.driver.fail("nvmlInit", code)
    with pytest.raises(NvmlUnavailableError) as caught:
        NvmlReader(interval=5)
    assert caught.value.reason == reason


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH])
def test_nvml_that_is_gone_while_it_is_read_ends_the_reading(make_rig, code):
    rig = make_rig(gpus=2).turn()
    rig.node.driver.fail("nvmlDeviceGetUtilizationRates", code, gpu=1)
    with pytest.raises(NvmlUnavailableError):
        rig.turn()


@pytest.mark.parametrize("step", [-7200, 7200])
def test_what_was_read_last_is_as_old_as_it_is_when_the_clock_is_set(make_rig, step):
    rig = make_rig(gpus=1).turn()
    rig.clock.advance(3)
    rig.step = step
    ages = [rig.value("dutycycle_exporter_collector_age_seconds", collector=name) for name in ("nvml", "attribution")]
    assert ages == [3, 3]


@pytest.mark.parametrize("stamps_too", [True, False], ids=["stamps of the time of day", "stamps of another clock"])
@pytest.mark.parametrize("step", [-3600, -3.03, 3, 3600])
def test_a_clock_that_is_set_costs_nothing(make_rig, step, stamps_too):
    """Of the GPU's time, of what each process did in it, of energy and of who held it."""
    rig = make_rig(gpus=1, hold=0.0)
    rig.allocate(0, 7)
    rig.node.driver.run("pair", {0: Load(Level(0.5), [GpuProcess(10), GpuProcess(11)])})
    names = [f"workload_gpu_{what}_total" for what in ("allocated_seconds", "observed_seconds", "energy_joules")]
    shown = [[rig.value(name) for name in names] for _ in range(7) if rig.turn()]
    rig.step = step
    if stamps_too:
        rig.node.driver.shift_clock(0, step)
    shown += [[rig.value(name) for name in names] for _ in range(6) if rig.turn()]
    joules = shown[6][2] - shown[4][2]
    assert shown[12][0] - shown[6][0] == 30
    assert shown[12][1] - shown[6][1] == pytest.approx(30, abs=0.2)
    assert shown[12][2] - shown[6][2] == pytest.approx(3 * joules)
    assert rig.value("gpu_last_busy_timestamp_seconds") == pytest.approx(rig.clock.now + step, abs=0.5)
    assert rig.values("dutycycle_exporter_samples_dropped_total") == []
    [device] = rig.service.state().view.devices
    assert {process.utilization for process in device.reading.processes} == {0.25}


def test_gpu_without_a_sample_buffer_is_polled_between_turns(make_rack):
    """2 s on, 2 s off: polled each second, half of the time is busy, and all of it but the beginning is measured."""
    rack = make_rack(before=lambda driver: driver.fail("nvmlDeviceGetSamples", pynvml.NVML_ERROR_NOT_SUPPORTED))
    rack.driver.run("train", {0: Load(Steps(4, 0.5))})
    spans = []
    for _ in range(24):
        spans += rack.turn(seconds=1).gpu.spans
        assert rack.reader.poll_interval == 1
        for _ in range(4):
            rack.clock.advance(1)
            rack.driver.step()
            rack.reader.poll(rack.clock.now)
    observed = sum(span.end - span.start for span in spans)
    busy = sum((span.end - span.start) * span.utilization for span in spans)
    assert observed == pytest.approx(115 + 1 / 6)
    assert busy / observed == pytest.approx(0.5, abs=0.05)


def test_gpu_with_a_sample_buffer_is_not_polled(make_rack):
    assert make_rack().turn().reader.poll_interval == math.inf
