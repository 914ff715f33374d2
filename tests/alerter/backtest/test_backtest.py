"""What a backtest counts: exact figures of small recordings, and what must hold of any."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dutycycle_alerter.analysis import analyze
from dutycycle_alerter.backtest import Backtest, RecordedHistory, backtest
from dutycycle_alerter.config_file import parse
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.incidents.model import Resolution, Severity
from dutycycle_alerter.settings import Settings
from tests.alerter.recordings.rows import START, recording, steady

MINUTE, HOUR = 60.0, 3600.0
Rows = list[dict[str, str | float | None]]


def run(
    rows: Rows,
    new: Mapping[str, object] | None = None,
    current: Mapping[str, object] | None = None,
    *,
    since: float = START,
    until: float | None = None,
    step: float = 5 * MINUTE,
) -> Backtest:
    scale = float((new or {}).get("time_scale", 1))  # type: ignore[arg-type]
    history = RecordedHistory(recording(rows), time_scale=scale)
    extent = history.extent()
    assert extent is not None
    return backtest(
        history,
        new=parse(new or {}),
        current=parse(current or {}),
        since=since,
        until=extent[1] if until is None else until,
        step=step,
    )


def rules(**given: object) -> dict[str, object]:
    return {"judging": {"rules": given}}


IDLE = steady(0.0, 60, processes=0.0)


def test_an_idle_hour_is_one_incident_with_its_waste() -> None:
    result = run(IDLE)
    assert result.instants == 12
    (found,) = result.new.found
    incident = found.incident
    assert (incident.subject, incident.user, incident.rule) == ("job", "ann", "idle")
    assert (incident.started_at, incident.opened_at) == (START + 10 * MINUTE, START + 40 * MINUTE)
    assert (incident.resolved_at, incident.resolution) == (START + HOUR, Resolution.ENDED)
    assert incident.wasted == pytest.approx(50 * MINUTE)
    assert found.mail is None
    # It fires at 40, 45, 50, 55 and 60 minutes.
    assert result.new.firing == {"idle": 5}
    assert (result.new.jobs, result.new.judged) == (1, 1)


def test_the_findings_are_those_of_the_analysis_judged_as_often() -> None:
    rows = [*IDLE, *steady(0.17, 90, workload="slow", user="bob", gpu="1", start=START + 600)]
    findings = analyze(recording(rows), Settings()).findings
    result = run(rows, step=MINUTE)
    assert sorted((f.incident.subject, f.incident.rule, f.incident.opened_at) for f in result.new.found) == sorted(
        (f.subject, f.rule, f.opened_at) for f in findings
    )
    assert sum(f.incident.wasted for f in result.new.found) == pytest.approx(sum(f.wasted for f in findings))


def test_a_rule_that_is_switched_off_leaves_its_job_to_another() -> None:
    rows = [*steady(0.9, 60, gpu="0", processes=1.0), *steady(0.0, 60, gpu="1", processes=1.0)]
    result = run(rows, rules(partially_idle={"enabled": False}))
    (changed,) = result.comparison.changed
    assert (result.comparison.added, result.comparison.gone, result.comparison.same) == ((), (), 0)
    assert {one.what: (one.before, one.after) for one in changed.differences if one.what != "cause"} == {
        "rule": ("partially_idle", "uneven"),
    }


def test_what_a_configuration_adds_and_takes_away() -> None:
    rows = [*IDLE, *steady(0.28, 60, workload="low", user="bob", gpu="1")]
    stricter = run(rows, rules(underused={"below": 0.30}))
    (added,) = stricter.comparison.added
    assert (added.incident.subject, added.incident.rule, added.incident.severity) == (
        "low",
        "underused",
        Severity.WARNING,
    )
    assert (stricter.comparison.gone, stricter.comparison.changed, stricter.comparison.same) == ((), (), 1)
    laxer = run(rows, {}, rules(underused={"below": 0.30}))
    assert [found.incident.subject for found in laxer.comparison.gone] == ["low"]
    assert laxer.comparison.added == ()


def test_policies_count_and_both_sides_read_the_same_evidence() -> None:
    out = {"name": "course", "reason": "r", "user": "a*", "exclude": True, "rules": ["idle", "underused"]}
    result = run(IDLE, {"policies": {"exceptions": [out]}})
    assert result.new.excluded == {"course": 1}
    assert (len(result.current.found), len(result.new.found)) == (1, 0)
    assert [found.incident.subject for found in result.comparison.gone] == ["job"]
    assert result.current.excluded == {}


def test_each_configuration_has_its_kinds_of_jobs() -> None:
    result = run(IDLE, {"kinds": [{"kind": "interactive", "user": "ann"}]})
    assert (len(result.current.found), len(result.new.found)) == (1, 0)


def test_a_maintenance_keeps_what_it_left_out_of_the_incidents() -> None:
    window = {"name": "rack", "reason": "r", "start": "2023-11-14T22:13:20Z", "end": "2023-11-14T22:53:20Z"}
    result = run(IDLE, {"policies": {"maintenance": [window]}})
    assert (len(result.current.found), len(result.new.found)) == (1, 0)
    assert result.new.firing == {}


def test_a_part_of_the_recording_looks_back_at_what_went_before() -> None:
    result = run(IDLE, since=START + 50 * MINUTE, until=START + 55 * MINUTE)
    (found,) = result.new.found
    assert result.instants == 1
    assert (found.incident.opened_at, found.incident.resolved_at) == (START + 55 * MINUTE, None)
    assert found.incident.wasted == pytest.approx(30 * MINUTE)


def test_an_hour_of_which_nothing_is_known_is_not_judged_at() -> None:
    rows = [*IDLE, *steady(0.9, 60, workload="later", gpu="1", start=START + 24 * HOUR)]
    assert run(rows).instants == 24


def test_a_job_that_comes_and_goes_between_two_instants_is_nobodys_incident() -> None:
    rows = [*IDLE, *steady(0.0, 4, workload="short", gpu="1", start=START + 601)]
    result = run(rows)
    assert result.new.jobs == 2
    assert [found.incident.subject for found in result.new.found] == ["job"]


def test_the_end_of_a_job_is_told_once_and_what_it_consumed_adds_up() -> None:
    history = RecordedHistory(recording(IDLE))
    before, told, observed = START, [], 0.0
    for at in history.instants(START, START + 2 * HOUR, 20 * MINUTE):
        for item in history.evidence(at, before).jobs:
            told.append(((item.at - START) / MINUTE, item.ended is not None))
            observed += sum(part.observed for part in item.recent)
        before = at
    assert told == [(20, False), (40, False), (60, False), (60, True)]
    assert observed == pytest.approx(HOUR)
    # The instant after the end has nothing to tell.
    assert history.evidence(START + HOUR + 300, START + HOUR).jobs == []


def test_a_time_scale_shortens_every_duration() -> None:
    rows = steady(0.0, 6, every=1.0)
    result = run(rows, {"time_scale": 10}, {"time_scale": 10}, step=30.0)
    (found,) = result.new.found
    assert found.incident.opened_at == START + 4 * MINUTE
    assert result.time_scale == 10


def test_configurations_of_two_time_scales_have_no_history_in_common() -> None:
    with pytest.raises(ConfigError, match="time_scale"):
        run(IDLE, {"time_scale": 10})


def test_progress_ends_at_the_end() -> None:
    seen: list[tuple[int, int]] = []
    backtest(
        RecordedHistory(recording(IDLE)),
        new=Settings(),
        current=Settings(),
        since=START,
        until=START + HOUR,
        step=600,
        progress=lambda done, of: seen.append((done, of)),
    )
    assert seen == [(n, 6) for n in range(1, 7)]


# Mails


def test_idle_for_two_hours_is_critical_and_mailed_once() -> None:
    result = run(steady(0.0, 180))
    (mail,) = result.new.mails
    assert (mail.user, mail.rule, mail.cost) == ("ann", "idle", False)
    assert mail.at == START + 130 * MINUTE


@pytest.mark.parametrize("level", ["none", "info", "warning"])
def test_a_user_who_is_to_hear_less_is_not_mailed(level: str) -> None:
    policy = {"name": "x", "reason": "r", "user_severity": level}
    result = run(steady(0.0, 180), {"policies": {"exceptions": [policy]}})
    assert (len(result.current.mails), len(result.new.mails)) == (1, 0)
    (changed,) = result.comparison.changed
    assert [(one.what, one.before, one.after) for one in changed.differences] == [
        ("mailed", START + 130 * MINUTE, None)
    ]


def wasteful(gpus: int, minutes: float) -> Rows:
    return [row for gpu in range(gpus) for row in steady(0.2, minutes, every=60, gpu=str(gpu))]


def test_other_rules_are_mailed_above_24_wasted_gpu_hours_a_week() -> None:
    """39 GPUs waste 15.6 hours in the half hour that opens the incident, and 2.6 in each five minutes after it."""
    result = run(wasteful(39, 65))
    (mail,) = result.new.mails
    assert (mail.rule, mail.cost, mail.at) == ("underused", True, START + 60 * MINUTE)
    assert run(wasteful(39, 55)).new.mails == ()


def test_a_job_without_a_user_mails_nobody() -> None:
    result = run(steady(0.0, 180, user=""))
    assert (len(result.new.found), result.new.mails) == (1, ())


def test_the_cost_and_the_week_are_the_designs() -> None:
    owners = Settings().notify.owners
    assert (owners.wasted_gpu_hours, owners.within) == (24, 7 * 24 * HOUR)


# What must hold of any recording

UTILIZATIONS = st.none() | st.sampled_from([0.0, 0.004, 0.01, 0.16, 0.22, 0.27, 0.5, 0.95]) | st.floats(0, 1)
JOBS = st.lists(
    st.tuples(st.integers(0, 40), st.lists(st.lists(UTILIZATIONS, min_size=1, max_size=2), min_size=1, max_size=4)),
    min_size=1,
    max_size=3,
)


def recorded(jobs: list[tuple[int, list[list[float | None]]]]) -> Rows:
    """Each job starts some minutes in and has phases of 25 minutes, each with the utilization of one or two GPUs."""
    rows: Rows = []
    for place, (begins, phases) in enumerate(jobs):
        for gpu in range(len(phases[0])):
            for number, phase in enumerate(phases):
                rows += steady(
                    phase[gpu % len(phase)],
                    25,
                    every=60,
                    start=START + 60 * begins + 1500 * number,
                    workload=f"job{place}",
                    user=f"user{place % 2}",
                    gpu=f"{place}{gpu}",
                )
    return rows


@given(JOBS, st.floats(0.15, 0.31), st.floats(0, 0.019))
@hypothesis_settings(max_examples=25)
def test_a_configuration_compared_with_itself_differs_in_nothing(
    jobs: list[tuple[int, list[list[float | None]]]], underused: float, idle: float
) -> None:
    given = rules(underused={"below": underused}, idle={"below": idle})
    result = run(recorded(jobs), given, given, step=600)
    assert result.current == result.new
    assert (result.comparison.added, result.comparison.gone, result.comparison.changed) == ((), (), ())
    assert result.comparison.same == len(result.new.found)


@pytest.mark.parametrize(("rule", "highest"), [("idle", 0.019), ("underused", 0.31)])
@given(jobs=JOBS, bounds=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@hypothesis_settings(max_examples=25)
def test_a_stricter_bound_never_fires_less(
    jobs: list[tuple[int, list[list[float | None]]]], bounds: tuple[float, float], rule: str, highest: float
) -> None:
    low, high = (bound * highest for bound in sorted(bounds))
    result = run(recorded(jobs), rules(**{rule: {"below": high}}), rules(**{rule: {"below": low}}), step=600)
    assert result.new.firing.get(rule, 0) >= result.current.firing.get(rule, 0)


@given(JOBS)
@hypothesis_settings(max_examples=15)
def test_every_incident_is_same_changed_added_or_gone(jobs: list[tuple[int, list[list[float | None]]]]) -> None:
    result = run(recorded(jobs), rules(underused={"below": 0.31}, idle={"below": 0.0}), step=600)
    pairs = result.comparison.same + len(result.comparison.changed)
    assert pairs + len(result.comparison.added) == len(result.new.found)
    assert pairs + len(result.comparison.gone) == len(result.current.found)
