"""Histograms of users: who is in which bin, and who in none."""

from __future__ import annotations

import pytest

from dutycycle_alerter.usage import (
    UserUsage,
    hours_histogram,
    hours_under,
    median_percent,
    users_histogram,
    users_under,
    users_unmeasured,
)


def user(mean: float | None, *, name: str = "ada", observed: float = 100.0) -> UserUsage:
    """Somebody with a mean utilization in percent, None where nothing was measured."""
    measured = 0.0 if mean is None else observed
    return UserUsage(name, allocated=observed, observed=measured, busy=(mean or 0.0) / 100 * measured)


@pytest.mark.parametrize(
    ("mean", "place"),
    [(0.0, 0), (4.9999, 0), (5.0, 1), (15.0, 3), (14.9999, 2), (29.0, 5), (94.9999, 18), (95.0, 19), (100.0, 19)],
)
def test_a_mean_is_in_the_bin_that_begins_at_or_under_it(mean: float, place: int) -> None:
    assert users_histogram([user(mean)]) == [int(i == place) for i in range(20)]


def test_an_edge_that_is_missed_by_rounding_counts_as_the_edge() -> None:
    nearly_five = UserUsage("ada", allocated=3.0, observed=3.0, busy=0.1 + 0.05 - 1e-12)
    assert users_histogram([nearly_five])[1] == 1


@pytest.mark.parametrize("nobody", [user(None), user(3.0, name="")], ids=["unmeasured", "unknown"])
def test_who_was_not_measured_or_is_not_known_is_in_nothing(nobody: UserUsage) -> None:
    """Unmeasured is not idle, and GPU-hours of nobody known are not one more user."""
    people = [user(10.0), user(40.0), user(90.0), nobody]
    assert sum(users_histogram(people)) == 3
    assert sum(hours_histogram(people)) == 300
    assert users_under(people) == 1
    assert median_percent(people) == pytest.approx(40.0)
    assert median_percent([nobody]) is None


def test_weights_are_measured_seconds() -> None:
    people = [user(12.0, observed=10.0), user(13.0, observed=30.0), user(99.0, observed=5.0)]
    hours = hours_histogram(people)
    assert (hours[2], hours[19], sum(hours)) == (40.0, 5.0, 45.0)


def test_exactly_fifteen_percent_is_not_low() -> None:
    people = [user(15.0, observed=7.0), user(14.999, observed=11.0)]
    assert (users_under(people), hours_under(people)) == (1, 11.0)


def test_the_hours_under_a_bound_are_those_of_known_users() -> None:
    people = [user(3.0), user(60.0), user(3.0, name=""), user(None), user(None), user(None, name="")]
    assert (users_under(people), hours_under(people)) == (1, 100.0)
    assert users_unmeasured(people) == 2
