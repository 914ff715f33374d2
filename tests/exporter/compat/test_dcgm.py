"""`--compat dcgm`: what is published equals our own families but for name, labels and unit."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dutycycle_exporter.compat import dcgm
from dutycycle_exporter.compat.dcgm_fields import FIELDS, LABELS, XID_COUNT, XID_LAST
from dutycycle_exporter.contract import FAMILIES
from dutycycle_exporter.exposition import Page
from dutycycle_exporter.model import Activity, Ownership, Snapshot
from dutycycle_exporter.views import DeviceView, View
from tests.exporter.compat.nodes import BARE, GPU, JOB, OTHER_POD, POD, SHELL, Shown, instance, state_of

MIB = 2**20

# Names, types and values in dcgm-exporter's units, written here a second time.
EXPECTED = {
    "DCGM_FI_DEV_SM_CLOCK": ("gauge", 1975),
    "DCGM_FI_DEV_MEM_CLOCK": ("gauge", 3201),
    "DCGM_FI_DEV_VIDEO_CLOCK": ("gauge", 1545),
    "DCGM_FI_DEV_MEMORY_TEMP": ("gauge", 47),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", 41),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", 431.5),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("gauge", 700),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", 123_456_789),
    "DCGM_FI_DEV_PSTATE": ("gauge", 0),
    "DCGM_FI_DEV_FAN_SPEED": ("gauge", 58),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", 57),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("gauge", 29),
    "DCGM_FI_DEV_ENC_UTIL": ("gauge", 17),
    "DCGM_FI_DEV_DEC_UTIL": ("gauge", 13),
    "DCGM_FI_DEV_FB_TOTAL": ("gauge", 143_771),
    "DCGM_FI_DEV_FB_FREE": ("gauge", 113_160),
    "DCGM_FI_DEV_FB_USED": ("gauge", 30_000),
    "DCGM_FI_DEV_FB_RESERVED": ("gauge", 611),
    "DCGM_FI_DEV_FB_USED_PERCENT": ("gauge", 30_000 / 143_160),
    "DCGM_FI_DEV_POWER_VIOLATION": ("counter", 12_000_000_345),
    "DCGM_FI_DEV_THERMAL_VIOLATION": ("counter", 0),
    "DCGM_FI_DEV_SYNC_BOOST_VIOLATION": ("counter", 1_500_000_000),
    "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION": ("counter", 2_500_000_000),
    "DCGM_FI_DEV_RELIABILITY_VIOLATION": ("counter", 3_500_000_000),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS": ("counter", 12_000_000_345),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS": ("counter", 4_500_000_000),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS": ("counter", 5_500_000_000),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS": ("counter", 6_500_000_000),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("counter", 4),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("counter", 1),
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": ("counter", 40),
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": ("counter", 2),
    "DCGM_FI_DEV_ECC_SBE_VOL_SRM": ("counter", 3),
    "DCGM_FI_DEV_ECC_DBE_VOL_SRM": ("counter", 0),
    "DCGM_FI_DEV_ECC_SBE_AGG_SRM": ("counter", 30),
    "DCGM_FI_DEV_ECC_DBE_AGG_SRM": ("counter", 1),
    "DCGM_FI_DEV_THRESHOLD_SRM": ("gauge", 1),
    "DCGM_FI_DEV_RETIRED_SBE": ("counter", 7),
    "DCGM_FI_DEV_RETIRED_DBE": ("counter", 8),
    "DCGM_FI_DEV_RETIRED_PENDING": ("counter", 1),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("counter", 5),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("counter", 3),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", 0),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": ("gauge", 1),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", 9),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": ("gauge", 300_000),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gauge", 0.91),
    "DCGM_FI_PROF_SM_ACTIVE": ("gauge", 0.62),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("gauge", 0.33),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", 0.24),
    "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE": ("gauge", 0.21),
    "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE": ("gauge", 0.02),
    "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE": ("gauge", 0.01),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", 0.45),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": ("gauge", 0.06),
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": ("gauge", 0.07),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": ("gauge", 0.08),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("gauge", 2_500_000_000),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("gauge", 1_500_000_000),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": ("gauge", 102_400_000_000),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": ("gauge", 204_800_000_000),
    "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL": ("counter", 222_000_000_000),
    "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL": ("counter", 111_000_000_000),
    "DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL": ("counter", 1_000_000_000_000),
    "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL": ("counter", 400_000_000_000),
    "DCGM_FI_PROF_MMA_CYCLES_ACTIVE_TOTAL": ("counter", 100_000_000_000),
}
XIDS = {XID_LAST.name, XID_COUNT.name}

OF_A_WHOLE_GPU = {
    "gpu": "0",
    "UUID": GPU.uuid,
    "pci_bus_id": "00000000:1B:00.0",
    "device": "nvidia0",
    "modelName": "NVIDIA H200",
    "Hostname": "n1",
    "DCGM_FI_DRIVER_VERSION": "575.57.08",
}


@pytest.fixture
def shown(tmp_path):
    """Of (gpus..., **what state_of takes)."""

    def show(*gpus, stale=False, **options):
        return Shown(state_of(tmp_path, *gpus, **options), stale=stale)

    return show


def test_a_gpu_has_every_family_once_with_its_type_and_value_in_dcgms_unit(shown):
    found = shown(GPU)
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", found.text, flags=re.M))
    assert types == {name: kind for name, (kind, _) in EXPECTED.items()}
    values = {}
    for line in found.text.splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            assert name not in values
            values[name] = float(rest.rpartition(" ")[2])
    assert values == {name: pytest.approx(value, rel=1e-12) for name, (_, value) in EXPECTED.items()}


def test_the_table_has_exactly_these_families():
    assert [field.name for field in FIELDS if field.name not in XIDS] == list(EXPECTED)
    assert {field.name for field in FIELDS} == {*EXPECTED, *XIDS}


ONE_TO_ONE = [
    (field, matched) for field in FIELDS if (matched := re.fullmatch(r'(\w+)(?:\{(\w+)="(\w+)"\})?', field.own))
]


@pytest.mark.parametrize(
    ("field", "own"), [pytest.param(f, m, id=f.name) for f, m in ONE_TO_ONE if f.value is not None]
)
def test_it_is_our_own_family_of_the_same_page_times_the_units_factor(field, own, shown):
    found = shown(GPU)
    label = {own[2]: own[3]} if own[2] else {}
    expected = found.own(own[1], gpu="0", **label) * field.times
    assert found.value(field.name) == pytest.approx(expected, abs=0.5 if field.whole else 0)


def test_what_is_made_of_several_of_our_families_is_what_it_says(shown):
    found = shown(GPU)
    total, used, reserved = (found.own(f"gpu_memory_{part}_bytes") for part in ("total", "used", "reserved"))
    links = [found.own("gpu_nvlink_bytes_per_second", direction=direction) for direction in ("rx", "tx")]
    assert found.value("DCGM_FI_DEV_FB_FREE") == pytest.approx((total - used - reserved) / MIB)
    assert found.value("DCGM_FI_DEV_FB_USED_PERCENT") == pytest.approx(used / (total - reserved))
    assert found.value("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL") == pytest.approx(sum(links) / 1024 / 1000)
    rest = {field.name for field in FIELDS} - {field.name for field, _ in ONE_TO_ONE}
    assert rest == {
        *("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED_PERCENT"),
        *("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_XID_ERRORS"),
    }


def test_every_family_of_ours_that_is_named_exists_with_the_label_that_is_named():
    for field in FIELDS:
        for name in re.findall(r"\b(?:gpu|workload)_\w+", field.own):
            assert name in FAMILIES
    for _, matched in ONE_TO_ONE:
        assert not matched[2] or matched[2] in FAMILIES[matched[1]].labels


def test_the_fields_are_in_the_order_of_the_page_and_have_a_help_text(shown):
    found = shown(GPU, xids=[(GPU.uuid, 79, 0.0)])
    names = [field.name for field in FIELDS]
    assert re.findall(r"^# HELP (\S+) ", found.text, flags=re.M) == names
    helps = {name: family.documentation for name, family in found.families.items()}
    assert helps["DCGM_FI_DEV_GPU_UTIL"] == "gpu_utilization_ratio * 100, in %."
    assert helps["DCGM_FI_DEV_SM_CLOCK"] == 'gpu_clock_hertz{domain="sm"} / 1000000, in MHz.'
    assert helps["DCGM_FI_DEV_GPU_TEMP"] == 'gpu_temperature_celsius{sensor="gpu"}, in C.'
    assert all(helps.values())


def test_a_gpu_of_nobody_has_a_whole_gpus_labels(shown):
    found = shown(GPU)
    for name in EXPECTED:
        (sample,) = found.samples(name)
        assert sample.labels == OF_A_WHOLE_GPU


def test_whole_numbers_are_written_as_such_as_dcgm_does(shown):
    assert "} 57\n" in shown(replace(GPU, utilization=0.57)).text


@pytest.mark.parametrize(
    ("workload", "labels"),
    [
        (POD, {"namespace": "vision", "pod": "train-0"}),
        (JOB, {"hpc_job": "4711"}),
        (SHELL, {}),
    ],
    ids=["pod", "job", "shell"],
)
def test_a_gpus_series_carry_whose_it_is(workload, labels, shown):
    found = shown(GPU, held=[(GPU, workload)], xids=[(GPU.uuid, 31, 0.0)])
    for name in EXPECTED:
        (sample,) = found.samples(name)
        assert sample.labels == OF_A_WHOLE_GPU | labels
    (xid,) = found.samples("DCGM_FI_DEV_XID_ERRORS")
    assert xid.labels == OF_A_WHOLE_GPU | labels | {"err_code": "31"}


@pytest.mark.parametrize(
    ("holders", "expected"),
    [
        ((POD, OTHER_POD), ["infer-1", "train-0"]),
        ((POD, SHELL), ["train-0"]),
        ((SHELL, SHELL), [None]),
        # One that is replaced by another of the same name.
        ((POD, replace(POD, id="k8s/vision/train-0/new")), ["train-0"]),
    ],
    ids=["two pods", "a pod and a shell", "shells", "the same name twice"],
)
def test_a_shared_gpu_has_its_series_once_for_each_pod_that_holds_it_and_none_twice(holders, expected, shown):
    found = shown(GPU, held=[(GPU, holder) for holder in holders])
    for name in EXPECTED:
        samples = found.samples(name)
        assert sorted((sample.labels.get("pod") for sample in samples), key=str) == expected
        assert len({sample.value for sample in samples}) == 1


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([(GPU, POD, ("main",))], {("train-0", "main")}),
        ([(GPU, POD, ("main", "side"))], {("train-0", "main"), ("train-0", "side")}),
        ([(GPU, POD, ("main",)), (GPU, OTHER_POD, ())], {("train-0", "main"), ("infer-1", None)}),
        ([(GPU, POD, ("main",)), (GPU, replace(POD, id="k8s/vision/train-0/new"), ("main",))], {("train-0", "main")}),
        ([(GPU, JOB, ())], {(None, None)}),
    ],
    ids=["one", "two of a pod", "one that nobody tells", "two pods of a name", "a job"],
)
def test_a_gpu_is_shown_once_for_each_container_that_holds_it(held, expected, shown):
    found = shown(GPU, held=held, xids=[(GPU.uuid, 31, 0.0)])
    for name in (*EXPECTED, *XIDS):
        samples = found.samples(name)
        assert {(sample.labels.get("pod"), sample.labels.get("container")) for sample in samples} == expected
        assert len(samples) == len(expected)


def test_our_own_series_are_one_for_a_pod_whatever_its_containers(shown):
    found = shown(GPU, held=[(GPU, POD, ("main", "side"))])
    assert found.own("gpu_allocation", pod="train-0") == 1


def test_a_workload_that_has_ended_is_named_no_more_while_its_own_series_are_held(tmp_path):
    state = state_of(tmp_path, GPU, held=[(GPU, POD)])
    ended = [replace(owned, share=None, start=None) for owned in state.view.owned]
    found = Shown(replace(state, view=replace(state.view, owned=tuple(ended))))
    (sample,) = found.samples("DCGM_FI_DEV_GPU_UTIL")
    assert sample.labels == OF_A_WHOLE_GPU


def test_what_is_not_known_is_absent(shown):
    found = shown(GPU, BARE)
    for name in EXPECTED:
        assert [sample.labels["gpu"] for sample in found.samples(name)] == ["0"]
    assert shown(BARE).text == ""


@pytest.mark.parametrize(
    ("gpu", "free", "share"),
    [
        (replace(GPU, memory_reserved=None), 113_771, 30_000 / 143_771),
        (replace(GPU, memory_used=None), None, None),
        (replace(GPU, memory_total=None), None, None),
        (replace(GPU, memory_used=GPU.memory_total), 0, 143_771 / 143_160),
        (replace(GPU, memory_total=0.0, memory_used=0.0, memory_reserved=0.0), 0, None),
    ],
    ids=["reserved is part of used", "used is unknown", "total is unknown", "full", "without memory"],
)
def test_free_memory_is_neither_used_nor_reserved(gpu, free, share, shown):
    found = shown(gpu)
    assert found.value("DCGM_FI_DEV_FB_FREE") == free
    assert found.value("DCGM_FI_DEV_FB_USED_PERCENT") == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize("nvlink", [(), (("rx", 1e9),), (("tx", 1e9),)])
def test_nvlinks_bandwidth_is_unknown_while_a_direction_is(nvlink, shown):
    gpu = replace(GPU, activity=Activity(0.0, 5.0, nvlink=nvlink))
    assert shown(gpu).value("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL") is None


def test_zero_is_a_value(shown):
    idle = replace(GPU, utilization=0.0, memory_used=0.0)
    assert [shown(idle).value(f"DCGM_FI_DEV_{name}") for name in ("GPU_UTIL", "FB_USED")] == [0, 0]


SLICED = replace(GPU, mig_mode="enabled", utilization=None, memory_activity=None, activity=None, cycles=())
ACTIVE = Activity(0.0, 5.0, units=(("graphics", 0.5),))


def test_a_mig_instance_has_what_is_measured_of_it_and_the_gpu_the_rest(shown):
    first, second = instance(1, activity=ACTIVE), instance(2, profile="4g.71gb")
    found = shown(SLICED, first, second, held=[(first, POD)])
    used = found.samples("DCGM_FI_DEV_FB_USED")
    assert [sample.labels for sample in used] == [
        OF_A_WHOLE_GPU | {"GPU_I_PROFILE": "3g.71gb", "GPU_I_ID": "1", "namespace": "vision", "pod": "train-0"},
        OF_A_WHOLE_GPU | {"GPU_I_PROFILE": "4g.71gb", "GPU_I_ID": "2"},
    ]
    (engine,) = found.samples("DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    assert (engine.labels["GPU_I_ID"], engine.value) == ("1", 0.5)
    for name in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"):
        (sample,) = found.samples(name)
        assert sample.labels == OF_A_WHOLE_GPU


def test_utilization_that_nvml_does_not_have_is_absent_and_not_zero(shown):
    found = shown(SLICED, instance(1))
    assert found.samples("DCGM_FI_DEV_GPU_UTIL") == found.samples("DCGM_FI_DEV_MEM_COPY_UTIL") == []


def test_memory_of_a_gpu_without_instances_yet_is_its_own(shown):
    assert shown(SLICED).value("DCGM_FI_DEV_FB_USED") == 30_000


def test_compute_instances_of_a_gpu_instance_are_one_there_and_share_what_they_have(shown):
    parts = [instance(1, place=place, profile="1c.3g.71gb") for place in (0, 1)]
    parts[0] = replace(parts[0], memory_used=None)
    found = shown(SLICED, *parts, held=[(parts[0], POD), (parts[1], OTHER_POD)])
    used = found.samples("DCGM_FI_DEV_FB_USED")
    assert [(s.labels["GPU_I_PROFILE"], s.labels["GPU_I_ID"], s.labels["pod"], s.value) for s in used] == [
        ("3g.71gb", "1", "train-0", 1000),
        ("3g.71gb", "1", "infer-1", 1000),
    ]


def test_an_instance_that_does_not_say_which_it_is_leaves_the_gpu_to_be_shown(shown):
    found = shown(SLICED, instance(None, profile=""))
    assert [sample.labels for sample in found.samples("DCGM_FI_DEV_FB_USED")] == [OF_A_WHOLE_GPU]


def test_instances_are_shown_also_where_the_gpu_itself_could_not_be_read(shown):
    found = shown(instance(1))
    assert [sample.labels["GPU_I_ID"] for sample in found.samples("DCGM_FI_DEV_FB_USED")] == ["1"]


def test_the_newest_xid_is_the_value_and_all_are_counted(shown):
    found = shown(GPU, xids=[(GPU.uuid, 13, 0.0), (GPU.uuid, 79, 2.0), (GPU.uuid, 13, 1.0)])
    (last,) = found.samples("DCGM_FI_DEV_XID_ERRORS")
    assert (last.value, last.labels) == (79, OF_A_WHOLE_GPU | {"err_code": "79"})
    counts = {sample.labels["xid"]: sample.value for sample in found.samples("DCGM_EXP_XID_ERRORS_TOTAL")}
    assert counts == {"13": 2, "79": 1}
    assert counts["13"] == found.own("gpu_xid_errors_total", xid="13")


def test_without_an_xid_there_is_no_series(shown):
    assert shown(GPU).samples("DCGM_FI_DEV_XID_ERRORS") == []


def test_the_xid_of_a_gpu_that_fell_off_the_bus_is_shown_under_its_uuid(shown):
    found = shown(BARE, xids=[("GPU-gone", 79, 0.0)])
    (last,) = found.samples("DCGM_FI_DEV_XID_ERRORS")
    assert (last.value, last.labels) == (79, {"UUID": "GPU-gone", "Hostname": "n1", "err_code": "79"})


def test_of_a_stale_view_only_xids_are_shown(shown):
    found = shown(GPU, stale=True, xids=[(GPU.uuid, 79, 0.0)])
    assert found.families.keys() == XIDS


def test_labels_are_those_that_the_families_declare(shown):
    mig = instance(1)
    found = shown(SLICED, mig, replace(GPU, uuid="GPU-1", index=1), held=[(mig, POD), (GPU, JOB)])
    for family in found.families.values():
        for sample in family.samples:
            assert sample.labels.keys() <= set(LABELS)
            assert all(sample.labels.values())


def test_an_unknown_driver_and_bus_are_left_out(shown):
    labels = shown(replace(GPU, pci_bus_id=""), driver="").samples("DCGM_FI_DEV_GPU_TEMP")[0].labels
    assert labels.keys().isdisjoint({"pci_bus_id", "DCGM_FI_DRIVER_VERSION"})


def test_hostile_names_stay_values_of_their_labels(shown):
    model, pod = 'A"} 1\n# TYPE x y', "p\\\n"
    found = shown(replace(GPU, model=model), held=[(GPU, replace(POD, pod=pod))])
    assert {(s.labels["modelName"], s.labels["pod"]) for s in found.samples("DCGM_FI_DEV_GPU_TEMP")} == {(model, pod)}


@given(value=st.floats(), memory=st.floats())
@example(value=1e308, memory=1e308)
def test_no_number_breaks_a_page_and_what_is_not_finite_is_not_shown(value, memory):
    gpu = replace(
        GPU,
        utilization=value,
        energy=value,
        memory_used=memory,
        memory_total=value,
        activity=Activity(0.0, 1.0, nvlink=(("rx", value), ("tx", memory))),
    )
    device = DeviceView(gpu, busy=None, observed=None, last_busy=None, power=value)
    page = Page(dcgm.HEADS)
    dcgm.add(page, View(Snapshot(0.0, (gpu,)), Ownership(), (device,), ()), node="n1", stale=False)
    for line in page.text().splitlines():
        assert line.startswith("#") or math.isfinite(float(line.rpartition(" ")[2]))
