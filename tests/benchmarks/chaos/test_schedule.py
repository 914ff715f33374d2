"""A schedule is the same for the same seed, gives every kind its turn, and leaves calm times."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from benchmarks.chaos.faults import FAULTS
from benchmarks.chaos.faults.processes import UNTIL_A_PASS
from benchmarks.chaos.promises import devices, takeover, telling
from benchmarks.chaos.promises.bounds import LOOK, LOOKS
from benchmarks.chaos.promises.quiet import recovery_at
from benchmarks.chaos.promises.violation import Occasion
from benchmarks.chaos.record import AlerterPage, ExporterPage, Record
from benchmarks.chaos.schedule import Plan, plan

HOUR, CALM, SCALE = 3600.0, 95.0, 60.0
RECEIVERS = {"mail", "slack", "webhook", "alertmanager"}


def told(made: Plan) -> list[tuple[float, float, str, str]]:
    return [(one.at, one.until, one.fault.name, one.fault.what) for one in made.faults]


def test_it_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    assert told(plan(7, HOUR, CALM, SCALE)) == told(plan(7, HOUR, CALM, SCALE))
    assert told(plan(7, HOUR, CALM, SCALE)) != told(plan(8, HOUR, CALM, SCALE))


def test_an_hour_has_every_kind_of_fault() -> None:
    for seed in range(1, 6):
        assert {one.fault.name for one in plan(seed, HOUR, CALM, SCALE).faults} == FAULTS.keys()


def test_faults_overlap_and_never_on_the_same_part() -> None:
    made = plan(1, HOUR, CALM, SCALE)
    together = [(a, b) for a, b in combinations(made.faults, 2) if a.at < b.until and b.at < a.until]
    assert len(together) > 10
    for a, b in together:
        assert not a.fault.touches & b.fault.touches


def test_it_leaves_calm_times_and_the_last_one_is_at_the_end() -> None:
    made = plan(1, HOUR, CALM, SCALE)
    assert max(one.until for one in made.faults) <= HOUR - CALM
    ends, gaps = 0.0, 0
    for one in made.faults:
        gaps += one.at - ends >= CALM
        ends = max(ends, one.until)
    assert gaps > 5


def test_receivers_are_left_alone_until_there_is_something_to_tell() -> None:
    for seed in range(1, 30):
        begun = [one.at for one in plan(seed, HOUR, CALM, SCALE).faults if one.fault.touches & RECEIVERS]
        assert min(begun) >= 40 * 60 / SCALE


def test_a_node_loses_its_next_gpu_when_the_last_one_is_back() -> None:
    kinds = frozenset({"gpu-lost", "gpu-vanished"})
    for node in ("n1", "n2", "n3", "n4"):
        losses = [one for one in plan(1, HOUR, CALM, SCALE, only=kinds).faults if node in one.fault.effects.broken]
        assert len(losses) > 3
        assert all(after.at >= before.until + recovery_at(SCALE) for before, after in pairwise(losses))


def test_one_kind_alone_can_be_had() -> None:
    made = plan(1, 600, CALM, SCALE, only=frozenset({"leader-paused"}))
    assert {one.fault.name for one in made.faults} == {"leader-paused"}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_every_fault_says_what_it_is_and_whom_it_touches(name: str) -> None:
    import random

    fault = FAULTS[name].draw(random.Random(1))
    assert fault.name == name
    assert fault.sentence().endswith(".")
    assert fault.touches
    assert fault.lasts[0] <= fault.lasts[1]


def foreseen(made: Plan, time_scale: float) -> Record:
    """What would be known of it with a look each few seconds and without a message."""
    looks = [LOOK * number for number in range(int(made.length / LOOK))]
    scaled = {
        name: seconds / time_scale for name, seconds in (("interval", 30), ("pass_interval", 120), ("lease", 120))
    }
    nodes = ("n1", "n2", "n3", "n4", "k1")
    well = {"prometheus": 1.0, "slurm": 1.0}
    return Record(
        0.0,
        made.length,
        time_scale,
        **scaled,
        gpus=dict.fromkeys(nodes, 8),
        faults=tuple(one.fault.happened(one.at, one.until, took=True) for one in made.faults),
        exporters=tuple(ExporterPage(node, at, 0.1, 200, success=1.0, kubelet=1.0) for at in looks for node in nodes),
        alerters=tuple(
            AlerterPage(name, at, 0.1, 200, leads=name == "a", sources=well, watch_failures={"kubernetes": 0.0})
            for at in looks
            for name in ("a", "b")
        ),
    )


@pytest.mark.parametrize("time_scale", [40.0, 60.0])
@pytest.mark.parametrize("seed", range(1, 6))
def test_what_has_to_be_told_lasts_until_it_was_looked_at_and_nothing_is_in_the_way(
    seed: int, time_scale: float
) -> None:
    record = foreseen(plan(seed, HOUR, CALM, time_scale), time_scale)
    for fault in record.faults:
        alone = replace(fault, says=frozenset(said for said in fault.says if not said.startswith("receiver:")))
        others = tuple(one if one is not fault else alone for one in record.faults)
        if alone.says:
            faults = tuple(one if one is alone else replace(one, says=frozenset()) for one in others)
            asked = telling.what_is_away_is_told(replace(record, faults=faults))
            looks = [one for one in asked if isinstance(one, Occasion)]
            assert len(looks) >= LOOKS, (fault.name, fault.began, fault.ended)
    lost = sum(len(fault.broken) for fault in record.faults)
    asked = [one for one in devices.device_incidents_are_true(record) if isinstance(one, Occasion)]
    assert len(asked) == lost > 0


LEADERS = frozenset({"leader-killed", "leader-paused"})


def handed_over(made: Plan, time_scale: float) -> list[str]:
    """Of which leaders that went away it was asked whether another took over, if each was found to be `a`, a pass
    that it was stopped in was long in coming, and it took a moment to end each fault.
    """
    record = foreseen(made, time_scale)
    faults = tuple(
        replace(
            one,
            ended=one.ended + 0.2,
            stood=(one.began + (UNTIL_A_PASS if one.name == "leader-paused" else 0.0), one.ended),
            silences=frozenset({"alerter-a"} if one.name in LEADERS else ()),
        )
        for one in record.faults
    )
    asked = takeover.another_takes_over(replace(record, faults=faults))
    return [one.fault for one in asked if isinstance(one, Occasion)]


@pytest.mark.parametrize("time_scale", [40.0, 60.0])
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_leader_is_away_until_it_was_looked_at_whether_another_took_over(seed: int, time_scale: float) -> None:
    for name in LEADERS:
        made = plan(seed, HOUR, CALM, time_scale, only=frozenset({name}))
        assert handed_over(made, time_scale) == [name] * len(made.faults) != []
    assert set(handed_over(plan(seed, HOUR, CALM, time_scale), time_scale)) & LEADERS
