"""What maintenance does with verdicts and incidents, on both sides of every bound."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dutycycle_alerter.incidents.lifecycle import advance, lose
from dutycycle_alerter.incidents.model import Incident, Resolution, Severity
from dutycycle_alerter.model import DeviceWindow, Evidence, Gpu, GpuEvidence
from dutycycle_alerter.policies import PoliciesInForce
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.settings import Settings
from tests.alerter.policies.application import (
    DAY,
    HOUR,
    LONG_AGO,
    MINUTE,
    NOW,
    OPEN,
    WEEKLY,
    applied,
    idle,
    instant,
    maintained,
    outcome,
)


@pytest.mark.parametrize(
    ("fields", "firing"),
    [
        (OPEN, False),
        (OPEN | {"node": "node0"}, False),
        (OPEN | {"node": ["other", "node*"]}, False),
        (OPEN | {"node": "node7"}, True),
        (OPEN | {"partition": "gpu"}, False),
        (OPEN | {"partition": "debug"}, True),
        (OPEN | {"cluster": "alpha"}, True),
        ({"start": "2026-11-25T12:00:00Z", "end": "2026-11-25T13:00:00Z"}, False),  # begins exactly now
        ({"start": "2026-11-25T12:00:01Z", "end": "2026-11-25T13:00:00Z"}, True),
        # It ended half an hour ago: the window of half an hour shows none of it; a second later it would.
        ({"start": "2026-11-25T08:00:00Z", "end": "2026-11-25T11:30:00Z"}, True),
        ({"start": "2026-11-25T08:00:00Z", "end": "2026-11-25T11:30:01Z"}, False),
        ({"start": "2026-11-24", "end": "2026-11-24"}, True),
        ({"start": "2026-11-25", "end": "2026-11-25"}, False),
    ],
    ids=str,
)
def test_nothing_fires_under_maintenance_nor_on_what_it_left(fields: dict[str, object], *, firing: bool) -> None:
    given = applied(maintained(**fields), idle(partition="gpu"))
    assert (outcome(given) is Outcome.FIRING) is firing


def test_what_a_maintenance_left_is_not_counted_by_longer_windows_either() -> None:
    """Critical needs two hours of idling of which none is the maintenance's."""
    given = applied(maintained(start="2026-11-25T08:00:00Z", end="2026-11-25T11:00:00Z"))
    assert given.judgement.verdict("idle").severity is Severity.WARNING
    earlier = applied(maintained(start="2026-11-25T08:00:00Z", end="2026-11-25T10:00:00Z"))
    assert earlier.judgement.verdict("idle").severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("at", "going_on"),
    [
        ("2026-11-24T20:59:59Z", False),
        ("2026-11-24T21:00:00Z", True),
        ("2026-11-25T00:59:59Z", True),
        ("2026-11-25T01:00:00Z", False),
        ("2026-11-25T21:00:00Z", False),
        ("2026-11-17T23:00:00Z", True),
        # In summer the same times of day are an hour earlier.
        ("2026-07-14T19:59:59Z", False),
        ("2026-07-14T20:00:00Z", True),
        ("2026-07-14T23:59:59Z", True),
        ("2026-07-15T00:00:00Z", False),
    ],
)
def test_a_weekly_maintenance_goes_by_the_clocks_of_its_zone(at: str, *, going_on: bool) -> None:
    policies = PoliciesInForce(maintained(**WEEKLY), instant(at))
    assert (policies.applied(judge(idle(instant(at)), Settings().judging)).maintenance is not None) is going_on


def test_nothing_resolves_for_lack_of_evidence_under_maintenance() -> None:
    settings = maintained(**OPEN)
    before = advance(None, judge(idle(), settings.judging), settings.judging).incident
    assert before is not None
    stalled = replace(before, rules=(replace(before.rules[0], rule="stalled"),), rule="stalled")
    judgement = judge(idle(NOW + MINUTE), settings.judging)
    blind = replace(judgement, verdicts=tuple(replace(v, outcome=Outcome.NOT_EVALUABLE) for v in judgement.verdicts))
    policies = PoliciesInForce(settings, NOW + MINUTE)
    assert advance(stalled, policies.applied(blind).judgement, settings.judging).incident == stalled
    assert advance(stalled, blind, settings.judging).incident != stalled


def test_an_incident_is_not_lost_while_its_nodes_are_maintained_nor_at_once_afterwards() -> None:
    settings = maintained(start="2026-11-20", end="2026-11-25", node="node0")
    incident = advance(None, judge(idle(), settings.judging), settings.judging).incident
    assert incident is not None
    old = replace(incident, known_at=NOW - 5 * DAY)
    assert lost(old, settings, NOW)
    kept = PoliciesInForce(settings, NOW).sustained(old)
    assert kept.known_at == NOW
    assert not lost(kept, settings, NOW + 23 * HOUR)
    assert lost(kept, settings, NOW + 24 * HOUR)
    elsewhere = replace(old, gpus=(Gpu("other", "0"),))
    assert PoliciesInForce(settings, NOW).sustained(elsewhere) is elsewhere
    # Where its job is now goes before where it was.
    assert PoliciesInForce(settings, NOW).sustained(old, ["node7"]) is old
    assert PoliciesInForce(settings, NOW).sustained(elsewhere, ["node7", "node0"]).known_at == NOW


def test_a_gpus_incident_is_sustained_by_a_maintenance_of_its_nodes_partition() -> None:
    settings = maintained(partition="gpu", **OPEN)
    incident = advance(None, judge(idle(), settings.judging), settings.judging).incident
    assert incident is not None
    fault = replace(incident, kind="gpu_fault", partition="", known_at=NOW - DAY)
    assert PoliciesInForce(settings, NOW).sustained(fault).known_at == NOW - DAY
    known = PoliciesInForce(settings, NOW, partitions={"node0": ("cpu", "gpu")})
    assert known.sustained(fault).known_at == NOW


def lost(incident: Incident, settings: Settings, now: float) -> bool:
    changed = lose(incident, settings.judging, now=now).incident
    return changed is not None and changed.resolution is Resolution.LOST


def test_a_gpus_evidence_of_a_maintenance_is_left_out() -> None:
    settings = maintained(start="2026-11-25T08:00:00Z", end="2026-11-25T11:00:00Z", node="gpu07")
    item = GpuEvidence(
        gpu=Gpu("gpu07", "0"),
        at=NOW,
        window=DeviceWindow,
        watched_from=LONG_AGO,
        xids={79: instant("2026-11-25T09:00:00Z"), 63: instant("2026-11-25T11:00:00Z"), 31: LONG_AGO},
    )
    other = replace(item, gpu=Gpu("gpu08", "0"))
    first, second = PoliciesInForce(settings, NOW).prepared(Evidence(gpus=[item, other])).gpus
    assert first.watched_from == instant("2026-11-25T11:00:00Z")
    assert set(first.xids) == {63, 31}
    assert second is other


@pytest.mark.parametrize(
    ("cluster", "partitions", "going_on"),
    [("", (), False), ("alpha", (), False), ("alpha", ("gpu",), True), ("beta", ("gpu",), False)],
)
def test_a_node_is_under_a_partitions_maintenance_where_its_partitions_are_known(
    cluster: str, partitions: tuple[str, ...], *, going_on: bool
) -> None:
    settings = maintained(partition="gpu", cluster="alpha", **OPEN)
    policies = PoliciesInForce(settings, NOW, cluster_of=lambda _: cluster, partitions={"n1": partitions})
    assert (policies.on_node("n1") is not None) is going_on


def test_what_a_job_was_like_as_a_whole_is_judged_at_its_end_in_spite_of_an_earlier_maintenance() -> None:
    settings = maintained(start="2026-11-25T08:00:00Z", end="2026-11-25T11:45:00Z")
    policies = PoliciesInForce(settings, NOW)
    judgement = judge(idle(ended=NOW), settings.judging)
    assert policies.applied(judgement).judgement == judgement
    assert outcome(policies.applied(judge(idle(), settings.judging))) is Outcome.UNKNOWN


def test_policies_of_one_instant_do_not_depend_on_the_machines_clock_or_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    assert PoliciesInForce(maintained(**WEEKLY), instant("2026-11-24T21:00:00Z")).calendar.open()[0].since == (
        datetime(2026, 11, 24, 21, tzinfo=UTC).timestamp()
    )
