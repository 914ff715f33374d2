"""A job of several pods is judged as one: nothing is lost or counted twice, and unknown stays unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.grouping import added_up, together
from dutycycle_alerter.model import Consumption, HostUsage, Job, JobEvidence, JobKind
from dutycycle_alerter.rules import Outcome, judge
from tests.alerter.cases import LATER, SETTINGS, START
from tests.alerter.kubernetes.podcases import part, pod

TRAIN = Job(id="k8s/ml/pytorchjob/bert/owner-1", gpus=(), start=0.0, scheduler="k8s", user="alice", owner="PyTorchJob")


def of(*utilizations: float | None, kind: JobKind = JobKind.BATCH) -> JobEvidence:
    parts = [part(pod(number), value) for number, value in enumerate(utilizations)]
    return together(replace(TRAIN, kind=kind), parts, SETTINGS)


def outcomes(item: JobEvidence) -> dict[str, Outcome]:
    return {verdict.rule: verdict.outcome for verdict in judge(item, SETTINGS).verdicts}


def test_each_gpu_knows_its_pod_and_pods_are_in_the_order_in_which_people_count() -> None:
    parts = [part(pod(number), 0.9) for number in (10, 2, 0)]
    job = together(TRAIN, parts, SETTINGS).job
    assert [gpu.pod for gpu in job.gpus] == ["bert-worker-0", "bert-worker-2", "bert-worker-10"]
    assert job.gpus[0].label == "bert-worker-0 (node0:0)"
    assert (job.id, job.user, job.owner) == (TRAIN.id, "alice", "PyTorchJob")


def test_one_slow_pod_of_eight_makes_the_job_uneven() -> None:
    found = of(*[0.93] * 5, 0.3, *[0.93] * 2)
    assert outcomes(found)["uneven"] is Outcome.FIRING
    [verdict] = [one for one in judge(found, SETTINGS).verdicts if one.rule == "uneven"]
    assert [gpu.pod for gpu in verdict.gpus] == ["bert-worker-5"]


def test_seven_idle_pods_of_eight_make_the_job_partially_idle() -> None:
    found = judge(of(0.9, *[0.0] * 7), SETTINGS)
    assert found.verdict("partially_idle").outcome is Outcome.FIRING
    assert len(found.verdict("partially_idle").gpus) == 7


def test_a_pod_of_which_nothing_is_known_leaves_the_job_unknown() -> None:
    assert outcomes(of(0.0, 0.0, None))["idle"] is Outcome.UNKNOWN


def test_a_pod_that_is_not_seen_hides_the_job() -> None:
    parts = [part(pod(0), 0.0), replace(part(pod(1), 0.0), visible=False)]
    assert not together(TRAIN, parts, SETTINGS).visible


def test_a_job_lives_as_long_as_one_of_its_pods() -> None:
    over, alive = replace(part(pod(0), 0.9), ended=LATER - 60), part(pod(1), 0.9)
    found = together(TRAIN, [over, alive], SETTINGS)
    assert (found.ended, [gpu.pod for gpu in found.job.gpus]) == (None, ["bert-worker-1"])
    both = together(TRAIN, [over, replace(alive, ended=LATER - 10)], SETTINGS)
    assert (both.ended, len(both.job.gpus)) == (LATER - 10, 2)


def test_what_pods_consumed_is_added_up_and_that_of_those_that_ended_is_in_it() -> None:
    used = Consumption("H200", 60.0, 50.0, 25.0, 9.0, idle=5.0)
    energetic = replace(part(pod(0), 0.5), recent=(used,), ended=LATER)
    found = together(TRAIN, [energetic, part(pod(1), 1.0)], SETTINGS)
    assert found.recent == (Consumption("H200", 120.0, 110.0, 85.0, 9.0, idle=5.0),)


def test_what_pods_consumed_is_of_all_the_time_of_any_of_them() -> None:
    early = Consumption("H200", 60.0, 50.0, 25.0, at=LATER, since=LATER - 90, until=LATER - 30)
    late = Consumption("H200", 60.0, 50.0, 25.0, at=LATER, since=LATER - 60, until=LATER)
    unknown = Consumption("H200", 60.0, 50.0, 25.0, at=LATER)
    (both,), (some,) = added_up([early, late]), added_up([early, unknown])
    assert (both.since, both.until) == (LATER - 90, LATER)
    assert (some.since, some.until) == (None, None)


def test_grace_counts_from_the_youngest_pod_and_the_job_from_its_oldest() -> None:
    """The others may have waited for it."""
    early, late = LATER - 90 * 60, LATER - 20 * 60
    parts = [part(pod(n), 0.0, start=start, first_process=start) for n, start in enumerate((early, late))]
    found = together(TRAIN, parts, SETTINGS)
    assert (found.job.start, found.job.first_process) == (early, late)
    assert outcomes(found)["idle"] is Outcome.WAITING


def test_a_job_whose_pods_come_and_go_is_judged_by_those_that_are_old_enough() -> None:
    young = LATER - 60
    parts = [part(pod(n), value) for n, value in enumerate([0.9, 0.9, 0.9, 0.1])]
    parts.append(part(pod(4), None, start=young, first_process=None))
    found = together(TRAIN, parts, SETTINGS)
    assert len(found.job.gpus) == 4
    assert outcomes(found)["uneven"] is Outcome.FIRING
    assert found.recent[0].allocated == 300.0


def test_old_pods_that_idle_do_not_make_a_job_idle_that_has_just_got_another() -> None:
    old, young = LATER - 90 * 60, LATER - 60
    parts = [part(pod(n), 0.0, start=old, first_process=old) for n in range(4)]
    parts.append(part(pod(4), None, start=young, first_process=None))
    assert outcomes(together(TRAIN, parts, SETTINGS))["idle"] is Outcome.WAITING


def test_pods_that_have_idled_for_very_long_do_not_wait_for_one_that_begins_again_and_again() -> None:
    young = LATER - 60
    parts = [part(pod(n), 0.0) for n in range(7)]
    parts.append(part(pod(7), None, start=young, first_process=None))
    found = together(TRAIN, parts, SETTINGS)
    assert (found.left_out, outcomes(found)["idle"]) == (1, Outcome.FIRING)
    unmeasured = [*parts[:6], part(pod(6), None), parts[7]]
    assert outcomes(together(TRAIN, unmeasured, SETTINGS))["idle"] is not Outcome.FIRING


def test_a_part_of_a_job_that_has_no_other_pod_says_nothing_of_how_even_it_is() -> None:
    young = LATER - 60
    two = [part(pod(0), 0.93), part(pod(1), None, start=young, first_process=None)]
    found = outcomes(together(TRAIN, two, SETTINGS))
    assert (found["uneven"], found["partially_idle"]) == (Outcome.UNKNOWN, Outcome.UNKNOWN)
    assert found["idle"] is Outcome.CLEAR


def test_old_pods_that_idle_are_no_idle_job_while_young_ones_work() -> None:
    """The young ones are replaced before they could be judged."""
    young = LATER - 600
    parts = [part(pod(n), 0.0) for n in range(4)]
    parts += [part(pod(n), 0.95, start=young, first_process=None) for n in (4, 5, 6)]
    found = together(TRAIN, parts, SETTINGS)
    assert (found.others_work, outcomes(found)["idle"]) == (True, Outcome.CLEAR)


def test_pods_that_are_not_shown_yet_count_when_it_is_asked_whether_the_others_are_most_of_the_job() -> None:
    parts = [part(pod(0), 0.0), part(pod(1), 0.0)]
    few = together(TRAIN, parts, SETTINGS, to_come=6)
    assert (few.visible, few.left_out) == (False, 6)
    assert outcomes(few)["idle"] is Outcome.UNKNOWN
    assert together(TRAIN, parts, SETTINGS, to_come=2).visible


def test_noise_on_old_pods_does_not_keep_a_job_from_being_judged_for_ever() -> None:
    young = LATER - 60
    parts = [part(pod(n), 0.01) for n in range(7)]
    parts.append(part(pod(7), None, start=young, first_process=None))
    assert outcomes(together(TRAIN, parts, SETTINGS))["underused"] is Outcome.FIRING


def test_a_hang_does_not_end_because_the_one_that_spun_was_made_anew() -> None:
    young = LATER - 60
    parts = [part(pod(n), 0.0) for n in range(7)]
    parts.append(part(pod(7), None, start=young, first_process=None))
    assert outcomes(together(TRAIN, parts, SETTINGS))["hung"] is Outcome.UNKNOWN


def test_a_hang_needs_every_gpu() -> None:
    young = LATER - 60
    spinning = {"energy": 120.0 * 900, "power_limit": 700.0, "idle_power": 100.0}
    whole = [part(pod(n), 1.0, gpu_fields=spinning) for n in range(4)]
    assert outcomes(together(TRAIN, whole, SETTINGS))["hung"] is Outcome.FIRING
    more = [*whole, part(pod(4), None, start=young, first_process=None)]
    assert outcomes(together(TRAIN, more, SETTINGS))["hung"] is Outcome.UNKNOWN


def test_gpus_of_pods_that_nobody_sees_yet_are_the_jobs() -> None:
    parts = [part(pod(n), value) for n, value in enumerate([0.9, 0.1])]
    found = together(TRAIN, parts, SETTINGS, to_come=1)
    assert (len(found.job.gpus), found.left_out) == (2, 1)
    assert together(TRAIN, parts, SETTINGS).left_out == 0


def test_a_few_old_pods_do_not_speak_for_many_young_ones() -> None:
    young = LATER - 60
    parts = [part(pod(0), 0.9), part(pod(1), 0.05)]
    parts += [part(pod(n), None, start=young, first_process=None) for n in (2, 3, 4)]
    assert set(outcomes(together(TRAIN, parts, SETTINGS)).values()) <= {Outcome.WAITING, Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("cores", "expected"), [((1.5, 2.0), 3.5), ((1.5, None), None), ((None, None), None), ((0.0, 0.0), 0.0)]
)
def test_cpu_use_is_that_of_all_pods_or_not_known(cores: tuple[float | None, ...], expected: float | None) -> None:
    parts = [part(pod(n), 0.5, host=HostUsage(cpu_cores=value)) for n, value in enumerate(cores)]
    assert together(TRAIN, parts, SETTINGS).window(1800.0).host.cpu_cores == expected


def test_pressure_is_that_of_the_pod_where_it_is_highest() -> None:
    hosts = [HostUsage(None, 0.2, None, 0.1), HostUsage(None, 0.9, 0.0, None)]
    parts = [part(pod(n), 0.5, host=host) for n, host in enumerate(hosts)]
    assert together(TRAIN, parts, SETTINGS).window(1800.0).host == HostUsage(None, 0.9, 0.0, 0.1)


@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(0, 1),
            st.booleans(),
            st.floats(START, LATER),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_the_parts_no_gpu_is_there_twice_and_nothing_consumed_is_lost(
    given_parts: list[tuple[float | None, bool, float, bool]],
) -> None:
    parts = [
        replace(part(pod(n), value, start=start, first_process=None), ended=LATER if ended else None, visible=visible)
        for n, (value, ended, start, visible) in enumerate(given_parts)
    ]
    found = together(TRAIN, parts, SETTINGS)
    everything = {gpu for one in parts for gpu in one.job.gpus}
    assert set(found.job.gpus) <= everything
    assert len(set(found.job.gpus)) == len(found.job.gpus) == len(found.window(1800.0).gpus) > 0
    assert sum(used.allocated for used in found.recent) == pytest.approx(60.0 * len(parts))
    assert (found.ended is None) == any(not ended for _, ended, _, _ in given_parts)
    firing = {rule for rule, outcome in outcomes(found).items() if outcome is Outcome.FIRING}
    if "idle" in firing:
        # Every GPU that is judged is idle, and known to be.
        judged = [given_parts[int(gpu.index)][0] for gpu in found.job.gpus]
        assert all(value is not None and value <= 0.005 for value in judged)
