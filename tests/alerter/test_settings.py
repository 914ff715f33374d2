"""What may be configured: the defaults are the design's, and the time scale divides every duration and nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dutycycle_alerter.cli.config import config
from dutycycle_alerter.config_file import load, parse
from dutycycle_alerter.model import Job
from dutycycle_alerter.settings import (
    WINDOWS,
    Duration,
    JobMatch,
    RealDuration,
    Rules,
    Section,
    Settings,
    Window,
)

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

DESIGN_RULES = {
    "hung": {
        "enabled": True,
        "spinning_at_least": 0.95,
        "power_share": 0.15,
        "idle_below": 0.005,
        "active_below": 0.02,
        "link_bytes_below": 10e6,
        "window": 15 * MINUTE,
    },
    "idle": {
        "enabled": True,
        "below": 0.005,
        "window": 30 * MINUTE,
        "critical_window": 2 * HOUR,
        "serving_window": 24 * HOUR,
        "clear_above": 0.02,
        "clear_window": 15 * MINUTE,
    },
    "partially_idle": {
        "enabled": True,
        "below": 0.005,
        "busiest_at_least": 0.15,
        "window": 30 * MINUTE,
        "clear_above": 0.02,
    },
    "stalled": {
        "enabled": True,
        "at_least": 0.05,
        "below": 0.70,
        "gap_share": 0.20,
        "cpu_of_limit": 0.90,
        "pressure": 0.20,
        "window": 15 * MINUTE,
        "clear_above": 0.80,
        "clear_gap_share": 0.12,
        "clear_cpu_of_limit": 0.80,
        "clear_pressure": 0.12,
    },
    "uneven": {
        "enabled": True,
        "spread": 0.4,
        "busiest_at_least": 0.30,
        "window": 30 * MINUTE,
        "clear_spread": 0.3,
    },
    "low_sm_activity": {
        "enabled": True,
        "at_least": 0.5,
        "below": 0.25,
        "window": 30 * MINUTE,
        "clear_above": 0.35,
    },
    "underused": {
        "enabled": True,
        "below": 0.25,
        "window": 30 * MINUTE,
        "clear_above": 0.32,
    },
}
DESIGN_REPORTS = {
    "memory_underused": {"enabled": True, "peak_below": 0.25, "utilization_below": 0.5},
    "memory_pressure": {"enabled": True, "peak_at_least": 0.95, "utilization_below": 0.7},
}


def test_the_rules_defaults_are_the_designs_table() -> None:
    rules = Rules().model_dump()
    assert {rule: rules[rule] for rule in Rules.ORDER} == DESIGN_RULES
    assert tuple(DESIGN_RULES) == Rules.ORDER
    assert {rule: rules[rule] for rule in DESIGN_REPORTS} == DESIGN_REPORTS


def test_the_mechanics_defaults_are_the_designs() -> None:
    judging = Settings().judging
    assert judging.model_dump(exclude={"rules"}) == {
        "grace": {"batch": 10 * MINUTE, "loading": 20 * MINUTE, "interactive": 60 * MINUTE},
        "coverage": 0.80,
        "lost_after": 24 * HOUR,
        "reopen_within": 2 * HOUR,
    }
    assert WINDOWS == (15 * MINUTE, 30 * MINUTE, 2 * HOUR, 24 * HOUR)


def test_everything_else_has_a_default_for_one_box() -> None:
    settings = Settings()
    assert settings.time_scale == 1
    assert settings.source.targets == ("http://127.0.0.1:9836/metrics",)
    assert settings.web.listen_address == "127.0.0.1:9837"
    assert settings.database.startswith("sqlite:///")
    assert settings.source.resolution == MINUTE


# Scaling, by annotation: a duration that somebody adds tomorrow is walked here without anybody thinking of it.


def leaves(section: type[Section], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path, annotation) of every field that is not itself a section; sections within containers included."""
    for name, hint in get_type_hints(section, include_extras=True).items():
        if name not in section.model_fields:
            continue
        optional = [part for part in get_args(hint) if part is not NoneType] if isinstance(hint, UnionType) else [hint]
        if len(optional) == 1 and isinstance(optional[0], type) and issubclass(optional[0], Section):
            yield from leaves(optional[0], (*path, name))
        else:
            yield (*path, name), hint
            for inner in sections_within(hint):
                yield from leaves(inner, (*path, name, "*"))


def sections_within(hint: Any) -> Iterator[type[Section]]:
    for part in get_args(hint):
        if isinstance(part, type) and issubclass(part, Section):
            yield part
        else:
            yield from sections_within(part)


def is_duration(hint: Any) -> bool:
    """Whether the field is written like a duration, whatever it is called."""
    return get_args(RealDuration)[:2] == get_args(hint)[:2]


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """Of a list, the value in its first entry that has the section."""
    if not path or value is None:
        return value
    if path[0] == "*":
        found = [value_at(item, path[1:]) for item in value]
        return next((item for item in found if item is not None), None)
    return value_at(getattr(value, path[0]), path[1:])


LEAVES = dict(leaves(Settings))
REAL_TIME_OUTS = {
    ("source", "timeout"),
    ("prometheus", "timeout"),
    ("prometheus", "pass_timeout"),
    ("slurm", "timeout"),
    ("kubernetes", "*", "timeout"),
    *(("notify", "receivers", "*", kind, "timeout") for kind in ("slack", "slack_webhook", "email", "webhook")),
    ("notify", "receivers", "*", "alertmanager", "timeout"),
    ("web", "auth", "session"),
}
OPTIONAL: dict[str, Any] = {"prometheus": {"url": "http://prometheus:9090"}, "slurm": {}}
"""Sections that are not there by default."""
RECEIVERS: dict[str, Any] = {
    "slack": {"token_file": "token"},
    "slack_webhook": {"url_file": "url"},
    "email": {"to": ["ops@example.org"]},
    "alertmanager": {"url": "http://alertmanager:9093"},
    "webhook": {"url": "http://hook"},
    "apprise": {"urls_file": "urls"},
}
LISTS: dict[str, Any] = {
    "kubernetes": [{}],
    "notify": {
        "receivers": [{"name": kind, kind: settings} for kind, settings in RECEIVERS.items()],
        "routes": [{"receiver": "email"}],
        "weekly": [{"receiver": "email"}],
    },
    "web": {"auth": {"anonymous": "viewer"}},
}
"""An entry of each list of sections in which there are durations."""


def test_every_optional_section_is_walked_here() -> None:
    absent = {name for name in Settings.model_fields if getattr(Settings(), name) is None}
    assert absent == OPTIONAL.keys()


def test_the_time_scale_divides_every_duration_and_nothing_else() -> None:
    settings = Settings(time_scale=30, **OPTIONAL, **LISTS)
    scaled = settings.scaled()
    durations = [path for path, hint in LEAVES.items() if is_duration(hint)]
    assert len(durations) > 15
    for path, hint in LEAVES.items():
        before, after = value_at(settings, path), value_at(scaled, path)
        if path in durations:
            assert before is not None, f"no entry above has {path}"
            assert after == (before if path in REAL_TIME_OUTS else pytest.approx(before / 30)), path
        elif not any(sections_within(hint)):
            assert after == before, path


def test_every_number_that_is_no_ratio_says_what_it_is() -> None:
    """A plain float is a duration that forgot to be one, a ratio that may be 7, or a number that may be `yes`."""
    assert [path for path, hint in LEAVES.items() if hint in (float, int, float | None, int | None)] == []


def test_scale_one_changes_nothing() -> None:
    assert Settings().scaled() == Settings()


def test_scaling_is_done_once_and_by_the_one_factor() -> None:
    scaled = Settings(time_scale=60).scaled()
    assert scaled.time_scale == 60
    assert scaled.source.timeout == 5
    assert scaled.judging.rules.idle.window == 30
    assert scaled.schedule.pass_interval == 1


# Values


def refused(data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as error:
        Settings.model_validate(data)
    return "\n".join(item["msg"] for item in error.value.errors())


@pytest.mark.parametrize(
    "value",
    ["", "5", "soon", "-5s", "1h 30m", True, None, [], {}, 0, -1, "0s", float("nan"), float("inf"), "0.1ms", "36501d"],
)
def test_what_is_no_duration_is_refused(value: object) -> None:
    assert refused({"source": {"interval": value}})


@pytest.mark.parametrize(("value", "seconds"), [("15s", 15), ("1m", 60), (20, 20), (2.5, 2.5), ("250ms", 0.25)])
def test_durations_are_text_or_seconds(value: object, seconds: float) -> None:
    assert Settings.model_validate({"source": {"interval": value}}).source.interval == seconds


@pytest.mark.parametrize("value", ["15m", "30m", "2h", "24h", "1d", 900, 7200.0])
def test_a_window_is_of_the_fixed_set(value: object) -> None:
    settings = Settings.model_validate({"judging": {"rules": {"idle": {"window": value}}}})
    assert settings.judging.rules.idle.window in WINDOWS


@pytest.mark.parametrize("value", ["10m", "901s", 0, 1, 900.5, "", None, [], {}, True, float("nan")])
def test_another_window_is_refused(value: object) -> None:
    message = refused({"judging": {"rules": {"idle": {"window": value}}}})
    assert re.search(r"one of 15m, 30m, 2h, 24h|is not a duration|valid number|expected a number", message)


@pytest.mark.parametrize("value", [-0.01, 1.01, 70, "70%", True, None, float("nan"), float("inf"), "x", []])
def test_a_ratio_lies_between_0_and_1(value: object) -> None:
    assert refused({"judging": {"coverage": value}})


@pytest.mark.parametrize("value", [0, 1, 0.5, "0.5"])
def test_a_ratio_may_come_as_text_from_the_environment(value: object) -> None:
    assert Settings.model_validate({"judging": {"coverage": value}}).judging.coverage == float(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        {"time_scale": 0},
        {"time_scale": -1},
        {"time_scale": True},
        {"time_scale": 3601},
        {"costs": {"gpu_hour": -1}},
        {"costs": {"gpu_hour": float("inf")}},
        {"source": {"targets": "http://gpu01:9836/metrics"}},
        {"source": {"targets": [7]}},
        {"source": {"targets": ["gpu01:9836"]}},
        {"source": {"targets": ["http:///metrics"]}},
        {"source": {"targets": ["file:///etc/passwd"]}},
        {"source": {"targets": ["http://gpu01:9836/ metrics"]}},
        {"source": None},
        {"source": []},
        {"kinds": [{"user": "alice"}]},
        {"kinds": [{"kind": "game"}]},
        {"kinds": {"kind": "batch"}},
        {"web": {"listen_address": 9837}},
        {"judging": {"rules": {"idle": {"enabled": "perhaps"}}}},
        {"source": {"resolution": "10s", "interval": "15s"}},
        {"notify": {"receivers": [{"name": "hook", "webhook": {"url": "http://x"}, "digest_above": 101}]}},
    ],
    ids=str,
)
def test_wrong_values_are_refused(data: dict[str, Any]) -> None:
    assert refused(data)


MAIL = {"name": "m", "email": {"sender": "gpus@example.org"}}
CHAT = {"name": "c", "slack": {"token_file": "token"}}
NO_TO = "email 'm' has no addresses of operators: give its `to`"
NO_CHANNEL = "slack 'c' has no channel of operators: give its `channel`"
NO_PEOPLE = "no user has an email address: set notify.people.address or notify.people.map_file"


@pytest.mark.parametrize(
    ("notify", "message"),
    [
        ({"receivers": [MAIL], "routes": [{"receiver": "m"}]}, NO_TO),
        ({"receivers": [MAIL], "weekly": [{"receiver": "m"}]}, NO_TO),
        ({"receivers": [CHAT], "routes": [{"receiver": "c", "audience": "operators"}]}, NO_CHANNEL),
        ({"receivers": [CHAT], "weekly": [{"receiver": "c"}]}, NO_CHANNEL),
        ({"receivers": [MAIL], "routes": [{"receiver": "m", "audience": "owner"}]}, NO_PEOPLE),
        ({"receivers": [CHAT], "routes": [{"receiver": "c", "audience": "owner"}]}, NO_PEOPLE),
    ],
)
def test_a_route_that_reaches_nobody_is_refused(notify: dict[str, Any], message: str) -> None:
    assert message in refused({"notify": notify})


@pytest.mark.parametrize("people", [{"address": "{user}@example.org"}, {"map_file": "people"}])
@pytest.mark.parametrize("receiver", [MAIL, CHAT])
def test_a_receiver_of_users_alone_needs_no_address_of_operators(
    receiver: dict[str, Any], people: dict[str, str]
) -> None:
    routes = [{"receiver": receiver["name"], "audience": "owner"}]
    Settings.model_validate({"notify": {"people": people, "receivers": [MAIL, CHAT], "routes": routes}})


def test_a_day_of_minutes_cannot_be_kept_of_scrapes_that_are_rarer() -> None:
    assert "source.resolution must not be shorter than source.interval" in refused(
        {"source": {"resolution": "10s", "interval": "15s"}}
    )


OPENING_AND_CLEARING = [
    ("idle", "below", "clear_above"),
    ("partially_idle", "below", "clear_above"),
    ("partially_idle", "below", "busiest_at_least"),
    ("stalled", "at_least", "below"),
    ("stalled", "below", "clear_above"),
    ("stalled", "clear_gap_share", "gap_share"),
    ("stalled", "clear_cpu_of_limit", "cpu_of_limit"),
    ("stalled", "clear_pressure", "pressure"),
    ("uneven", "clear_spread", "spread"),
    ("low_sm_activity", "below", "clear_above"),
    ("hung", "idle_below", "spinning_at_least"),
    ("underused", "below", "clear_above"),
]


@pytest.mark.parametrize(("rule", "lower", "higher"), OPENING_AND_CLEARING)
def test_a_rule_cannot_clear_where_it_opens(rule: str, lower: str, higher: str) -> None:
    bound = DESIGN_RULES[rule][lower]
    assert f"{lower} must be lower than {higher}" in refused({"judging": {"rules": {rule: {higher: bound}}}})


def test_every_clearing_bound_is_compared_with_an_opening_bound() -> None:
    compared = {(rule, key) for rule, *keys in OPENING_AND_CLEARING for key in keys}
    for rule, numbers in DESIGN_RULES.items():
        assert {(rule, key) for key in numbers if key.startswith("clear_") and key != "clear_window"} <= compared


@pytest.mark.parametrize(("key", "good", "bad"), [("resolution", "5m", "301s"), ("retention", "24h", "86399s")])
def test_counters_are_kept_closely_and_long_enough_for_every_window(key: str, good: str, bad: str) -> None:
    assert Settings.model_validate({"source": {key: good}})
    assert refused({"source": {key: bad}})


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings().time_scale = 30


@given(st.floats(0.001, 36500 * 86400))
def test_durations_survive_being_printed_and_read_again(seconds: float) -> None:
    """`dutycycle config` prints what can be used as a configuration."""
    settings = Settings.model_validate({"judging": {"lost_after": seconds}})
    again = Settings.model_validate(settings.model_dump(mode="json"))
    assert again == settings
    assert again.judging.lost_after == seconds


def test_the_annotations_are_those_that_the_walk_above_looks_for() -> None:
    assert is_duration(Duration)
    assert is_duration(RealDuration)
    assert is_duration(Window)
    assert not is_duration(get_type_hints(Settings, include_extras=True)["time_scale"])


# Matching jobs


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ({}, True),
        ({"user": "alice"}, True),
        ({"user": "ali*"}, True),
        ({"user": "Alice"}, False),
        ({"user": "alice", "partition": "debug"}, False),
        ({"workload": "slurm/*"}, True),
        ({"namespace": ""}, True),
        ({"namespace": "?*"}, False),
    ],
)
def test_every_given_field_of_a_match_must_match(match: dict[str, str], *, matches: bool) -> None:
    job = Job("slurm/7", (), 0.0, user="alice", partition="gpu")
    assert JobMatch(**match).matches_job(job) is matches


def test_a_source_is_prometheus_or_the_exporters_and_not_both() -> None:
    engine = {"url": "http://prometheus:9090"}
    data = {"prometheus": engine, "source": {"targets": ["http://gpu01:9836/metrics"]}}
    assert "prometheus and source.targets exclude each other" in refused(data)
    assert Settings.model_validate({"prometheus": engine, "source": {"interval": "15s"}}).prometheus is not None


@pytest.mark.parametrize(("scale", "whole"), [(1, True), (75, True), (60, True), (90, False), (7, False)])
def test_promqls_steps_are_whole_milliseconds(scale: float, whole: bool) -> None:
    data = {"time_scale": scale, "prometheus": {"url": "http://prometheus:9090", "scrape_interval": "30s"}}
    if whole:
        assert Settings.model_validate(data).time_scale == scale
    else:
        assert "must be whole milliseconds" in refused(data)


def test_what_dutycycle_config_prints_can_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("prometheus: {url: 'http://prometheus:9090'}\n")
    printed = CliRunner().invoke(config, [str(file)])
    assert printed.exit_code == 0
    assert parse(yaml.safe_load(printed.output)) == load(file)
