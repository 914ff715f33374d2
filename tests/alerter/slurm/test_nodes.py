"""Nodes in the shapes of all releases."""

import pytest

from dutycycle_alerter.slurm.fields import Fields, Nonsense
from dutycycle_alerter.slurm.model import SlurmNode
from dutycycle_alerter.slurm.nodes import read_node
from tests.alerter.slurm.shapes import SHAPES, node


def read(document: object) -> tuple[SlurmNode, Nonsense]:
    nonsense = Nonsense()
    found = read_node(Fields(document, nonsense, "nodes"))
    assert found is not None
    return found, nonsense


@pytest.mark.parametrize("shape", SHAPES)
def test_a_node_in_use(shape: str) -> None:
    found, nonsense = read(node(shape, "MIXED"))
    assert found == SlurmNode(
        name="gpu02",
        states=frozenset({"MIXED"}),
        hostname="rack1-2",
        address="10.0.0.2",
        gpus=8,
        gpu_types={"h200": 8},
        gpus_allocated=4,
        partitions=("gpu",),
    )
    assert not nonsense


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("states", "down", "draining", "maintenance"),
    [
        (["IDLE"], False, False, False),
        (["IDLE", "DRAIN"], False, True, False),
        (["MIXED", "DRAIN"], False, True, False),
        (["DOWN"], True, False, False),
        (["DOWN", "DRAIN", "NOT_RESPONDING"], True, True, False),
        (["IDLE", "NOT_RESPONDING"], True, False, False),
        (["IDLE", "POWERED_DOWN"], True, False, False),
        (["UNKNOWN", "INVALID_REG"], True, False, False),
        (["IDLE", "MAINTENANCE", "RESERVED"], False, False, True),
        (["IDLE", "RESERVED"], False, False, False),
        (["ALLOCATED", "COMPLETING"], False, False, False),
    ],
)
def test_what_the_states_mean(shape: str, states: list[str], down: bool, draining: bool, maintenance: bool) -> None:
    found, _ = read(node(shape, *states))
    assert found.states == set(states)
    assert (found.down, found.draining, found.maintenance) == (down, draining, maintenance)


@pytest.mark.parametrize(
    ("gres", "used", "gpus", "types", "allocated"),
    [
        ("", "", 0, {}, None),
        ("(null)", "N/A", 0, {}, 0),
        ("gpu:8", "gpu:(null):3(IDX:0-2)", 8, {"": 8}, 3),
        (
            "gpu:h200:4(S:0),gpu:a100:2(S:1),shard:12",
            "gpu:h200:1(IDX:0),gpu:a100:2(IDX:4-5)",
            6,
            {"h200": 4, "a100": 2},
            3,
        ),
        ("gpu:h200:8", "gpu:h200:0(IDX:N/A)", 8, {"h200": 8}, 0),
        (
            "gpu:tesla:2,gpu:kepler:2,mps:400,bandwidth:lustre:no_consume:4G",
            "gpu:tesla:1(IDX:0),bandwidth:lustre:no_consume:1G",
            4,
            {"tesla": 2, "kepler": 2},
            1,
        ),
    ],
)
def test_configured_and_allocated_gpus(
    gres: str, used: str, gpus: int, types: dict[str, int], allocated: int | None
) -> None:
    found, nonsense = read(node("24.11", "IDLE", gres=gres, gres_used=used))
    assert (found.gpus, found.gpu_types, found.gpus_allocated) == (gpus, types, allocated)
    assert not nonsense


def test_what_is_not_understood_is_not_known() -> None:
    found, nonsense = read(node("24.11", "IDLE", gres="gpu:[", gres_used=5, hostname=None, state=7, reason=[]))
    assert found == SlurmNode("gpu02", address="10.0.0.2", partitions=("gpu",))
    assert nonsense == {"nodes.gres": 1, "nodes.gres_used": 1, "nodes.state": 1, "nodes.reason": 1}


@pytest.mark.parametrize("document", [{}, {"name": ""}, {"name": 5}, [], None])
def test_a_node_without_a_name_is_none(document: object) -> None:
    nonsense = Nonsense()
    assert read_node(Fields(document, nonsense, "nodes")) is None
    assert nonsense
