"""A job that began anew: its former run's incident is closed, and nothing else is touched."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.incidents.actions import acknowledge, resolve, snooze
from dutycycle_alerter.incidents.closing import close_former_run, is_of_former_run
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution, State
from dutycycle_alerter.rules import judge
from dutycycle_alerter.slurm.model import FinalFigures
from dutycycle_alerter.workloads import End
from tests.alerter.cases import LATER, SETTINGS, evidence, job

APART = 30.0


def opened() -> Incident:
    found = advance(None, judge(evidence([0.0, 0.0]), SETTINGS), SETTINGS).incident
    assert found is not None
    return replace(found, id=1)


@pytest.mark.parametrize(
    ("start", "told", "former"),
    [
        (LATER - 36000, True, False),
        (LATER + APART, True, False),
        (LATER + APART + 1, True, True),
        (LATER + 3600, False, False),
    ],
)
def test_a_start_after_the_incident_was_last_known_is_another_runs(start: float, told: bool, former: bool) -> None:
    shown = job(start=start, start_told=told)
    assert is_of_former_run(opened(), shown, apart=APART) is former
    seen_since = replace(opened(), known_at=start)
    assert is_of_former_run(seen_since, shown, apart=APART) is False


@pytest.mark.parametrize(("first", "former"), [(None, True), (LATER + 3605, True), (LATER + 3600, False)])
def test_the_start_of_a_process_begins_no_run(first: float | None, former: bool) -> None:
    """A job whose allocation only its processes prove: it ended one and began another while nobody looked."""
    shown = job(start=LATER + 3600, first_process=first)
    assert is_of_former_run(opened(), shown, apart=APART) is former


def test_the_schedulers_word_says_when_and_how_much() -> None:
    began = LATER + 3600
    run = FinalFigures(1, "NODE_FAIL", start=LATER - 600, end=LATER + 60, elapsed=660, gpus=2)
    step = close_former_run(opened(), job(start=began), End(LATER + 60, "NODE_FAIL", run), now=began + 60)
    assert step.incident is not None
    assert (step.incident.resolved_at, step.incident.figures["elapsed_seconds"]) == (LATER + 60, 660)
    assert [event.kind for event in step.events] == [EventKind.RESOLVED, EventKind.FINAL]


@given(
    act=st.sampled_from(["none", "acknowledge", "snooze", "resolve"]),
    away=st.floats(APART + 1, 1e6),
    ended=st.none() | st.floats(0, 2e6),
)
def test_an_active_one_is_ended_before_the_new_run_and_one_that_is_resolved_stays(
    act: str, away: float, ended: float | None
) -> None:
    before: Incident | None = opened()
    assert before is not None
    if act == "acknowledge":
        before = acknowledge(before, actor="bob", now=LATER + 5).incident
    elif act == "snooze":
        before = snooze(before, until=LATER + 1800, actor="bob", now=LATER + 5).incident
    elif act == "resolve":
        before = resolve(before, actor="bob", now=LATER + 5).incident
    assert before is not None
    shown = job(start=LATER + away)
    assert is_of_former_run(before, shown, apart=APART)
    end = None if ended is None else End(LATER + ended, "REQUEUED")
    step = close_former_run(before, shown, end, now=LATER + away + 60)
    after = step.incident
    assert after is not None
    if act == "resolve":
        assert (after, step.events) == (before, ())
        return
    assert (after.state, after.resolution, after.rules) == (State.RESOLVED, Resolution.ENDED, ())
    assert after.resolved_at is not None
    assert after.opened_at <= after.resolved_at <= shown.start
    assert (after.wasted, after.energy, after.snoozed_until) == (before.wasted, before.energy, None)
    assert [event.kind for event in step.events] == [EventKind.RESOLVED]
    assert close_former_run(after, shown, end, now=LATER + away + 120).events == ()
