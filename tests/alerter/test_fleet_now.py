"""Numbers of GPUs at one instant: every GPU is counted once, and what is not known is not free."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.fleet_now import AwayNode, FleetAmounts, FleetGpus, FleetPart, fleet_now
from dutycycle_alerter.model import Evidence, Gpu, GpuEvidence, Job
from tests.alerter.cases import evidence
from tests.alerter.devices import device


def gpu(number: int, node: str = "n1", *, held: bool = False, model: str = "H200", mig: str = "") -> GpuEvidence:
    where = Gpu(node, str(number), f"GPU-{number}", mig, model)
    return device(where, jobs=("slurm/1",) if held else ())


def test_gpus_are_counted_by_model_and_by_what_they_are() -> None:
    gpus = [gpu(0, held=True), gpu(1), replace(gpu(2), visible=False), gpu(3, model="A100"), gpu(4, model="A100")]
    assert fleet_now(Evidence(gpus=gpus), cluster_of=lambda _: "north") == [
        FleetAmounts("north", "A100", unallocated=2),
        FleetAmounts("north", "H200", allocated=1, unallocated=1, unknown=1),
    ]


def test_free_gpus_of_nodes_out_of_service_are_not_free() -> None:
    gpus = [
        gpu(0, "draining", held=True),
        gpu(1, "draining"),
        gpu(2, "down"),
        replace(gpu(3, "down"), visible=False),
        replace(gpu(4, "draining"), visible=False),
    ]
    found = fleet_now(Evidence(gpus=gpus), out_of_service={"draining": "drained", "down": "down"})
    assert found == [FleetAmounts("", "H200", allocated=1, drained=1, down=2, unknown=1)]


def test_a_divided_gpu_counts_by_its_instances() -> None:
    gpus = [gpu(0, held=True), *(gpu(0, mig=f"MIG-{n}", held=n == 0) for n in range(4)), gpu(1)]
    assert fleet_now(Evidence(gpus=gpus)) == [FleetAmounts("", "H200", allocated=0.25, unallocated=1.75)]


def test_instances_of_an_earlier_division_do_not_count() -> None:
    before = [replace(gpu(0, mig=f"MIG-{n}"), visible=False) for n in range(7)]
    divided = [gpu(0, held=True), gpu(0, mig="MIG-8", held=True), *before]
    assert fleet_now(Evidence(gpus=divided)) == [FleetAmounts("", "H200", allocated=1)]
    assert fleet_now(Evidence(gpus=[gpu(0, held=True), *before])) == [FleetAmounts("", "H200", allocated=1)]


def test_a_gpu_whose_holder_nobody_tells_is_not_free() -> None:
    unclear = evidence([0.5], the_job=Job("gpu/GPU-1", (gpu(1).gpu,), 0.0))
    found = fleet_now(Evidence(gpus=[gpu(0), gpu(1)], unowned=[unclear]))
    assert found == [FleetAmounts("", "H200", unallocated=1, unknown=1)]


def test_nodes_out_of_service_of_which_nothing_is_known_count_as_the_scheduler_has_them() -> None:
    away = (
        AwayNode(frozenset({"a", "n1"}), "h200", 8, 0, down=True),
        AwayNode(frozenset({"b", "host-b"}), "h200", 6, 2, down=True),
        AwayNode(frozenset({"c"}), "", 4, 0, down=False),
    )
    silent = replace(gpu(0), visible=False)
    parts = [FleetPart("", FleetGpus(0.0, away=away))]
    found = fleet_now(Evidence(gpus=[silent]), out_of_service={"n1": "down"}, parts=parts)
    assert found == [
        FleetAmounts("", "H200", down=1),
        FleetAmounts("", "h200", down=6, unknown=2),
        FleetAmounts("", "", drained=4, waited=None),
    ]


def test_a_model_that_a_label_names_with_dashes_is_the_one_that_exporters_name() -> None:
    part = FleetPart("", FleetGpus(0.0, away=(AwayNode(frozenset({"b"}), "NVIDIA-H100-80GB", 8, 0, down=True),)))
    found = fleet_now(Evidence(gpus=[gpu(0, model="NVIDIA H100 80GB")]), parts=[part])
    assert found[0] == FleetAmounts("", "NVIDIA H100 80GB", unallocated=1, down=8)


def test_the_queue_is_counted_beside_the_gpus() -> None:
    part = FleetPart("north", FleetGpus(at=0.0, total=8, allocated=8, pending=12, held=5))
    assert fleet_now(Evidence(gpus=[gpu(0)]), cluster_of=lambda _: "north", parts=[part]) == [
        FleetAmounts("north", "H200", unallocated=1),
        FleetAmounts("north", "", pending=12, held=5, waited=1),
    ]


def test_each_scheduler_has_a_part_of_its_own() -> None:
    parts = [
        FleetPart("lab", FleetGpus(at=0.0, pending=4)),
        FleetPart("cloud", FleetGpus(at=0.0, pending=2, held=1)),
        FleetPart("silent", None),
    ]
    found = fleet_now(
        Evidence(gpus=[gpu(0, "n1"), gpu(1, "c1", held=True)]),
        cluster_of={"n1": "lab", "c1": "cloud"}.__getitem__,
        parts=parts,
    )
    assert found == [
        FleetAmounts("cloud", "H200", allocated=1),
        FleetAmounts("cloud", "", pending=2, held=1, waited=0),
        FleetAmounts("lab", "H200", unallocated=1),
        FleetAmounts("lab", "", pending=4, waited=1),
    ]


def test_without_gpus_there_is_nothing() -> None:
    assert fleet_now(Evidence()) == []


@given(
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.sampled_from(["up", "drained", "down"]), st.integers(0, 7)),
        max_size=12,
    )
)
def test_every_gpu_is_counted_once(gpus: list[tuple[bool, bool, str, int]]) -> None:
    items = []
    for number, (visible, held, node, instances) in enumerate(gpus):
        items.append(replace(gpu(number, node, held=held), visible=visible))
        items += [gpu(number, node, mig=f"MIG-{n}", held=held and n % 2 == 0) for n in range(instances)]
    found = fleet_now(Evidence(gpus=items), out_of_service={"drained": "drained", "down": "down"})
    counted = sum(one.allocated + one.unallocated + one.drained + one.down + one.unknown for one in found)
    assert abs(counted - len(gpus)) < 1e-9
