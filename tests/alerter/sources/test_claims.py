"""GPUs without an owner in the metrics go to the job that surely holds them, for the time in which it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.model import Consumption, Evidence, Gpu, GpuEvidence, Job, JobEvidence
from dutycycle_alerter.rules import Outcome
from dutycycle_alerter.rules.before import before
from dutycycle_alerter.rules.case import Case
from dutycycle_alerter.rules.report import report, windows_of_a_life
from dutycycle_alerter.sources.claims import Claims, Held, Holders, Holding, unclaimed
from tests.alerter.cases import LATER, SETTINGS, START, evidence
from tests.alerter.devices import device

HOUR = 3600.0


def gpu(number: int, node: str = "n1", mig: str = "") -> Gpu:
    return Gpu(node, str(number), f"GPU-{node}-{number}", mig, "H100")


def unowned(where: Gpu, *recent: Consumption, ended: float | None = None) -> JobEvidence:
    job = Job(id=f"gpu/{where.uuid}", gpus=(where,), start=START)
    return evidence([0.5], the_job=job, recent=recent, ended=ended)


def used(seconds: float = HOUR, at: float | None = None) -> Consumption:
    return Consumption("H100", seconds, seconds, seconds / 2, seconds * 300, at)


def node(
    gpus: int = 4, *, others: Sequence[GpuEvidence] = (), jobs: Sequence[JobEvidence] = (), lost: Sequence[int] = ()
) -> Evidence:
    """A node whose GPUs nobody is said to hold."""
    free = [gpu(number) for number in range(gpus) if number not in lost]
    return Evidence(
        unowned=[unowned(one, used()) for one in free],
        gpus=[*(device(one) for one in free), *(replace(device(gpu(n)), visible=False) for n in lost), *others],
        jobs=jobs,
        accounted_until=LATER,
    )


def holding(number: int = 7, start: float = START, **on: Held) -> Holding:
    return Holding(Job(f"slurm/{number}", (), start, scheduler="slurm", job_id=str(number), user="carol"), on)


def claimed(seen: Evidence, *holdings: Holding) -> dict[str, list[str]]:
    found = Claims().made(seen, Holders(holdings, {}, {"n1"}))
    return {item.job.id: [one.index for one in item.job.gpus] for item in found.jobs}


@pytest.mark.parametrize(
    ("seen", "on", "expected"),
    [
        pytest.param(node(), Held(4, 4), ["0", "1", "2", "3"], id="the whole node"),
        pytest.param(node(), Held(2, 4), None, id="a part, of an order that is not known"),
        pytest.param(node(), Held(2, 4, ("1", "3")), ["1", "3"], id="a part, by NVML's index"),
        pytest.param(node(), Held(1, 4, ("4",)), None, id="an index that is not there"),
        pytest.param(node(), Held(4, 0), None, id="a node that cannot be told"),
        pytest.param(node(), Held(4, 8), None, id="half of what Slurm says there is"),
        pytest.param(node(), Held(8, 8), None, id="more than the metrics show"),
        pytest.param(node(lost=[2]), Held(3, 4, ("0", "1", "3")), None, id="a part, and one that was lost"),
        pytest.param(node(lost=[3]), Held(3, 3), ["0", "1", "2"], id="one was taken out"),
        pytest.param(
            node(others=[device(gpu(9, mig="MIG-a"))]), Held(1, 4, ("0",)), None, id="indexes with MIG instances"
        ),
        pytest.param(node(others=[device(gpu(9, mig="MIG-a"))]), Held(4, 4), None, id="all with MIG instances"),
        pytest.param(node(others=[device(gpu(4))]), Held(4, 4), None, id="another GPU is shown"),
        pytest.param(Evidence(), Held(4, 4), None, id="nothing is shown"),
    ],
)
def test_a_job_has_the_gpus_that_are_surely_its(seen: Evidence, on: Held, expected: list[str] | None) -> None:
    assert claimed(seen, holding(n1=on)).get("slurm/7") == expected


def test_what_two_jobs_hold_and_what_the_metrics_tell_is_not_claimed() -> None:
    both = [holding(7, n1=Held(4, 4)), holding(8, n1=Held(2, 4, ("0", "1")))]
    assert claimed(node(), *both) == {}
    told = evidence([0.5], the_job=Job("slurm/7", (gpu(4),), START))
    assert claimed(node(4, jobs=[told]), holding(7, n1=Held(4, 4))) == {"slurm/7": ["4"]}


def test_a_job_of_which_one_node_cannot_be_told_has_nothing() -> None:
    assert claimed(node(), holding(n1=Held(4, 4), n2=Held(4, 4))) == {}


def test_gpus_that_somebody_may_hold_are_listed_and_others_are_free() -> None:
    unclear = Claims().made(node(), Holders([holding(n1=Held(2, 4))], {}, {"n1"}))
    assert unclaimed(unclear) == ("GPUs whose holder neither metrics nor scheduler tell: 4 (n1)",)
    part = Claims().made(node(), Holders([holding(n1=Held(2, 4, ("0", "1")))], {}, {"n1"}))
    assert part.unowned == []
    assert unclaimed(part) == ()
    stranger = Claims().made(node(), Holders())
    assert len(stranger.unowned) == 4
    many = Evidence(unowned=[unowned(gpu(0, f"n{number}")) for number in range(5)])
    assert unclaimed(many)[0].endswith("tell: 5 (n0, n1, n2, ...)")


def test_a_claimed_gpu_is_held() -> None:
    found = Claims().made(node(others=[device(gpu(0, "n2"))]), Holders([holding(n1=Held(4, 4))], {}, {"n1"}))
    assert [item.jobs for item in found.gpus] == [("slurm/7",)] * 4 + [()]
    assert found.gpus[0].window(900).allocated is True


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param(LATER - 60, None, [(60, LATER - 1800)], id="began a minute ago"),
        pytest.param(
            LATER - 5400, None, [(3600, LATER - 1800), (1800, LATER - 5400)], id="began in the hour before the last"
        ),
        pytest.param(LATER + 5, None, [], id="began after what is accounted for"),
        pytest.param(LATER - 5400, LATER - 3000, [(600, LATER - 1800), (1800, LATER - 5400)], id="ended before"),
    ],
)
def test_a_job_is_charged_for_its_own_time(
    start: float, end: float | None, expected: list[tuple[float, float]]
) -> None:
    recent = (used(3600, LATER - 5400), used(3600, LATER - 1800))
    seen = Evidence(unowned=[unowned(gpu(0), *recent)], accounted_until=LATER)
    claims, job = Claims(), holding(start=start, n1=Held(1, 1))
    found = claims.made(seen, Holders([job], {}, {"n1"}))
    if end is not None:
        found = claims.made(seen, Holders([], {"slurm/7": end}, {"n1"}))
    (item,) = found.jobs
    assert [(part.allocated, part.at) for part in item.recent] == expected
    for part in item.recent:
        assert (part.observed, part.busy, part.energy) == (part.allocated, part.allocated / 2, part.allocated * 300)


@given(st.floats(0, 7200), st.floats(0, 7200), st.floats(1, 7200))
def test_one_job_after_another_is_charged_no_second_twice(first: float, second: float, seconds: float) -> None:
    early, late = sorted((LATER - first, LATER - second))
    claims = Claims()
    seen = Evidence(unowned=[unowned(gpu(0), used(seconds))], accounted_until=LATER)
    claims.made(seen, Holders([holding(7, LATER - 7200, n1=Held(1, 1))], {}, {"n1"}))
    found = claims.made(seen, Holders([holding(8, late, n1=Held(1, 1))], {"slurm/7": early}, {"n1"}))
    charged = {item.job.id: sum(part.allocated for part in item.recent) for item in found.jobs}
    assert sum(charged.values()) <= seconds * (1 + 1e-9)
    assert charged["slurm/8"] == pytest.approx(min(seconds, LATER - late), abs=1e-6)


def test_a_job_that_slurm_says_ended_is_shown_as_ended_and_then_forgotten() -> None:
    claims, on = Claims(), {"n1": Held(4, 4)}
    claims.made(node(), Holders([holding(n1=on["n1"])], {}, {"n1"}))
    over = Holders([], {"slurm/7": LATER - 60}, {"n1"})
    (item,) = claims.made(node(), over).jobs
    assert (item.job.id, item.ended, len(item.job.gpus)) == ("slurm/7", LATER - 60, 4)
    later = replace(node(), unowned=[unowned(gpu(n), used(30)) for n in range(4)])
    assert claims.made(later, over).jobs == []


def test_an_end_is_told_once_the_gpus_can_be_seen_again() -> None:
    claims = Claims()
    claims.made(node(), Holders([holding(n1=Held(4, 4))], {}, {"n1"}))
    over = Holders([], {"slurm/7": LATER - 60}, {"n1"})
    assert claims.made(Evidence(), over).jobs == []
    assert [item.ended for item in claims.made(node(), over).jobs] == [LATER - 60]


def test_a_job_of_which_nobody_knew_the_gpus_is_not_shown_as_ended() -> None:
    claims = Claims()
    claims.made(node(), Holders([holding(n1=Held(2, 4))], {}, {"n1"}))
    assert claims.made(node(), Holders([], {"slurm/7": LATER - 60}, {"n1"})).jobs == []


def test_a_requeued_job_is_another_run() -> None:
    claims = Claims()
    claims.made(node(), Holders([holding(n1=Held(4, 4))], {}, {"n1"}))
    (item,) = claims.made(node(), Holders([holding(start=LATER - 60, n1=Held(4, 4))], {}, {"n1"})).jobs
    assert (item.ended, item.watched_from) == (None, LATER - 60)
    assert sum(part.allocated for part in item.recent) == 240


@pytest.mark.parametrize(
    ("lived", "asked", "longest"),
    [(2 * HOUR, 24 * HOUR, 2 * HOUR), (2 * HOUR, None, 2 * HOUR), (3 * HOUR, 2 * HOUR, 2 * HOUR), (-5.0, HOUR, 0.0)],
)
def test_no_window_can_be_asked_for_that_shows_what_others_did_before(
    lived: float, asked: float | None, longest: float
) -> None:
    free = [replace(unowned(gpu(number), used()), longest=asked) for number in range(4)]
    seen = replace(node(), unowned=free)
    (item,) = Claims().made(seen, Holders([holding(start=LATER - lived, n1=Held(4, 4))], {}, {"n1"})).jobs
    assert item.longest == longest


def test_what_others_did_on_a_claimed_gpu_is_not_what_the_job_did_before() -> None:
    """The GPUs worked until the job began; it has never used them."""
    free = [replace(unowned(gpu(number), used()), longest=2 * HOUR) for number in range(4)]
    idle = [replace(item, window=evidence([0.0], by_window={7200: [0.5]}).window) for item in free]
    seen = replace(node(), unowned=idle)
    (item,) = Claims().made(seen, Holders([holding(start=LATER - 6900, n1=Held(4, 4))], {}, {"n1"})).jobs
    assert before(Case(item, SETTINGS), 1800.0) is None


@pytest.mark.parametrize("lived", [600.0, 4500.0])
def test_a_claimed_job_that_ended_is_not_reported_by_what_others_did_before(lived: float) -> None:
    free = [replace(unowned(gpu(number), used()), longest=2 * HOUR) for number in range(4)]
    claims = Claims()
    seen = replace(node(), unowned=free)
    claims.made(seen, Holders([holding(start=LATER - lived - 60, n1=Held(4, 4))], {}, {"n1"}))
    (item,) = claims.made(seen, Holders([], {"slurm/7": LATER - 60}, {"n1"})).jobs
    memory = report(item, SETTINGS)[0]
    assert (memory.rule, memory.outcome) == (
        "memory_underused",
        Outcome.NOT_APPLICABLE if lived < HOUR else Outcome.NOT_EVALUABLE,
    )
    assert windows_of_a_life(item, SETTINGS) <= {1800.0}


def test_a_gpu_that_has_an_owner_again_is_not_claimed() -> None:
    seen = Evidence(unowned=[unowned(gpu(0), ended=LATER)], accounted_until=LATER)
    assert claimed(seen, holding(n1=Held(1, 1))) == {}
