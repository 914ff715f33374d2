"""Several fleets, each with its alerter, in one engine: one that is well does not hide another that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prometheus.alert_checks import RULES, expected, run
from tests.prometheus.alert_scenarios import (
    ALL_DAY,
    HOURLY,
    NOTHING,
    RECORDED,
    RECORDINGS,
    RECORDS,
    Fired,
    silent,
    without,
)
from tests.prometheus.saying import Series, alerter, exporter, otherwise, until, well
from tests.prometheus.scraped import of_cluster
from tools import alert_rules

TWO_FLEETS: dict[str, tuple[Series, Series, Fired]] = {
    "all is well": (well(), well(), dict.fromkeys(ALL_DAY, NOTHING)),
    "one has no alerter any more": (
        without("alerter", "receiver") | until(alerter("a", leads=True), 60),
        well(),
        {68: NOTHING, 72: {"NotEvaluating"}, 170: {"NotEvaluating"}},
    ),
    "the alerter of one does not lead": (
        otherwise(well(), {'dutycycle_alerter_leader instance="a:9837"': "1x59 0x120"}),
        well(),
        {68: NOTHING, 71: {"NotEvaluating"}},
    ),
    "the pass of one hangs": (
        otherwise(well(), {"dutycycle_alerter_last_pass_timestamp_seconds": "-20+60x60 3580x120"}),
        well(),
        {77: NOTHING, 82: {"NotEvaluating"}},
    ),
    "no exporter of one answers": (
        otherwise(well(), silent("n1", 60) | silent("n2", 60)),
        well(),
        {74: NOTHING, 90: {"ExporterDown", "NoExporters"}},
    ),
    "one exporter does not answer; in the other there is one at the same place": (
        otherwise(without('instance="n1:9836"') | exporter("n1", job="pods"), silent("n1", 60)),
        without('instance="n1:9836"') | exporter("n1", job="pods"),
        {74: NOTHING, 76: {"ExporterDown"}},
    ),
    "Slurm does not answer the alerter of one": (
        otherwise(well(), {"dutycycle_alerter_source_up slurm": "1x59 0x120"}),
        well(),
        {74: NOTHING, 76: {"SourceSilent"}},
    ),
    "housekeeping always fails in one": (
        otherwise(well(), {"dutycycle_alerter_task_failures_total housekeeping": "0x60 1x60 2x60"}),
        well(),
        {120: NOTHING, 155: {"TaskFailing"}},
    ),
    "the alerter of one fails on a job": (
        otherwise(well(), {'dutycycle_alerter_subject_failures_total instance="a:9837" judge': "0x59 0+1x120"}),
        well(),
        {59: NOTHING, 65: {"SubjectFailing"}, 170: {"SubjectFailing"}},
    ),
    "one records nothing": (
        well() | {RECORDED: "_x1"},
        well() | RECORDINGS,
        {59: NOTHING, 61: {"RecordingRulesMissing"}},
    ),
    "one records nothing by the hour": (
        well() | {RECORDED: RECORDS, HOURLY: "_x1"},
        well() | RECORDINGS,
        {158: NOTHING, 162: {"RecordingRulesMissing"}},
    ),
}


@pytest.mark.parametrize("case", TWO_FLEETS)
def test_one_fleet_does_not_hide_another(case: str, tmp_path: Path) -> None:
    ill, sound, fired = TWO_FLEETS[case]
    series = of_cluster("ill", ill) | of_cluster("sound", sound)
    if not any(name.startswith(RECORDED) for name in series):
        # One ruler records for both, without the label.
        series |= RECORDINGS
    run(tmp_path, series, expected(fired, cluster="ill"), RULES)


def test_fleets_may_be_told_apart_by_another_label(tmp_path: Path) -> None:
    ill, sound, fired = TWO_FLEETS["one has no alerter any more"]
    rules = tmp_path / "site.rules.yaml"
    rules.write_bytes(alert_rules.plain(cluster="site"))
    series = of_cluster("ill", ill, "site") | of_cluster("sound", sound, "site")
    run(tmp_path, series | RECORDINGS, expected(fired, site="ill"), rules)
