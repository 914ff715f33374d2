"""GPUs that were lost before the exporter began: what is known of them is who holds them."""

from __future__ import annotations

import pytest

from dutycycle_exporter.accounting import Accounts
from dutycycle_exporter.model import Allocation, GpuReading, Ownership, Snapshot
from tests.exporter.accounts import A, B, T

SHOWN, LOST, OLD = "GPU-0", "GPU-1", "GPU-2"


class Node:
    """Accounts that are told which GPUs NVML shows, who holds which, and how many are missing."""

    def __init__(self, hold=0.0):
        self.accounts = Accounts(hold=hold)

    def at(self, t, shown, held, missing):
        gpus = tuple(GpuReading(uuid, int(uuid[-1]), "H100") for uuid in shown)
        ownership = Ownership(tuple(Allocation(device, work, start) for device, work, start in held))
        self.view = self.accounts.update(Snapshot(t, gpus), ownership, missing)
        return {(owned.gpu_uuid, owned.workload.id): owned for owned in self.view.owned}


def test_it_has_the_allocation_of_the_claim_and_nothing_that_was_measured():
    node = Node()
    node.at(T, [SHOWN], [(LOST, A, T - 100)], 1)
    owned = node.at(T + 5, [SHOWN], [(LOST, A, T - 100)], 1)[LOST, A.id]
    assert (owned.index, owned.model, owned.share, owned.start, owned.allocated) == (None, "", 1.0, T - 100, 5)
    assert (owned.observed, owned.busy, owned.energy, owned.processes) == (0, 0, None, None)
    assert [device.reading.uuid for device in node.view.devices] == [SHOWN]
    assert node.view.indexes == {SHOWN: 0}


def test_it_lasts_while_nvml_is_silent_and_when_the_gpu_is_shown():
    node = Node()
    held = [(LOST, A, T)]
    node.at(T, [SHOWN], held, 1)
    assert node.at(T + 5, [], held, None)[LOST, A.id].share == 1
    owned = node.at(T + 10, [SHOWN, LOST], held, 0)[LOST, A.id]
    assert (owned.index, owned.model, owned.share, owned.allocated) == (1, "H100", 1.0, 10)
    assert node.at(T + 15, [SHOWN], held, 0)[LOST, A.id].index == 1


def test_it_ends_with_the_claim_and_leaves_nothing():
    node = Node(hold=10)
    node.at(T, [SHOWN], [(LOST, A, T)], 1)
    assert node.at(T + 20, [SHOWN], [], 1)[LOST, A.id].share is None
    assert node.at(T + 60, [SHOWN], [], 1) == {}
    assert list(node.accounts._devices) == [SHOWN]


@pytest.mark.parametrize("missing", [0, None])
def test_a_claim_on_a_gpu_that_nothing_says_is_missing_is_nobodys(missing):
    node = Node()
    assert node.at(T, [SHOWN], [(OLD, A, T)], missing) == {}
    assert node.at(T + 5, [SHOWN], [(OLD, A, T)], missing) == {}


def test_of_more_claims_than_gpus_are_missing_the_newest_count():
    """The older file is what a GPU left behind that was replaced."""
    node = Node()
    held = [(OLD, A, T - 9000), (LOST, B, T - 100)]
    assert list(node.at(T, [SHOWN], held, 1)) == [(LOST, B.id)]


def test_a_gpu_that_was_lost_since_leaves_its_place_to_no_claim_on_another_one():
    """Whether somebody holds it or not. What was lost before the start still counts beside it."""
    node = Node()
    seen, held = "GPU-3", [(OLD, A, T - 9000), (LOST, B, T - 100)]

    def holding(t, shown, claims, missing):
        return {key for key, owned in node.at(t, shown, claims, missing).items() if owned.share is not None}

    assert holding(T, [SHOWN, seen], held[:1], 0) == set()
    assert holding(T + 5, [SHOWN], held[:1], 1) == set()
    assert holding(T + 10, [SHOWN], [(seen, B, T + 6), *held[:1]], 1) == {(seen, B.id)}
    assert holding(T + 15, [SHOWN, seen], held, 1) == {(LOST, B.id)}
    assert holding(T + 20, [SHOWN], held, 2) == {(LOST, B.id)}
    assert holding(T + 25, [SHOWN], held, 0) == set()


def test_a_gpu_that_was_divided_since_is_not_lost():
    node = Node()
    node.at(T, [SHOWN, OLD], [], 0)
    instance = GpuReading(OLD, 2, "H100", mig="MIG-1", gpu_instance=7)
    ownership = Ownership((Allocation(LOST, A, T),))
    view = node.accounts.update(Snapshot(T + 5, (GpuReading(SHOWN, 0, "H100"), instance)), ownership, 1)
    assert [(owned.gpu_uuid, owned.workload.id) for owned in view.owned] == [(LOST, A.id)]


def test_one_that_turns_out_not_to_be_missing_ends():
    node = Node(hold=10)
    node.at(T, [SHOWN], [(OLD, A, T)], 1)
    assert node.at(T + 20, [SHOWN], [(OLD, A, T)], 0)[OLD, A.id].share is None
    assert node.at(T + 60, [SHOWN], [(OLD, A, T)], 0) == {}


def test_of_instances_nothing_is_known_but_their_names():
    """What part of a GPU one is, NVML alone tells."""
    assert Node().at(T, [SHOWN], [("MIG-1", A, T)], 1) == {}


def test_a_job_on_a_gpu_that_was_lost_before_the_start_is_published_until_its_file_goes(make_rig):
    rig = make_rig(gpus=2, hold=1.0)
    rig.node.driver.lose(1)
    uuid = rig.node.driver.gpus[1].uuid
    file = rig.allocate(1, 7)
    rig.turn(3)
    assert (rig.value("gpu_expected"), rig.value("gpu_visible")) == (2, 1)
    assert rig.value("gpu_allocation", workload="slurm/7", gpu="", gpu_uuid=uuid, model="") == 1
    held = rig.value("workload_gpu_allocated_seconds_total", workload="slurm/7")
    rig.node.driver.restore(1)
    rig.turn(2)
    assert rig.value("gpu_allocation", workload="slurm/7", gpu="1", gpu_uuid=uuid) == 1
    assert rig.value("workload_gpu_allocated_seconds_total", workload="slurm/7") == held + 10
    file.unlink()
    assert rig.turn().value("gpu_allocation", workload="slurm/7") is None
