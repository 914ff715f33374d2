"""What an analysis says: figures weighted by time, users, and incidents of jobs as the running alerter would open
them.
"""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dutycycle_alerter import recordings
from dutycycle_alerter.analysis import Analysis, analyze, judging
from dutycycle_alerter.incidents.model import Cause, Resolution, Severity
from dutycycle_alerter.model import JobKind
from dutycycle_alerter.settings import KindMatch, Settings
from dutycycle_alerter.usage import users_histogram, users_under
from tests.alerter.recordings.rows import START, lengths, recording, steady


def analysis(rows, **configured) -> Analysis:
    return analyze(recording(rows), Settings(**configured))


def only_finding(rows, **configured):
    (finding,) = analysis(rows, **configured).findings
    return finding


# Figures


def test_figures_are_weighted_by_the_time_a_row_stands_for():
    rows = [*steady(1.0, 60, every=10), *steady(0.0, 30, every=60, gpu="1", user="bob", workload="other")]
    fleet = analysis(rows).fleet
    assert (fleet.workloads, fleet.gpus) == (2, 2)
    assert fleet.observed == pytest.approx(5400)
    assert fleet.mean == pytest.approx(2 / 3)
    assert fleet.wasted == pytest.approx(1800)
    assert fleet.at_zero_ratio == pytest.approx(1 / 3)
    assert (fleet.hours[0], fleet.hours[19]) == (pytest.approx(0.5), pytest.approx(1.0))


def test_what_was_not_measured_is_in_no_figure():
    fleet = analysis([*steady(0.5, 30), *steady(None, 30, start=START + 1800)]).fleet
    assert fleet.weighted == pytest.approx(3600)
    assert fleet.observed == pytest.approx(1800)
    assert fleet.mean == pytest.approx(0.5)
    assert fleet.at_zero_ratio == 0


def test_without_any_measurement_there_is_no_mean():
    fleet = analysis(steady(None, 30)).fleet
    assert (fleet.mean, fleet.at_zero_ratio, fleet.energy) == (None, None, None)
    assert analysis([]).fleet.start is None


def test_users_are_those_with_time_of_their_own_most_wasted_first():
    rows = [
        *steady(0.9, 60, user="ann", workload="a"),
        *steady(0.1, 60, user="bob", workload="b", power_watts=100.0),
        *steady(0.1, 60, user="bob", workload="c"),
        {"t": START, "user": "single", "workload": "d"},
        *steady(0.5, 60, user="", workload="e"),
    ]
    users = analysis(rows).users
    assert [(user.user, user.jobs) for user in users] == [("bob", 2), ("ann", 1)]
    assert users[0].mean_percent == pytest.approx(10)
    assert users[0].energy == pytest.approx(360_000)
    assert users[1].energy is None


UTILIZATION = st.none() | st.floats(0, 1) | st.just(0.0)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.integers(1, 4000).map(lambda n: START + n),
            "gpu": st.sampled_from("012"),
            "workload": st.sampled_from(["x", "y"]),
            "user": st.sampled_from(["ann", "bob"]),
            "utilization_ratio": UTILIZATION,
        }
    ),
    max_size=60,
    unique_by=lambda row: (row["t"], row["gpu"], row["workload"]),
)


@given(ROWS)
@hypothesis_settings(deadline=None)
def test_figures_are_those_of_a_plain_sum(rows):
    tracks = defaultdict(list)
    for row in rows:
        tracks[row["workload"], row["gpu"]].append(row)
    observed, busy, zero = 0.0, 0.0, 0.0
    users = defaultdict(lambda: [0.0, 0.0, 0.0])
    for members in tracks.values():
        members.sort(key=lambda row: row["t"])
        for row, weight in zip(members, lengths([row["t"] for row in members]), strict=True):
            users[row["user"]][0] += weight
            if row["utilization_ratio"] is not None:
                observed += weight
                busy += weight * row["utilization_ratio"]
                zero += weight * (row["utilization_ratio"] == 0)
                users[row["user"]][1] += weight
                users[row["user"]][2] += weight * row["utilization_ratio"]
    result = analysis(rows)
    assert result.fleet.observed == pytest.approx(observed)
    assert result.fleet.busy == pytest.approx(busy)
    assert result.fleet.at_zero == pytest.approx(zero)
    assert sum(result.fleet.hours) == pytest.approx(observed / 3600)
    assert {user.user: (user.allocated, user.observed, user.busy) for user in result.users} == {
        name: pytest.approx(sums) for name, sums in users.items() if sums[0] > 0
    }


# Findings


def test_an_idle_job_is_found_with_its_cause_and_waste():
    finding = only_finding(steady(0.0, 60, processes=0.0))
    assert (finding.subject, finding.user, finding.rule) == ("job", "ann", "idle")
    assert finding.diagnosis.causes == (Cause.NO_PROCESS,)
    assert finding.started_at == START + 600
    assert finding.opened_at == START + 2400
    assert (finding.resolved_at, finding.resolution) == (START + 3600, Resolution.ENDED)
    assert finding.wasted == pytest.approx(3000)
    assert [gpu.label for gpu in finding.gpus] == ["n1:0"]


def test_idle_for_long_is_critical():
    assert only_finding(steady(0.0, 180)).severity is Severity.CRITICAL


@pytest.mark.parametrize(
    "rows",
    [
        steady(0.95, 120),
        steady(0.0, 39),  # grace and window are not over
        [*steady(0.9, 30), *steady(0.0, 20, start=START + 1800), *steady(0.9, 60, start=START + 3000)],
        steady(None, 120),  # unknown is never idle
        [*steady(0.9, 30), *steady(0.9, 30, start=START + 7200)],  # nor is a gap in the recording
        # A third of two hours is measured, and idle.
        [row for i, row in enumerate(steady(0.0, 120, every=10)) if i % 60 < 20],
    ],
)
def test_healthy_young_unknown_and_thinly_measured_jobs_are_left_alone(rows):
    assert analysis(rows).findings == ()


def test_half_of_a_job_idle_is_found_on_the_idle_half():
    rows = [row for gpu in range(4) for row in steady(0.9 if gpu < 2 else 0.0, 60, gpu=str(gpu))]
    finding = only_finding(rows)
    assert finding.rule == "partially_idle"
    assert [gpu.index for gpu in finding.gpus] == ["2", "3"]
    assert finding.job_gpus == 4


def test_memory_that_is_taken_later_neither_delays_nor_closes_an_incident():
    rows = [
        row | {"memory_used_bytes": 1e9 if row["t"] <= START + taken else 6e9, "memory_total_bytes": 1e10}
        for gpu, level, taken in (("0", 0.9, 25 * 60), ("1", 0.0, 45 * 60))
        for row in steady(level, 90, gpu=gpu)
    ]
    finding = only_finding(rows)
    assert finding.rule == "partially_idle"
    assert finding.opened_at == pytest.approx(START + 40 * 60, abs=60)
    assert finding.resolution is Resolution.ENDED


def test_a_starved_job_is_stalled_by_its_gaps():
    rows = steady(0.17, 60, idle_gap_lt2_ratio=0.8, idle_gap_2to30_ratio=0.0)
    assert only_finding(rows).rule == "stalled"


def test_an_incident_clears_when_the_load_turns_healthy():
    rows = [*steady(0.0, 60), *steady(0.95, 60, start=START + 3600)]
    finding = only_finding(rows)
    assert finding.resolution is Resolution.CLEARED
    assert START + 3600 < finding.resolved_at < START + 3600 + 1200
    assert finding.wasted == pytest.approx(3000, rel=0.05)


def test_a_job_may_have_several_findings():
    rows = [*steady(0.0, 60), *steady(0.95, 240, start=START + 3600), *steady(0.0, 60, start=START + 18_000)]
    findings = analysis(rows).findings
    assert [finding.rule for finding in findings] == ["idle", "idle"]
    assert analysis(rows).users[0].incidents == 2


def test_rules_that_a_recording_gives_no_evidence_for_are_named():
    silent = analysis(steady(0.5, 120)).verdicts.not_evaluable
    assert [(item.rule, item.jobs) for item in silent] == [("low_sm_activity", 1), ("stalled", 1)]


def test_the_configuration_decides():
    rows = steady(0.0, 60, workload="notebook")
    assert analysis(rows, kinds=(KindMatch(workload="note*", kind=JobKind.INTERACTIVE),)).findings == ()
    strict = Settings.model_validate({"judging": {"grace": {"batch": "5m"}, "rules": {"idle": {"window": "15m"}}}})
    assert analyze(recording(rows), strict).findings[0].opened_at == START + 1200


def test_policies_count_in_an_analysis_as_in_the_alerter():
    rows = [*steady(0.0, 60), *steady(0.0, 60, workload="other", user="bob", gpu="1")]
    policy = {"name": "course", "reason": "r", "user": "ann", "exclude": True}
    settings = Settings.model_validate({"policies": {"exceptions": [policy]}})
    assert [finding.user for finding in analyze(recording(rows), settings).findings] == ["bob"]
    window = {"name": "rack", "reason": "r", "start": "2023-11-14T22:13:20Z", "end": "2023-11-14T22:33:20Z"}
    settings = Settings.model_validate({"policies": {"maintenance": [window]}})
    # The half hour that opens it begins when the maintenance is over.
    assert {finding.opened_at for finding in analyze(recording(rows), settings).findings} == {START + 50 * 60}


def test_a_time_scale_makes_every_duration_shorter():
    finding = only_finding(steady(0.0, 6, every=1.0), time_scale=10)
    assert finding.opened_at == START + 240


def test_progress_ends_at_the_end():
    seen = []
    analyze(recording(steady(0.5, 60)), Settings(), lambda done, of: seen.append((done, of)))
    assert seen[-1] == (360, 360)
    assert [done for done, _ in seen[:-1]] == [6 * minute for minute in range(1, 61)], "it grows with each pass"


def test_workers_find_what_one_process_finds(monkeypatch):
    rows = [*steady(0.0, 90), *steady(0.1, 90, workload="other"), *steady(0.9, 9, workload="short")]
    alone = analysis(rows).verdicts
    monkeypatch.setattr(judging, "_ROWS_FOR_WORKERS", 1)
    monkeypatch.setattr(judging, "cores", lambda: 2)
    together = analysis(rows).verdicts
    assert together == alone
    assert len(together.findings) == 2


def test_the_series_of_a_job_are_its_rows():
    made = analysis([*steady(0.5, 1, gpu="10"), *steady(None, 1, gpu="2")])
    first, second = made.series("job")
    assert [one.gpu.index for one in (first, second)] == ["2", "10"]
    assert {point.utilization for point in first.points} == {None}
    assert (second.points[0].t, second.points[0].utilization) == (START + 10, 0.5)


def test_real_runs_give_the_known_figures(real_runs):
    result = analyze(recordings.load([real_runs]), Settings())
    fleet = result.fleet
    assert len(result.recording) == 159_990
    assert fleet.workloads == 359
    assert len(result.users) == 19
    assert round(fleet.observed / 3600, 1) == 1110.4
    assert round(100 * fleet.mean, 2) == 54.95
    assert round(fleet.wasted / 3600, 1) == 500.2
    assert round(100 * fleet.at_zero_ratio, 2) == 35.95
    assert users_under(result.users) == 4
    assert users_histogram(result.users) == [2, 1, 1, 1, 1, 1, 2, 0, 1, 1, 1, 3, 1, 1, 0, 0, 0, 0, 0, 2]
    assert result.recording.skipped.count == 0
    assert all(finding.resolved_at is not None for finding in result.findings)
