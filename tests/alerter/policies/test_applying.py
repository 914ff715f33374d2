"""What policies, wishes and maintenance do with a job's verdicts, on both sides of every bound."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dutycycle_alerter.config_file import parse
from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.incidents.audience import Audience, audience, owner_hears
from dutycycle_alerter.incidents.lifecycle import advance, lose
from dutycycle_alerter.incidents.model import Incident, OpenRule, Resolution, Severity
from dutycycle_alerter.model import DeviceWindow, Evidence, Gpu, GpuEvidence, JobEvidence, JobKind
from dutycycle_alerter.policies import Applied, NoticeKind, NoticeLog, PoliciesInForce, notices
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.policies import Attention
from tests.alerter.cases import evidence

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


NOW = instant("2026-11-25T12:00:00Z")  # a Wednesday
LONG_AGO = NOW - 10 * HOUR


def configured(**policies: object) -> Settings:
    return parse({"policies": policies}).scaled()


def excluding(**fields: object) -> Settings:
    return configured(exceptions=[{"name": "course", "reason": "a course", "exclude": True} | fields])


def maintained(**fields: object) -> Settings:
    return configured(maintenance=[{"name": "rack", "reason": "new PDUs"} | fields])


def idle(at: float = NOW, **fields: object) -> JobEvidence:
    return evidence([0.0, 0.0], at=at, start=LONG_AGO, first_process=LONG_AGO, **fields)  # type: ignore[arg-type]


def applied(
    settings: Settings, item: JobEvidence | None = None, declared: Mapping[str, Declarations] | None = None
) -> Applied:
    item = item or idle()
    policies = PoliciesInForce(settings, item.at, declared)
    (prepared,) = policies.prepared(Evidence([item])).jobs
    return policies.applied(judge(prepared, settings.judging))


def outcome(given: Applied, rule: str = "idle") -> Outcome:
    return given.judgement.verdict(rule).outcome


# Exclusion


def test_without_policies_nothing_changes() -> None:
    settings = configured()
    given = applied(settings)
    assert given.judgement.verdicts == judge(idle(), settings.judging).verdicts
    assert (given.excluded, given.wished, given.refused, given.maintenance) == ({}, frozenset(), frozenset(), None)


def test_a_policy_takes_a_job_out_of_the_rules_that_it_names_and_says_why() -> None:
    given = applied(excluding(user="alice", rules=["idle"], expires="2026-12-31"))
    verdict = given.judgement.verdict("idle")
    assert (verdict.outcome, verdict.reason) == (
        Outcome.EXCLUDED,
        "excluded by policy course until 2026-12-31: a course",
    )
    assert outcome(given, "uneven") is not Outcome.EXCLUDED
    assert {rule: policy.name for rule, policy in given.excluded.items()} == {"idle": "course"}


def test_a_policy_that_names_no_rule_is_about_all_that_apply_to_the_job() -> None:
    single = evidence([0.0], at=NOW, start=LONG_AGO, first_process=LONG_AGO)
    given = applied(excluding(), single)
    outcomes = {verdict.outcome for verdict in given.judgement.verdicts}
    assert outcomes == {Outcome.EXCLUDED, Outcome.NOT_APPLICABLE}
    assert outcome(given, "partially_idle") is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("expires", "excluded"),
    [
        ("2026-11-25T12:00:00Z", False),  # exactly now
        ("2026-11-25T12:00:01Z", True),
        ("2026-11-25T13:00:00+01:00", False),
        ("2026-11-25T11:59:59Z", False),
        ("2026-11-24", False),
        ("2026-11-25", True),  # a day counts to its end
        (None, True),
    ],
)
def test_a_policy_is_in_force_up_to_its_end_and_not_at_it(expires: str | None, *, excluded: bool) -> None:
    assert (outcome(applied(excluding(expires=expires))) is Outcome.EXCLUDED) is excluded


@pytest.mark.parametrize(("zone", "excluded"), [("UTC", False), ("America/Los_Angeles", True), ("Asia/Tokyo", False)])
def test_a_day_ends_in_the_policies_zone(zone: str, *, excluded: bool) -> None:
    entry = {"name": "x", "reason": "y", "exclude": True, "expires": "2026-11-24"}
    settings = configured(timezone=zone, exceptions=[entry])
    item = idle(at=instant("2026-11-25T00:00:00Z"))
    assert (outcome(applied(settings, item)) is Outcome.EXCLUDED) is excluded


def test_an_earlier_policy_keeps_in_what_a_later_one_takes_out_and_an_expired_one_does_not() -> None:
    keep = {"name": "but alice", "reason": "she asked", "user": "alice", "exclude": False}
    out = {"name": "all", "reason": "course", "exclude": True}
    assert outcome(applied(configured(exceptions=[keep, out]))) is Outcome.FIRING
    assert outcome(applied(configured(exceptions=[out, keep]))) is Outcome.EXCLUDED
    assert outcome(applied(configured(exceptions=[keep | {"expires": "2026-11-24"}, out]))) is Outcome.EXCLUDED
    assert outcome(applied(configured(exceptions=[keep | {"rules": ["uneven"]}, out]))) is Outcome.EXCLUDED


# Severities


@pytest.mark.parametrize(
    ("fields", "operators", "user"),
    [
        ({"operator_severity": "info"}, Severity.INFO, Attention.CRITICAL),
        ({"operator_severity": "none"}, Severity.INFO, Attention.CRITICAL),
        ({"operator_severity": "warning"}, Severity.WARNING, Attention.CRITICAL),
        ({"operator_severity": "info", "user_severity": "warning"}, Severity.INFO, Attention.WARNING),
        ({"user_severity": "none"}, Severity.CRITICAL, Attention.NONE),
        ({"user_severity": "info", "operator_severity": "warning"}, Severity.WARNING, Attention.INFO),
        ({"user_severity": "none", "rules": ["uneven"]}, Severity.CRITICAL, None),
        ({"user_severity": "none", "user": "bob"}, Severity.CRITICAL, None),
    ],
    ids=str,
)
def test_operators_and_the_user_each_have_their_severity(
    fields: dict[str, object], operators: Severity, user: Attention | None
) -> None:
    settings = configured(exceptions=[{"name": "x", "reason": "y"} | fields])
    given = applied(settings)
    verdict = given.judgement.verdict("idle")
    assert (verdict.severity, verdict.told) == (operators, user)
    incident = advance(None, given.judgement, settings.judging).incident
    assert incident is not None
    assert (incident.severity, owner_hears(incident.rules[0])) == (operators, user or Attention.CRITICAL)
    told = user in (None, Attention.WARNING, Attention.CRITICAL)
    other = Audience.NOBODY if operators is Severity.INFO else Audience.OPERATORS
    assert audience(incident) is (Audience.OWNER if told else other)


def test_what_a_user_is_to_hear_follows_the_policies_while_the_incident_is_open() -> None:
    settings = configured(exceptions=[{"name": "x", "reason": "y", "user_severity": "none", "expires": "2026-11-25"}])
    incident = advance(None, applied(settings).judgement, settings.judging).incident
    assert incident is not None
    assert owner_hears(incident.rules[0]) is Attention.NONE
    same = advance(incident, applied(settings).judgement, settings.judging)
    assert (same.incident, same.events) == (incident, ())
    later = advance(incident, applied(settings, idle(NOW + 13 * HOUR)).judgement, settings.judging).incident
    assert later is not None
    assert owner_hears(later.rules[0]) is Attention.CRITICAL


def test_a_hang_that_nothing_confirms_is_told_to_a_user_only_where_a_policy_says_so() -> None:
    assert owner_hears(OpenRule("hung", NOW, Severity.WARNING)) is Attention.NONE
    assert owner_hears(OpenRule("hung", NOW, Severity.CRITICAL)) is Attention.CRITICAL
    assert owner_hears(OpenRule("hung", NOW, Severity.WARNING, Attention.WARNING)) is Attention.WARNING


def test_each_severity_is_that_of_the_first_policy_that_has_one() -> None:
    given = applied(
        configured(
            exceptions=[
                {"name": "a", "reason": "r", "operator_severity": "warning"},
                {"name": "b", "reason": "r", "operator_severity": "info", "user_severity": "info"},
            ]
        )
    )
    verdict = given.judgement.verdict("idle")
    assert (verdict.severity, verdict.told) == (Severity.WARNING, Attention.INFO)


# Wishes of the job itself


def wishing(*rules: str, **fields: object) -> dict[str, Declarations]:
    return {"slurm/1": Declarations(ignore=frozenset(rules), **fields)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("allowed", "asked", "excluded"),
    [
        ([], "idle", False),
        ([{}], "idle", True),
        ([{}], "all", True),
        ([{}], "uneven", False),
        ([{"rules": ["idle"]}], "all", True),
        ([{"rules": ["uneven"]}], "idle", False),
        ([{"user": "bob"}], "idle", False),
        ([{"user": "bob"}, {"partition": "*"}], "idle", True),
        ([{"kind": "serving"}], "idle", False),
    ],
    ids=str,
)
def test_a_jobs_wish_counts_where_the_policies_allow_it(allowed: object, asked: str, *, excluded: bool) -> None:
    given = applied(configured(opt_out={"allowed": allowed}), declared=wishing(asked))
    assert (outcome(given) is Outcome.EXCLUDED) is excluded
    assert ("idle" in given.wished) is excluded
    assert ("idle" in given.refused) is (not excluded and asked in ("idle", "all"))


def test_a_refused_wish_stands_in_the_incidents_evidence() -> None:
    settings = configured()
    given = applied(settings, declared=wishing("idle"))
    incident = advance(None, given.judgement, settings.judging).incident
    assert incident is not None
    assert incident.diagnosis.evidence[-1] == "the job asked to be left out of this rule; no policy allows it"


@pytest.mark.parametrize(("longest", "excluded"), [("10h", True), ("9h59m59s", False)])
def test_a_wish_counts_for_so_long_after_the_jobs_start(longest: str, *, excluded: bool) -> None:
    given = applied(configured(opt_out={"allowed": [{}], "longest": longest}), declared=wishing("idle"))
    assert (outcome(given) is Outcome.EXCLUDED) is excluded
    if not excluded:
        assert "no longer counts" in given.judgement.verdict("idle").reason


def test_how_long_a_wish_counts_is_scaled_like_every_duration() -> None:
    settings = parse({"time_scale": 60, "policies": {"opt_out": {"allowed": [{}], "longest": "10h"}}}).scaled()
    assert outcome(applied(settings, declared=wishing("idle"))) is Outcome.FIRING


def test_a_wish_of_another_job_is_not_this_ones() -> None:
    settings = configured(opt_out={"allowed": [{}]})
    assert outcome(applied(settings, declared={"slurm/2": Declarations(ignore=frozenset({"idle"}))})) is Outcome.FIRING


# Kinds and uneven ranks


@pytest.mark.parametrize(
    ("data", "declared", "kind"),
    [
        ({}, None, JobKind.BATCH),
        ({}, JobKind.SERVING, JobKind.BATCH),
        ({"policies": {"opt_out": {"kinds": [{"user": "alice"}]}}}, JobKind.SERVING, JobKind.SERVING),
        ({"policies": {"opt_out": {"kinds": [{"user": "bob"}]}}}, JobKind.SERVING, JobKind.BATCH),
        (
            {"kinds": [{"kind": "interactive"}], "policies": {"opt_out": {"kinds": [{}]}}},
            JobKind.SERVING,
            JobKind.INTERACTIVE,
        ),
        ({"kinds": [{"kind": "serving", "qos": "web"}]}, None, JobKind.SERVING),
    ],
    ids=str,
)
def test_a_jobs_kind_is_what_the_site_says_else_what_it_may_say_itself(
    data: dict[str, object], declared: JobKind | None, kind: JobKind
) -> None:
    policies = PoliciesInForce(parse(data), NOW, {"slurm/1": Declarations(kind=declared)})
    assert policies.completed(idle(qos="web").job).kind is kind


@pytest.mark.parametrize(
    ("data", "declared", "uneven"),
    [({}, False, False), ({}, True, True), ({"uneven_by_design": [{"user": "alice"}]}, False, True)],
)
def test_uneven_ranks_may_be_said_by_anybody(data: dict[str, object], declared: bool, *, uneven: bool) -> None:
    policies = PoliciesInForce(parse(data), NOW, {"slurm/1": Declarations(expect_uneven=declared)})
    assert policies.completed(idle().job).expect_uneven is uneven


# Maintenance

OPEN = {"start": "2026-11-25T11:00:00Z", "end": "2026-11-25T13:00:00Z"}


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


WEEKLY = {"days": ["tue"], "opens": "22:00", "closes": "02:00", "timezone": "Europe/Oslo"}


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


# Notices


def told(settings: Settings, declared: Mapping[str, Declarations] | None = None) -> list[tuple[str, str, int]]:
    policies = PoliciesInForce(settings, NOW, declared)
    given = [policies.applied(judge(idle(id=f"slurm/{n}"), settings.judging)) for n in (1, 2, 3)]
    return [(notice.kind.value, notice.text, notice.jobs) for notice in notices(policies, given)]


def test_notices_say_how_many_jobs_are_left_out_of_what_and_until_when() -> None:
    assert told(excluding(rules=["idle", "underused"], expires="2026-12-31")) == [
        ("excluded", "3 jobs excluded from idle and underused by policy course until 2026-12-31", 3)
    ]
    assert told(excluding(workload="slurm/2")) == [("excluded", "1 job excluded from all rules by policy course", 1)]


@pytest.mark.parametrize(
    ("expires", "kinds"),
    [
        ("2026-11-25T12:00:00Z", ["expired"]),
        ("2026-11-25T12:00:01Z", ["expiring", "excluded"]),
        ("2026-12-09T12:00:00Z", ["expiring", "excluded"]),
        ("2026-12-09T12:00:01Z", ["excluded"]),
    ],
)
def test_notices_tell_what_expired_and_two_weeks_before_what_will(expires: str, kinds: list[str]) -> None:
    assert [kind for kind, _, _ in told(excluding(expires=expires))] == kinds


def test_notices_tell_a_maintenance_that_goes_on_and_wishes() -> None:
    assert told(maintained(**OPEN)) == [("maintenance", "maintenance rack until 2026-11-25 13:00 UTC: new PDUs", 3)]
    assert told(configured(), wishing("idle")) == [
        ("refused", "1 job asked to be left out of a rule that fires; the policies do not allow it", 1)
    ]
    assert told(configured(opt_out={"allowed": [{}]}), wishing("idle")) == [
        ("excluded", "1 job excluded as the jobs ask, which the policies allow", 1)
    ]


def test_what_lasts_is_logged_once_and_again_when_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    settings = excluding(expires="2026-11-24", name="old\x1b[2J")
    policies = PoliciesInForce(settings, NOW)
    given = notices(policies, [])
    log = NoticeLog()
    log.tell(given)
    log.tell(given)
    assert [record.getMessage() for record in caplog.records] == [
        "policy old␛[2J expired (2026-11-24) and does nothing any more"
    ]
    log.tell(())
    log.tell(given)
    assert len(caplog.records) == 2
    assert all(notice.kind is NoticeKind.EXPIRED for notice in given)


def test_policies_of_one_instant_do_not_depend_on_the_machines_clock_or_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    assert PoliciesInForce(maintained(**WEEKLY), instant("2026-11-24T21:00:00Z")).calendar.open()[0].since == (
        datetime(2026, 11, 24, 21, tzinfo=UTC).timestamp()
    )
