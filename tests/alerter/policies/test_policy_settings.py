"""What policies may say in the configuration, and how a wrong one is refused."""

from contextlib import suppress
from datetime import UTC, date, datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.config_file import parse
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.settings import Policies, Settings
from dutycycle_alerter.settings.calendar import beginning, end, span, zone_of

REASON = {"name": "course", "reason": "a course"}


def policy(**fields: object) -> dict[str, object]:
    return {"policies": {"exceptions": [REASON | {"exclude": True} | fields]}}


def window(**fields: object) -> dict[str, object]:
    return {"policies": {"maintenance": [REASON | fields]}}


def test_without_a_word_there_are_no_policies() -> None:
    assert Settings().policies == Policies(timezone="UTC", exceptions=(), maintenance=())
    assert Settings().policies.opt_out.allowed == ()


def test_a_file_may_say_everything() -> None:
    text = """
    policies:
      timezone: Europe/Oslo
      exceptions:
      - name: course
        account: [cs101, "cs2*"]
        label: team=vision-*
        model: "*H100*"
        kind: interactive
        rules: [idle, underused]
        exclude: true
        expires: 2026-12-31
        reason: notebooks of a course
      - {name: quiet, user: root, operator_severity: none, user_severity: info, reason: tests of the operators,
         expires: 2026-12-31T18:00:00+01:00}
      opt_out:
        allowed: [{partition: serving, rules: [idle]}]
        kinds: [{namespace: inference}]
        longest: 2d
      maintenance:
      - {name: rack 7, node: "gpu07*", start: 2026-12-01T08:00:00Z, end: 2026-12-02, reason: new PDUs}
      - {name: patches, days: [tue, thu], opens: 22:00, closes: 02:00, timezone: America/New_York, reason: patches}
    """
    read = parse(yaml.safe_load(text)).policies
    course, quiet = read.exceptions
    assert (course.account, course.rules, course.expires) == (
        ("cs101", "cs2*"),
        ("idle", "underused"),
        date(2026, 12, 31),
    )
    assert isinstance(quiet.expires, datetime)
    assert quiet.expires.astimezone(UTC) == datetime(2026, 12, 31, 17, tzinfo=UTC)
    assert read.opt_out.longest == 2 * 86400
    # YAML reads 22:00 as the number 1320, and 02:00 as text.
    assert (read.maintenance[1].opens, read.maintenance[1].closes) == ("22:00", "02:00")
    again = parse(yaml.safe_load(yaml.safe_dump(parse(yaml.safe_load(text)).model_dump(mode="json"))))
    assert again.policies == read


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (policy(user=[]), "policies.exceptions.0.user: an empty list matches nothing"),
        (policy(user=7), "policies.exceptions.0.user: expected a pattern or a list of patterns"),
        (policy(user=["a", 7]), "expected a pattern or a list of patterns"),
        (policy(label="team"), "name=pattern: write team=* for any value"),
        (policy(label="=x"), "a label is asked for as name=pattern"),
        (policy(rules=["idel"]), "there is no rule 'idel' on jobs: did you mean 'idle'?"),
        (policy(rules=["gpu_fault"]), "there is no rule 'gpu_fault' on jobs"),
        (policy(exclude=None), "the policy 'course' does nothing: give exclude"),
        (policy(user_severity="loud"), "policies.exceptions.0.user_severity"),
        (policy(reason=" "), "policies.exceptions.0.reason"),
        (policy(name=""), "policies.exceptions.0.name"),
        (policy(usr="x"), "policies.exceptions.0.usr: unknown key; did you mean 'user'?"),
        (
            policy(expires="tomorrow"),
            "policies.exceptions.0.expires: expected a day (2026-12-31) or a time with offset",
        ),
        (policy(expires="2026-12-31T18:00:00"), "a time says its offset"),
        (policy(expires=datetime(2026, 12, 31, 18)), "a time says its offset"),  # noqa: DTZ001
        (policy(expires="2026-02-30"), "there is no such day or time"),
        (policy(expires="1999-01-01"), "a year lies between 2000 and 2199"),
        (policy(expires=20261231), "expected a day"),
        ({"policies": {"exceptions": [REASON | {"exclude": True}] * 2}}, "two policies are called 'course'"),
        ({"policies": {"timezone": "Europe/Olso"}}, "did you mean Europe/Oslo?"),
        ({"policies": {"timezone": "../../etc/passwd"}}, "is not a time zone"),
        ({"policies": {"opt_out": {"allowed": [{"rules": ["x"]}]}}}, "there is no rule 'x' on jobs"),
        (window(), "needs start and end, or opens and closes"),
        (window(start="2026-12-01"), "needs start and end"),
        (window(start="2026-12-01", end="2026-12-02", opens="08:00", closes="09:00"), "needs start and end"),
        (window(start="2026-12-01", end="2026-12-02", days=["mon"]), "needs start and end"),
        (window(days=["mon"]), "needs start and end"),
        (window(start="2026-12-02", end="2026-12-01"), "ends before it begins"),
        (window(start="2026-12-01T08:00:00Z", end="2026-12-01T08:00:00Z"), "ends before it begins"),
        (window(opens="08:00", closes="08:00"), "closes when it opens"),
        (window(opens="24:00", closes="08:00"), "write 00:00"),
        (window(opens="8", closes="09:00"), "a time of day is written like 08:30"),
        (window(opens="08:60", closes="09:00"), "a time of day is written like 08:30"),
        (window(opens="24:01", closes="09:00"), "a time of day is written like 08:30"),
        (window(opens=True, closes="09:00"), "a time of day is written like 08:30"),
        (window(opens="08:00", closes="09:00", days=["someday"]), "policies.maintenance.0.days.0"),
    ],
    ids=str,
)
def test_a_wrong_policy_is_refused_with_its_key(data: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(data)
    assert said in str(refused.value)


OSLO = zone_of("Europe/Oslo")


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_day_begins_and_ends_in_its_zone() -> None:
    day = date(2026, 3, 29)
    assert (beginning(day, OSLO), end(day, OSLO)) == (at("2026-03-28T23:00:00Z"), at("2026-03-29T22:00:00Z"))
    assert end(day, OSLO) - beginning(day, OSLO) == 23 * 3600
    assert (beginning(day, UTC), end(day, UTC)) == (at("2026-03-29T00:00:00Z"), at("2026-03-30T00:00:00Z"))


@pytest.mark.parametrize(
    ("day", "opens", "closes", "first", "last"),
    [
        (date(2026, 11, 24), "08:00", "09:30", "2026-11-24T07:00:00Z", "2026-11-24T08:30:00Z"),
        (date(2026, 11, 24), "22:00", "02:00", "2026-11-24T21:00:00Z", "2026-11-25T01:00:00Z"),
        (date(2026, 11, 24), "00:00", "24:00", "2026-11-23T23:00:00Z", "2026-11-24T23:00:00Z"),
        (date(2026, 11, 24), "22:00", "24:00", "2026-11-24T21:00:00Z", "2026-11-24T23:00:00Z"),
        # The clocks go forward at 02:00: the night is an hour shorter, and 02:30 is not on the clock.
        (date(2026, 3, 28), "22:00", "06:00", "2026-03-28T21:00:00Z", "2026-03-29T04:00:00Z"),
        (date(2026, 3, 29), "01:30", "02:30", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"),
        # They go back at 03:00: 02:30 comes twice, and the longer span is taken.
        (date(2026, 10, 24), "22:00", "06:00", "2026-10-24T20:00:00Z", "2026-10-25T05:00:00Z"),
        (date(2026, 10, 25), "02:30", "02:45", "2026-10-25T00:30:00Z", "2026-10-25T01:45:00Z"),
    ],
)
def test_times_of_day_follow_the_clocks_of_their_zone(
    day: date, opens: str, closes: str, first: str, last: str
) -> None:
    assert span(day, opens, closes, OSLO) == (at(first), at(last))


CLOCKS = st.integers(0, 24 * 60 - 1).map(lambda n: f"{n // 60:02}:{n % 60:02}")


@given(st.dates(date(2020, 1, 1), date(2040, 1, 1)), CLOCKS, CLOCKS)
def test_a_time_of_day_opens_before_it_closes_and_within_a_day(day: date, opens: str, closes: str) -> None:
    if opens != closes:
        first, last = span(day, opens, closes, OSLO)
        assert 0 < last - first <= 26 * 3600


@given(st.text(max_size=30))
def test_any_text_is_a_moment_or_an_error_of_the_configuration(text: str) -> None:
    with suppress(ConfigError):
        parse(policy(expires=text))
