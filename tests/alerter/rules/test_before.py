"""What is taken for a job's own past: nothing that another did, nothing that nobody measured, and no mere moment."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from dutycycle_alerter.model import HostUsage, JobEvidence, Usage, WindowEvidence
from dutycycle_alerter.rules.before import Before, before
from dutycycle_alerter.rules.case import Case
from tests.alerter.cases import SETTINGS, START
from tests.alerter.rules.timeline import NOTHING, WORKS, Does, Life

HALF_HOUR = 1800.0


def past(item: JobEvidence, length: float = HALF_HOUR) -> Before | None:
    return before(Case(item, SETTINGS), length)


def changed(item: JobEvidence, change: Callable[[float, int, Usage], Usage]) -> JobEvidence:
    """The same with each GPU's usage as `change` makes it, which is told the window's length and the place."""

    def window(length: float) -> WindowEvidence:
        found = item.window(length)
        return replace(found, gpus=tuple(change(length, place, usage) for place, usage in enumerate(found.gpus)))

    return replace(item, window=window)


def test_it_is_what_lies_between_the_beginnings_of_two_windows() -> None:
    item = Life([(40, [WORKS]), (45, [NOTHING])]).evidence()
    found = past(item)
    assert found is not None
    assert found.utilization == pytest.approx(0.8 * 40 / 55)
    assert (found.seconds, found.whole) == (pytest.approx(55 * 60), True)


def test_of_a_longer_life_it_is_a_part() -> None:
    found = past(Life([(300, [WORKS]), (45, [NOTHING])]).evidence())
    assert found is not None
    assert (found.seconds, found.whole) == (90 * 60, False)


def test_what_was_before_it_was_watched_is_left_out() -> None:
    """Maintenance, a time in which it was suspended: the job's own source answers for that as well."""
    item = Life([(60, [WORKS]), (70, [NOTHING])]).evidence()
    found = past(replace(item, watched_from=item.at - 65 * 60))
    assert found is not None
    assert (found.utilization, found.seconds, found.whole) == (0.0, 35 * 60, False)


@pytest.mark.parametrize(("watched", "known"), [(130, True), (120, True), (119, False), (31, False)])
def test_a_window_that_cannot_be_cut_is_used_only_if_all_of_it_was_watched(watched: float, known: bool) -> None:
    item = Life([(100, [WORKS]), (60, [NOTHING])]).evidence(longest=7200.0)
    assert (past(replace(item, watched_from=item.at - watched * 60)) is not None) is known


def test_it_may_reach_back_before_the_beginning_from_which_on_the_job_was_watched() -> None:
    """Counters of its own did not grow before that."""
    item = Life([(40, [WORKS]), (45, [NOTHING])]).evidence(longest=7200.0)
    found = past(replace(item, watched_from=START + 600))
    assert found is not None
    assert found.whole
    assert past(replace(item, watched_from=START + 601)) is None


def test_an_earlier_run_of_the_same_job_is_not_its_past() -> None:
    """Requeued 85 min ago: the longest window has what its first run did in the half hour before that."""
    item = Life([(35, [WORKS]), (40, [NOTHING]), (45, [NOTHING])]).evidence(longest=7200.0, start=START + 35 * 60)
    assert past(replace(item, watched_from=START + 35 * 60)) is None


@pytest.mark.parametrize("unanswered", [0, 1])
def test_a_gpu_of_which_the_longer_window_is_not_answered_is_not_one_that_did_nothing(unanswered: int) -> None:
    item = Life([(40, [WORKS]), (45, [NOTHING])], 2).evidence(longest=7200.0)

    def lost(length: float, place: int, usage: Usage) -> Usage:
        return replace(usage, observed=0.0, busy=0.0) if (length, place) == (7200.0, unanswered) else usage

    assert past(changed(item, lost)) is None


@pytest.mark.parametrize(("minutes", "known"), [(8, True), (7.9, False), (0.1, False)])
def test_a_moment_that_was_measured_says_nothing(minutes: float, known: bool) -> None:
    item = Life([(60, [WORKS]), (30, [NOTHING])]).evidence()

    def little(length: float, _place: int, usage: Usage) -> Usage:
        if length <= HALF_HOUR:
            return usage
        return replace(usage, observed=HALF_HOUR + minutes * 60, busy=minutes * 60)

    assert (past(changed(item, little)) is not None) is known


def test_gpus_that_are_shared_count_by_their_share() -> None:
    item = Life([(60, [WORKS]), (30, [NOTHING])]).evidence()

    def half(_length: float, _place: int, usage: Usage) -> Usage:
        return replace(usage, observed=usage.observed / 2, busy=usage.busy / 2, share=0.5)

    found = past(changed(item, half))
    assert found is not None
    assert (found.utilization, found.whole) == (pytest.approx(0.8), True)
    assert found.most == pytest.approx(0.8 * 60 * 60)


def test_nothing_is_before_a_window_that_is_the_longest() -> None:
    item = Life([(200, [Does(0.3)])], 1, HostUsage()).evidence()
    assert past(item, 7200.0) is None
    assert past(replace(item, longest=900.0)) is None
