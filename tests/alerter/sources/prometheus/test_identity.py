"""Who holds which GPU: what is remembered, what has ended, what a requeued job inherits from its earlier run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from dutycycle_alerter.promql.answers import Vector
from dutycycle_alerter.sources.prometheus.identity import Answers, Identity, Known
from dutycycle_alerter.sources.prometheus.selectors import HOLDING, JOB, KEY, OWNER, Query

INTERVAL, DAY = 15.0, 86400.0
AT = 1_700_000_000.0


def holding(node: str = "n1", gpu: int = 0, workload: str = "slurm/1") -> tuple[str, ...]:
    return ("", node, str(gpu), f"GPU-{node}-{gpu}", "", workload, "H200")


@dataclass
class World:
    """What an engine would answer. `silent` nodes are not scraped; `gone` allocations are in the lookback alone."""

    held: list[tuple[str, ...]] = field(default_factory=list)
    gone: list[tuple[str, ...]] = field(default_factory=list)
    missing: list[tuple[str, ...]] = field(default_factory=list)
    nodes: Sequence[str] = ("n1", "n2")
    scrapes: int = 4
    age: float = 5.0
    start: dict[str, float] = field(default_factory=dict)
    first_process: dict[str, float] = field(default_factory=dict)
    watched: dict[float, int] = field(default_factory=dict)

    def answers(self, at: float) -> Answers:
        found = Answers()

        def give(name: str, labels: tuple[str, ...], rows: dict[tuple[str, ...], float], window: float = 0.0) -> None:
            found.fold(Query(name, "", labels, window), Vector(list(rows), np.array(list(rows.values()), dtype=float)))

        give("held", HOLDING, dict.fromkeys(self.held, 1.0))
        give("gone", HOLDING, dict.fromkeys([*self.gone, *self.missing], 1.0))
        give("missing", KEY, {(h[1], h[3], h[4], h[5]): 1.0 for h in self.missing})
        owners = {(h[0], h[5], *[""] * (len(OWNER) - 2)): 1.0 for h in (*self.held, *self.gone, *self.missing)}
        give("owner", OWNER, owners)
        give("start", JOB, {("", job): t for job, t in self.start.items()})
        give("first_process", JOB, {("", job): t for job, t in self.first_process.items()})
        give("seen_at", ("node",), {(node,): at - self.age for node in self.nodes})
        give("answers", ("node",), {(node,): self.scrapes for node in self.nodes})
        give("visible", ("node",), {(node,): 8 for node in self.nodes})
        for window, count in self.watched.items():
            give("watched", JOB, {("", "slurm/1"): count}, window)
        return found


def only(jobs: list[Known]) -> Known:
    (job,) = jobs
    return job


def test_an_allocation_that_is_gone_from_steady_scrapes_has_ended_and_is_told_once() -> None:
    identity, world = Identity(INTERVAL), World(held=[holding()])
    assert only(identity.update(world.answers(AT), AT)).visible
    world = World(gone=[holding()])
    jobs = identity.update(world.answers(AT + 60), AT + 60)
    assert (only(jobs).ended, len(only(jobs).held)) == (AT, 1)
    # A pass that is not committed tells it again.
    assert only(identity.update(world.answers(AT + 60), AT + 60)).ended == AT
    identity.committed(jobs)
    assert identity.update(world.answers(AT + 120), AT + 120) == []
    # It is requeued.
    again = World(held=[holding()]).answers(AT + 180)
    assert only(identity.update(again, AT + 180)).ended is None


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(World(missing=[holding()]), id="absent for less than three scrapes"),
        pytest.param(World(gone=[holding()], nodes=()), id="its exporter is not scraped"),
        pytest.param(World(gone=[holding()], nodes=("n2",)), id="only another node is"),
        pytest.param(World(gone=[holding()], scrapes=2), id="its exporter has just come back"),
        pytest.param(World(gone=[holding()], age=46.0), id="its newest answer is old"),
        pytest.param(World(nodes=()), id="and for longer than the lookback"),
    ],
)
def test_otherwise_it_is_unknown(world: World) -> None:
    identity = Identity(INTERVAL)
    identity.update(World(held=[holding()]).answers(AT), AT)
    job = only(identity.update(world.answers(AT + 60), AT + 60))
    assert (job.ended, job.visible) == (None, False)


def test_a_job_of_which_one_node_is_silent_is_unknown_as_a_whole() -> None:
    identity = Identity(INTERVAL)
    both = [holding("n1"), holding("n2")]
    assert only(identity.update(World(held=both).answers(AT), AT)).visible
    world = World(held=both[:1], gone=both[1:], nodes=("n1",))
    job = only(identity.update(world.answers(AT + 60), AT + 60))
    assert (job.ended, job.visible, len(job.held)) == (None, False, 2)


def test_a_job_that_gave_some_gpus_back_goes_on_with_the_others() -> None:
    identity = Identity(INTERVAL)
    both = [holding(gpu=0), holding(gpu=1)]
    identity.update(World(held=both).answers(AT), AT)
    job = only(identity.update(World(held=both[:1], gone=both[1:]).answers(AT + 60), AT + 60))
    assert (job.ended, job.visible, [held.gpu.index for _, held in job.held]) == (None, True, ["0"])


def test_what_nobody_has_seen_for_a_day_is_let_go() -> None:
    identity = Identity(INTERVAL)
    identity.update(World(held=[holding()]).answers(AT), AT)
    silent = World(nodes=())
    assert len(identity.update(silent.answers(AT + DAY - 1), AT + DAY - 1)) == 1
    assert identity.update(silent.answers(AT + DAY + 1), AT + DAY + 1) == []
    assert (identity.starts, identity.owners, identity.first_seen) == ({}, {}, {})


def test_gpus_are_remembered_for_a_day() -> None:
    identity, silent = Identity(INTERVAL), World(nodes=())
    identity.update(World(held=[holding()]).answers(AT), AT)
    identity.update(silent.answers(AT + 600), AT + 600)
    assert [(gpu.index, seen) for gpu, seen in identity.gpus.values()] == [("0", AT)]
    identity.update(silent.answers(AT + DAY + 1), AT + DAY + 1)
    assert identity.gpus == {}


def test_gpus_are_in_the_order_of_their_numbers() -> None:
    identity = Identity(INTERVAL)
    job = only(identity.update(World(held=[holding(gpu=n) for n in (10, 9, 2)]).answers(AT), AT))
    assert [held.gpu.index for _, held in job.held] == ["2", "9", "10"]


@pytest.mark.parametrize(
    ("watched", "start", "expected"),
    [
        pytest.param({900.0: 1, 1800.0: 1}, AT - 9000, AT - 1800, id="as far back as it was there"),
        pytest.param({900.0: 1}, AT - 9000, AT - 900, id="since the engine has it"),
        pytest.param({}, AT - 9000, AT, id="since now"),
        pytest.param({900.0: 1, 1800.0: 1}, AT - 1200, AT - 900, id="not in an earlier run"),
    ],
)
def test_a_job_is_watched_since_the_engine_has_all_of_it(
    watched: dict[float, int], start: float, expected: float
) -> None:
    world = World(held=[holding()], watched=watched, start={"slurm/1": start})
    assert only(Identity(INTERVAL).update(world.answers(AT), AT)).watched_from == expected


def test_what_was_watched_stays_so() -> None:
    """A scrape that failed just at a window's beginning does not take the window away."""
    identity, world = Identity(INTERVAL), World(held=[holding()], start={"slurm/1": AT})
    identity.update(world.answers(AT), AT)
    assert only(identity.update(world.answers(AT + 3600), AT + 3600)).watched_from == AT


def test_a_requeued_job_has_nothing_of_its_earlier_run() -> None:
    identity = Identity(INTERVAL)
    first = World(held=[holding("n1")], start={"slurm/1": AT - 500}, first_process={"slurm/1": AT - 400})
    identity.update(first.answers(AT), AT)
    second = World(held=[holding("n2")], gone=[holding("n1")], start={"slurm/1": AT + 50})
    job = only(identity.update(second.answers(AT + 60), AT + 60))
    assert [held.gpu.node for _, held in job.held] == ["n2"]
    assert identity.starts == {("", "slurm/1"): AT + 50}
    assert identity.first_processes == {}
