"""What is added to an incident is what its job consumed while it was open, whenever a source tells it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.headline import duration
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.model import Consumption
from dutycycle_alerter.rules import judge
from tests.alerter.cases import LATER, SETTINGS, START, evidence
from tests.alerter.incidents.folding import IDLE, MINUTE, opened, step
from tests.alerter.rules.test_rules import NO_GAPS
from tests.alerter.rules.timeline import Does, Life

HOUR = 3600.0
HEALTHY = evidence([0.95, 0.95], gpu_fields=NO_GAPS)


def used(since: float | None, until: float | None) -> Consumption:
    """A minute of a GPU that did nothing."""
    return Consumption("H200", 60.0, 60.0, 0.0, 120.0, since=since, until=until, by_gpu={"node0/GPU-0/": 60.0})


@pytest.mark.parametrize(
    ("since", "until", "added"),
    [
        (None, None, 1.0),
        (LATER, LATER + 60, 1.0),
        (LATER - 30, LATER + 30, 0.5),
        (LATER - 45, LATER + 15, 0.25),
        # After an outage a source catches up what was hours ago.
        (LATER - 10 * HOUR, LATER - 9 * HOUR, 0.0),
        (LATER - HOUR, LATER, 0.0),
        (LATER + 5, LATER + 5, 1.0),
    ],
)
def test_what_was_consumed_before_the_opening_is_no_part_of_it(
    since: float | None, until: float | None, added: float
) -> None:
    incident = opened()
    item = replace(IDLE, recent=(used(since, until),))
    after = step(incident, item, LATER + MINUTE).incident
    assert after is not None
    assert after.wasted - incident.wasted == pytest.approx(60 * added)
    assert after.energy - incident.energy == pytest.approx(120 * added)


def test_nor_is_what_was_consumed_before_it_opened_again() -> None:
    cleared = step(opened(), HEALTHY, LATER + 10 * MINUTE).incident
    again = step(cleared, IDLE, LATER + 60 * MINUTE).incident
    assert again is not None
    between = (used(LATER + 20 * MINUTE, LATER + 50 * MINUTE), used(LATER + 60 * MINUTE - 30, LATER + 60 * MINUTE + 30))
    after = step(again, replace(IDLE, recent=between), LATER + 61 * MINUTE).incident
    assert after is not None
    assert after.wasted - again.wasted == pytest.approx(30)
    # Passes go on, and a source that tells a little late loses nothing by that.
    late = (used(LATER + 60 * MINUTE + 30, LATER + 61 * MINUTE + 30),)
    later = step(after, replace(IDLE, recent=late), LATER + 62 * MINUTE).incident
    assert later is not None
    assert later.wasted - after.wasted == pytest.approx(60)


STEP = 5 * MINUTE


def passes(pieces: Sequence[Sequence[float]]) -> Iterator[tuple[float, Incident | None]]:
    """Judge a job every five minutes; each piece has the utilization of each GPU in five minutes."""
    incident: Incident | None = None
    for count in range(1, len(pieces) + 1):
        life = Life([(5, [Does(busy, gap_ge600=None) for busy in piece]) for piece in pieces[:count]], len(pieces[0]))
        item = life.evidence()
        by_gpu = {gpu.key: STEP * (1 - busy) for gpu, busy in zip(item.job.gpus, pieces[count - 1], strict=True)}
        busy = STEP * sum(pieces[count - 1])
        held = STEP * len(by_gpu)
        used = Consumption("H200", held, held, busy, since=item.at - STEP, until=item.at, by_gpu=by_gpu)
        incident = advance(incident, judge(replace(item, recent=(used,)), SETTINGS), SETTINGS).incident
        yield item.at, incident


@given(
    st.lists(
        st.tuples(*3 * [st.sampled_from([0.0, 0.0, 0.01, 0.1, 0.3, 0.9])]).flatmap(
            lambda piece: st.integers(1, 12).map(lambda count: [piece] * count)
        ),
        max_size=8,
    )
)
def test_waste_never_exceeds_the_named_gpus_times_the_named_time(stretches: list[list[tuple[float, ...]]]) -> None:
    for at, incident in passes([piece for stretch in stretches for piece in stretch]):
        if incident is not None:
            end = at if incident.resolved_at is None else incident.resolved_at
            assert 0 <= incident.wasted <= len(incident.gpus) * (end - incident.started_at) * (1 + 1e-9)
            assert set(incident.waste_by_gpu) == {gpu.key for gpu in incident.gpus}
            for rule in incident.rules:
                assert set(rule.wasted) == {gpu.key for gpu in rule.gpus}
                assert 0 <= sum(rule.wasted.values()) <= len(rule.gpus) * (at - rule.started_at) * (1 + 1e-9)


def last(pieces: Sequence[Sequence[float]]) -> tuple[float, Incident]:
    *_, (at, incident) = passes(pieces)
    assert incident is not None
    return at, incident


def test_a_job_that_works_little_and_then_stops_is_idle_since_it_stopped() -> None:
    at, incident = last([[0.15] * 10] * 48 + [[0.0] * 10] * 14)
    assert (incident.rule, incident.reopened) == ("idle", 1)
    # The window that shows it begins where `underused` cleared: 15 minutes after the stop.
    assert incident.started_at - START == pytest.approx(4 * HOUR + 15 * MINUTE)
    assert incident.wasted == pytest.approx(10 * (at - incident.started_at))
    assert incident.job_wasted > 10 * 0.85 * 3 * HOUR


def test_two_idle_gpus_of_four_waste_what_two_gpus_can() -> None:
    at, incident = last([[0.6, 0.6, 0.0, 0.0]] * 30)
    assert (incident.rule, len(incident.gpus)) == ("partially_idle", 2)
    assert incident.wasted == pytest.approx(2 * (at - incident.started_at))
    assert incident.job_wasted == pytest.approx((2 + 2 * 0.4) * (at - incident.started_at))


@pytest.mark.parametrize(
    ("pieces", "shown", "minutes"),
    [
        ([[0.0] * 4] * 20, "1 h 30 min", 90),
        # Of the hour of work in between, only what the first five minutes wasted counts: they cleared it.
        ([[0.0] * 4] * 14 + [[0.9] * 4] * 12 + [[0.0] * 4] * 14, "3 h 10 min, with breaks", 60 + 0.5 + 70),
    ],
)
def test_a_job_that_worked_in_between_was_idle_with_breaks(
    pieces: list[list[float]], shown: str, minutes: float
) -> None:
    at, incident = last(pieces)
    assert (incident.rule, duration(incident, at, 1.0)) == ("idle", shown)
    assert incident.wasted == pytest.approx(4 * minutes * MINUTE)
