"""MIG instances: each a device of its own beside its GPU, with what NVML and GPM tell of it."""

from __future__ import annotations

import ctypes
import re

import pynvml
import pytest

from dutycycle_exporter.collected import DEFAULT
from tests.fakes.nvml import A100, GpuProcess, Level, Load

GIB = 2**30


def partitioned(make_rack, *profiles, **options):
    return make_rack(before=lambda driver: driver.set_mig(0, list(profiles)), **options)


def test_instances_follow_their_gpu_and_are_described(make_rack):
    rack = make_rack(gpus=2)
    uuids = rack.driver.set_mig(0, ["3g.40gb", "1g.10gb"])
    first, *instances, last = rack.turn().snapshot.gpus
    assert (first.mig, last.mig) == ("", "")
    assert [first.uuid, last.uuid] == [gpu.uuid for gpu in rack.driver.gpus]
    assert [instance.mig for instance in instances] == uuids
    for instance in instances:
        assert (instance.uuid, instance.index, instance.model, instance.minor) == (first.uuid, 0, first.model, 0)
        assert (instance.pci_bus_id, instance.mig_mode) == (first.pci_bus_id, "enabled")
        assert instance.utilization is None
    assert [(instance.mig_profile, instance.slices) for instance in instances] == [
        ("3g.40gb", pytest.approx(3 / 7)),
        ("1g.10gb", pytest.approx(1 / 7)),
    ]


def test_an_instance_without_a_name_is_not_shown(make_rack, unname):
    rack = make_rack()
    first, second = rack.driver.set_mig(0, ["3g.40gb", "1g.10gb"])
    unname(first)
    assert [reading.mig for reading in rack.turn(2).snapshot.gpus] == ["", second], "nor a second whole GPU"


def test_memory_and_processes_are_the_instance_s_own(make_rack):
    rack = partitioned(make_rack, "3g.40gb", "1g.10gb")
    rack.driver.run("a", {(0, 0): Load(Level(0.5), [GpuProcess(10, 8 * GIB), GpuProcess(11, 4 * GIB)])})
    rack.driver.run("b", {(0, 1): Load(Level(0.5), [GpuProcess(20, 2 * GIB)])})
    one, two = rack.turn().instances
    assert [(process.pid, process.memory) for process in one.processes] == [(10, 8 * GIB), (11, 4 * GIB)]
    assert [(process.pid, process.utilization) for process in two.processes] == [(20, None)]
    assert one.memory_used == 12 * GIB
    assert two.memory_used == 2 * GIB
    assert one.memory_total > two.memory_total > two.memory_used
    assert rack.gpu.processes is None


def test_the_graphics_activity_is_the_duty_cycle_of_an_instance_and_nothing_is_its_gpu_s(make_rack):
    rack = partitioned(make_rack, "3g.40gb", "1g.10gb")
    rack.driver.run("a", {(0, 0): Load(Level(0.8), activity={"sm": 0.5})})
    rack.turn()
    assert [instance.spans for instance in rack.instances] == [(), ()]
    one, two = rack.turn().instances
    [span] = one.spans
    assert (span.start, span.end) == (one.activity.start, one.activity.end)
    assert span.end - span.start == pytest.approx(5, abs=0.5)
    assert span.utilization == pytest.approx(0.8)
    assert dict(one.activity.units)["sm"] == pytest.approx(0.4)
    assert two.spans[0].utilization == 0
    assert (rack.gpu.spans, rack.gpu.utilization, rack.gpu.memory_activity) == ((), None, None)
    assert (rack.gpu.encoder_utilization, rack.gpu.decoder_utilization) == (None, None)
    assert rack.driver.state.calls("nvmlDeviceGetEncoderUtilization") == 0
    assert rack.gpu.activity is not None
    assert rack.gpu.power is not None


def test_without_gpm_an_instance_has_no_duty_cycle_and_is_not_idle(make_rack):
    rack = partitioned(make_rack, "1g.10gb", model=A100)
    rack.driver.run("a", {(0, 0): Load(Level(0.8))})
    [instance] = rack.turn(3).instances
    assert (instance.spans, instance.activity, instance.utilization) == ((), None, None)


def test_with_gpm_switched_off_instances_have_no_duty_cycle(make_rack):
    rack = partitioned(make_rack, "1g.10gb", collect=DEFAULT - {"gpm"}).turn(3)
    assert rack.instances[0].spans == ()
    assert rack.driver.state.calls("nvmlGpmMigSampleGet") == 0


def test_nothing_is_asked_of_a_partitioned_gpu_that_only_whole_ones_answer(make_rack):
    rack = partitioned(make_rack, "1g.10gb").turn(3)
    called = rack.driver.state.called()
    assert not {"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization"} & set(
        called
    )


def test_instances_appear_and_vanish_and_a_place_that_is_used_again_is_another_instance(make_rack):
    rack = make_rack().turn()
    assert rack.instances == []
    first = rack.driver.set_mig(0, ["1g.10gb", "2g.20gb"])
    rack.turn(2)
    assert [instance.mig for instance in rack.instances] == first
    assert all(instance.spans for instance in rack.instances)
    rack.driver.set_mig(0, [None, "2g.20gb"])
    rack.turn()
    assert [instance.mig for instance in rack.instances] == first[1:]
    assert rack.instances[0].spans, "the one that stays goes on without a gap"
    second = rack.driver.set_mig(0, ["1g.10gb", "2g.20gb"])
    rack.turn()
    assert [instance.mig for instance in rack.instances] == second
    assert [bool(instance.spans) for instance in rack.instances] == [False, True]
    assert rack.snapshot.failures == {}
    assert all(instance.spans for instance in rack.turn().instances)
    rack.driver.set_mig(0, None)
    rack.turn(2)
    assert rack.instances == []
    assert (rack.gpu.mig_mode, rack.gpu.utilization) == ("disabled", 0.0)
    assert rack.gpu.spans


def test_another_profile_in_the_same_place_is_another_instance_though_its_uuid_is_the_same(make_rack, monkeypatch):
    """A UUID is made of the places, and 3g and 4g may have the same."""
    rack = partitioned(make_rack, "3g.40gb").turn(3)
    [before] = rack.instances
    assert (before.mig_profile, bool(before.spans)) == ("3g.40gb", True)
    real = pynvml.nvmlDeviceGetName

    def renamed(handle):
        return real(handle).replace("3g.40gb", "4g.40gb")

    renamed.__name__ = "nvmlDeviceGetName"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", renamed)
    [after] = rack.turn().instances
    assert (after.mig, after.mig_profile, after.slices) == (before.mig, "4g.40gb", pytest.approx(4 / 7))
    assert after.spans == (), "its counters are not compared with the other's"
    assert rack.turn().instances[0].spans
    assert rack.snapshot.failures == {}


def test_a_mode_that_was_changed_is_seen_at_the_second_turn_though_it_is_not_asked_for_at_each(make_rack):
    rack = make_rack().turn(5)
    asked = rack.driver.state.calls("nvmlDeviceGetMigMode")
    assert rack.driver.state.calls("nvmlDeviceGetMigMode") == rack.turn(5).driver.state.calls("nvmlDeviceGetMigMode")
    assert asked == 2, "at first, and once more when it is known what the GPU does not have"
    [uuid] = rack.driver.set_mig(0, ["1g.10gb"])
    rack.turn()
    assert (rack.gpu.utilization, rack.gpu.spans) == (None, ()), "not idle: not known"
    assert [instance.mig for instance in rack.turn().instances] == [uuid]
    rack.turn(2)
    rack.driver.set_mig(0, None)
    rack.turn()
    assert (rack.instances, rack.gpu.utilization) == ([], None)
    assert (rack.turn().gpu.mig_mode, rack.gpu.utilization) == ("disabled", 0.0)


def test_of_two_compute_instances_in_one_gpu_instance_neither_has_a_duty_cycle(make_rack, monkeypatch):
    """GPM counts by GPU instance: whose work it was cannot be told."""
    rack = partitioned(make_rack, "1g.10gb", "1g.10gb", "2g.20gb")
    shared = {}
    real = pynvml.nvmlDeviceGetGpuInstanceId

    def instance_id(handle):
        return shared.setdefault(real(handle), next(iter(shared.values()), None) if len(shared) == 1 else real(handle))

    instance_id.__name__ = "nvmlDeviceGetGpuInstanceId"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetGpuInstanceId", instance_id)
    before = rack.driver.state.calls("nvmlGpmMigSampleGet")
    one, two, alone = rack.turn(2).instances
    assert (one.spans, two.spans) == ((), ())
    assert one.activity is two.activity is not None
    assert alone.spans
    assert rack.driver.state.calls("nvmlGpmMigSampleGet") - before == 2 * 2


def attributes(compute, whole, megabytes):
    return pynvml.c_nvmlDeviceAttributes(
        gpuInstanceSliceCount=whole, computeInstanceSliceCount=compute, memorySizeMB=megabytes
    )


@pytest.mark.parametrize(
    ("name", "of", "profile", "slices"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", None, "1g.10gb+me", 1),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", None, "1c.3g.20gb", 1),
        ("NVIDIA H100 80GB HBM3", attributes(2, 2, 19968), "2g.20gb", 2),
        ("NVIDIA H100 80GB HBM3", attributes(1, 3, 40448), "1c.3g.40gb", 1),
        ("", attributes(7, 7, 81152), "7g.80gb", 7),
    ],
)
def test_a_profile_is_named_as_nvml_names_it_or_after_its_slices_and_memory(
    make_rack, monkeypatch, name, of, profile, slices
):
    rack = partitioned(make_rack, "1g.10gb")
    whole = pynvml.nvmlDeviceGetName

    def names(handle):
        is_gpu = (
            ctypes.cast(handle, ctypes.c_void_p).value
            == ctypes.cast(pynvml.nvmlDeviceGetHandleByIndex(0), ctypes.c_void_p).value
        )
        return whole(handle) if is_gpu else name

    names.__name__ = "nvmlDeviceGetName"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetName", names)
    if of is not None:
        monkeypatch.setattr(pynvml, "nvmlDeviceGetAttributes_v2", lambda handle: of)
    [instance] = rack.turn().instances
    assert (instance.mig_profile, instance.slices) == (profile, pytest.approx(slices / 7))


@pytest.mark.parametrize(
    ("call", "gone"),
    [
        ("nvmlDeviceGetMaxMigDeviceCount", "instances"),
        ("nvmlDeviceGetMigDeviceHandleByIndex", "instances"),
        ("nvmlGpmMigSampleGet", "spans"),
    ],
)
def test_a_call_that_fails_for_once_drops_what_it_gives_and_is_counted_and_the_gpu_stays(make_rack, call, gone):
    rack = make_rack(gpus=2)
    for gpu in range(2):
        rack.driver.set_mig(gpu, ["1g.10gb"])
    rack.turn(2)
    rack.driver.fail(call, pynvml.NVML_ERROR_TIMEOUT, gpu=1)
    rack.turn()
    assert len(rack.gpus) == 2
    assert rack.gpus[1].power is not None
    assert {name for name, _ in rack.snapshot.failures} == {call}
    if gone == "instances":
        assert len(rack.instances) == 1
    else:
        assert [bool(instance.spans) for instance in rack.instances] == [True, False]
    rack.driver.heal(call, gpu=1)
    rack.turn(4)
    assert [bool(instance.spans) for instance in rack.instances] == [True, True]


def test_an_instance_whose_share_of_the_gpu_is_not_known_is_not_told(make_rack, monkeypatch):
    def unknown(handle):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)

    unknown.__name__ = "nvmlDeviceGetAttributes_v2"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetAttributes_v2", unknown)
    monkeypatch.setattr("dutycycle_exporter.nvml.mig._PROFILE", re.compile("never"))
    rack = partitioned(make_rack, "1g.10gb").turn()
    assert rack.instances == []
    assert rack.snapshot.failures == {("nvmlDeviceGetAttributes_v2", "unknown"): 1}


def test_eight_gpus_of_seven_instances(make_rack):
    rack = make_rack(gpus=8)
    for gpu in range(8):
        rack.driver.set_mig(gpu, ["1g.10gb"] * 7)
    rack.turn(2)
    assert len(rack.instances) == 56
    assert len({instance.mig for instance in rack.instances}) == 56
    assert all(instance.spans for instance in rack.instances)
