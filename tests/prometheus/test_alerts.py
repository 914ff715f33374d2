"""Each alert fires when it should, for no other reason, and ends; by promtool, over what exporters and alerters say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.prometheus.alert_checks import RULES, check, expected, inputs, run, written
from tests.prometheus.alert_scenarios import (
    ALL_DAY,
    CASES,
    HOURLY,
    HOURS,
    NOTHING,
    RECORDED,
    RECORDINGS,
    RECORDS,
    Fired,
    silent,
)
from tests.prometheus.saying import ALERTER, EXPORTER, otherwise, since, until, well
from tests.prometheus.scraped import WAYS, scraped
from tests.prometheus.test_recording_rules import RULES as RECORDING
from tools import alert_rules
from tools.alert_rules import ALERTS


@pytest.mark.parametrize("case", CASES)
def test_what_fires_however_targets_are_scraped(case: str, tmp_path: Path) -> None:
    series, fired = CASES[case]
    asked = expected(fired)
    tests = [
        {
            "name": way,
            "interval": "1m",
            "input_series": inputs(scraped(way, series) | RECORDINGS),
            "promql_expr_test": asked,
        }
        for way in WAYS
    ]
    written(tmp_path, tests, RULES)


def test_our_recording_rules_record_what_is_to_be_recorded(tmp_path: Path) -> None:
    check(tmp_path, well(), dict.fromkeys(ALL_DAY, NOTHING), RULES, RECORDING)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_scrape_is_told_from_the_others(way: str) -> None:
    """A way that left the labels alone would test nothing."""
    found = scraped(way, well())
    assert len(found) == len(well())
    assert not any(EXPORTER in name or ALERTER in name for name in found)


@pytest.mark.parametrize(
    ("recorded", "fired"),
    [
        pytest.param("_x1", {59: NOTHING, 61: {"RecordingRulesMissing"}}, id="the rules are not loaded"),
        pytest.param(RECORDS, dict.fromkeys(ALL_DAY, NOTHING), id="they are, every five minutes"),
        pytest.param("4800 _x9 " * 20, {59: NOTHING, 95: {"RecordingRulesMissing"}}, id="every other time is left out"),
        pytest.param(
            "4800 _x4 " * 12 + "_x60 " + "4800 _x4 " * 20,
            {90: NOTHING, 105: {"RecordingRulesMissing"}, 145: NOTHING},
            id="they are taken out for an hour",
        ),
    ],
)
def test_recording_rules_that_are_missing_or_too_slow(recorded: str, fired: Fired, tmp_path: Path) -> None:
    check(tmp_path, well() | {RECORDED: recorded, HOURLY: HOURS}, fired, RULES)


@pytest.mark.parametrize(
    ("users", "held", "fired"),
    [
        pytest.param("_x1", "0.5x180", {59: NOTHING, 61: {"RecordingRulesMissing"}}, id="the users' rules fail"),
        pytest.param("300 _x4 " * 40, "0.5x180", dict.fromkeys(ALL_DAY, NOTHING), id="they do not"),
        pytest.param("_x1", "0.5x20 stale", dict.fromkeys(ALL_DAY, NOTHING), id="nobody holds a GPU any more"),
        pytest.param("_x1", "_x170 0.5x10", {179: NOTHING}, id="somebody does since a moment"),
    ],
)
def test_what_is_counted_by_user_is_missed_where_anybody_holds_a_gpu(
    users: str, held: str, fired: Fired, tmp_path: Path
) -> None:
    """Whatever the other rules of its group record."""
    series = {
        'user:workload_gpu_allocated_seconds:increase5m{user="alice",cluster="north"}': users,
        'user:workload_gpu_allocated_seconds:increase1h{user="alice",cluster="north"}': "_x29 900 _x59 900 _x89",
        'gpu_allocation{node="n1",gpu="0",user="alice",workload="slurm/7",cluster="north"}': held,
    }
    check(tmp_path, well() | RECORDINGS | series, fired, RULES)


@pytest.mark.parametrize(("hours", "fired"), [("_x1", {"RecordingRulesMissing"}), ("_x29 900 _x59 900 _x89", NOTHING)])
def test_of_what_is_counted_by_user_the_hours_are_missed_by_themselves(
    hours: str, fired: set[str], tmp_path: Path
) -> None:
    series = {
        'user:workload_gpu_allocated_seconds:increase5m{user="alice"}': "300 _x4 " * 40,
        'user:workload_gpu_allocated_seconds:increase1h{user="alice"}': hours,
    }
    check(tmp_path, well() | RECORDINGS | series, {158: NOTHING, 162: fired}, RULES)


def test_what_is_recorded_every_hour_is_missed_after_two_of_them(tmp_path: Path) -> None:
    check(tmp_path, well() | {RECORDED: RECORDS}, {158: NOTHING, 162: {"RecordingRulesMissing"}}, RULES)


def test_a_prometheus_that_was_away_for_half_an_hour_raises_no_alarm_when_it_is_back(tmp_path: Path) -> None:
    """Rules are evaluated here though nothing is scraped: of that time nothing is asked."""
    before, after = until(well(), 60), since(well(), 90)
    series = {name: f"{values} _x29 {after[name].removeprefix('_x90 ')}" for name, values in before.items()}
    series[RECORDED] = "4800 _x4 " * 12 + "_x30 " + "4800 _x4 " * 20
    series[HOURLY] = "_x29 57600 _x89 57600 _x60"
    check(tmp_path, series, dict.fromkeys((92, 95, 105, 115, 150), NOTHING), RULES)


def test_the_watchdog_fires_from_the_first_moment_and_without_any_series(tmp_path: Path) -> None:
    expression = 'count by (alertname, alertstate, severity) (ALERTS{alertname="DutycycleWatchdog"})'
    wanted = '{alertname="DutycycleWatchdog", alertstate="firing", severity="none"}'
    run(
        tmp_path,
        {},
        [
            {"expr": expression, "eval_time": f"{minute}m", "exp_samples": [{"labels": wanted, "value": 1}]}
            for minute in (0, 1, 60, 170)
        ],
        RULES,
    )


def test_every_alert_fires_in_some_scenario_and_is_silent_after_it() -> None:
    """So that no alert is added without one."""
    fires = {name for _, fired in CASES.values() for names in fired.values() for name in names}
    ends = {
        name
        for _, fired in CASES.values()
        for minute, names in fired.items()
        for name in names
        if any(later > minute and name not in fired[later] for later in fired)
    }
    own = {"Watchdog", "RecordingRulesMissing"}
    assert {f"Dutycycle{name}" for name in fires | own} == set(ALERTS)
    # Its cause is counted over three hours.
    assert fires - ends <= {"NoExporters", "TaskFailing"}


def test_messages_name_the_node_that_an_exporter_was_on(tmp_path: Path) -> None:
    series = otherwise(well(), silent("n1", 60))
    alert = ALERTS["DutycycleExporterDown"]
    test: dict[str, object] = {
        "interval": "1m",
        "input_series": inputs(series),
        "alert_rule_test": [
            {
                "alertname": alert.name,
                "eval_time": "80m",
                "exp_alerts": [
                    {
                        "exp_labels": {
                            "severity": "warning",
                            "service": "dutycycle",
                            "job": EXPORTER,
                            "instance": "n1:9836",
                        },
                        "exp_annotations": {
                            "summary": "The exporter at n1:9836 (node n1) does not answer.",
                            "description": alert.description,
                            "runbook": alert.runbook,
                        },
                    }
                ],
            }
        ],
    }
    written(tmp_path, [test], RULES)


def test_the_operators_form_holds_the_same_groups() -> None:
    rule = yaml.safe_load(alert_rules.prometheus_rule())
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert rule["metadata"]["name"] == "dutycycle-alerts"
    assert rule["spec"] == yaml.safe_load(RULES.read_text())


def test_a_site_that_publishes_the_runbooks_gets_links_to_them(capsys: pytest.CaptureFixture[str]) -> None:
    def links() -> dict[str, str | None]:
        groups = yaml.safe_load(capsys.readouterr().out)["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return {rule["alert"]: rule["annotations"].get("runbook_url") for rule in rules}

    alert_rules.main(["--runbooks", "https://docs.example.org/runbooks/"])
    assert links() == {name: f"https://docs.example.org/runbooks/{name}" for name in ALERTS}
    alert_rules.main([])
    assert links() == dict.fromkeys(ALERTS)
