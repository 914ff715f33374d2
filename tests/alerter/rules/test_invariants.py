"""What must hold for any evidence at all."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from dutycycle_alerter.model import HostUsage, JobEvidence, JobKind, Usage, WindowEvidence
from dutycycle_alerter.rules import Outcome, judge
from tests.alerter.cases import LATER, SETTINGS, START, evidence, job

ratios = st.floats(0, 1)
maybe = st.none() | ratios


@st.composite
def usages(draw: st.DrawFn) -> tuple[float | None, ...]:
    """Coverage, utilization, gap shares and gauges of one GPU."""
    return (
        draw(ratios),
        draw(ratios),
        draw(maybe),
        draw(maybe),
        draw(st.none() | st.integers(0, 5).map(float)),
    )


@st.composite
def jobs(draw: st.DrawFn) -> JobEvidence:
    members = draw(st.lists(usages(), min_size=1, max_size=6))
    host = HostUsage(*(draw(maybe) for _ in range(4)))
    the_job = job(len(members), kind=draw(st.sampled_from(JobKind)), expect_uneven=draw(st.booleans()))
    at = START + draw(st.floats(0, 30 * 3600))

    def window(length: float) -> WindowEvidence:
        return WindowEvidence(length, tuple(_usage(member, length) for member in members), host)

    return JobEvidence(the_job, at, window, START, draw(st.none() | st.floats(START, START + 3600)))


def _usage(member: tuple[float | None, ...], length: float) -> Usage:
    coverage, utilization, lt2, to30, processes = member
    observed = (coverage or 0.0) * length
    return Usage(
        allocated=length,
        observed=observed,
        busy=(utilization or 0.0) * observed,
        gap_lt2=None if lt2 is None else lt2 * observed,
        gap_2to30=None if to30 is None else to30 * observed,
        gap_30to600=0.0,
        gap_ge600=0.0,
        processes=processes,
    )


def outcomes(item: JobEvidence) -> dict[str, Outcome]:
    return {verdict.rule: verdict.outcome for verdict in judge(item, SETTINGS).verdicts}


@given(jobs())
def test_judging_twice_changes_nothing(item: JobEvidence) -> None:
    first, second = judge(item, SETTINGS), judge(item, SETTINGS)
    assert first.verdicts == second.verdicts


@given(jobs())
def test_a_gpu_that_is_not_measured_opens_nothing(item: JobEvidence) -> None:
    unmeasured = Usage(allocated=1800, observed=0, busy=0)
    blind = replace(item, window=lambda n: replace(item.window(n), gpus=(unmeasured, *item.window(n).gpus[1:])))
    assert Outcome.FIRING not in outcomes(blind).values()


@given(jobs(), st.randoms(use_true_random=False))
def test_the_order_of_gpus_changes_nothing(item: JobEvidence, random: object) -> None:
    order = list(range(len(item.job.gpus)))
    random.shuffle(order)  # type: ignore[attr-defined]

    def window(length: float) -> WindowEvidence:
        straight = item.window(length)
        return replace(straight, gpus=tuple(straight.gpus[i] for i in order))

    shuffled = replace(item, job=replace(item.job, gpus=tuple(item.job.gpus[i] for i in order)), window=window)
    assert outcomes(shuffled) == outcomes(item)
    for verdict, other in zip(judge(item, SETTINGS).verdicts, judge(shuffled, SETTINGS).verdicts, strict=True):
        assert set(verdict.gpus) == set(other.gpus)


@given(jobs(), st.text(), st.text())
def test_names_change_nothing(item: JobEvidence, user: str, account: str) -> None:
    assert outcomes(replace(item, job=replace(item.job, user=user, account=account))) == outcomes(item)


@given(st.lists(ratios, min_size=1, max_size=8), st.data())
def test_more_load_never_makes_a_job_idle(utilizations: list[float], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(utilizations) - 1))
    more = list(utilizations)
    more[place] = data.draw(st.floats(utilizations[place], 1))
    before, after = outcomes(evidence(utilizations))["idle"], outcomes(evidence(more))["idle"]
    assume(before is not Outcome.FIRING)
    assert after is not Outcome.FIRING


@given(jobs())
def test_a_job_fires_only_on_windows_after_its_grace(item: JobEvidence) -> None:
    young = replace(item, at=min(item.at, START + 600 + 899))
    assert Outcome.FIRING not in outcomes(young).values()


@given(st.lists(ratios, min_size=1, max_size=8))
def test_underused_never_fires_beside_another_rule(utilizations: list[float]) -> None:
    found = outcomes(evidence(utilizations, at=LATER))
    if found["underused"] is Outcome.FIRING:
        assert list(found.values()).count(Outcome.FIRING) == 1
