"""What policies and wishes do with a job's verdicts, on both sides of every bound."""

import pytest

from dutycycle_alerter.config_file import parse
from dutycycle_alerter.declarations import Declarations
from dutycycle_alerter.incidents.audience import Audience, audience, owner_hears
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import OpenRule, Severity
from dutycycle_alerter.model import JobKind
from dutycycle_alerter.notify.routing import Routing
from dutycycle_alerter.policies import PoliciesInForce
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.settings.policies import Attention
from tests.alerter.cases import evidence
from tests.alerter.notify.outbox import notify, route
from tests.alerter.policies.application import (
    HOUR,
    LONG_AGO,
    MINUTE,
    NOW,
    applied,
    configured,
    excluding,
    idle,
    instant,
    outcome,
    wishing,
)

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


@pytest.mark.parametrize(("severity", "silent"), [("none", True), ("info", False), ("warning", False)])
def test_operators_who_are_to_hear_nothing_are_not_in_any_route(severity: str, *, silent: bool) -> None:
    settings = configured(exceptions=[{"name": "x", "reason": "y", "operator_severity": severity}])
    incident = advance(None, applied(settings).judgement, settings.judging).incident
    assert incident is not None
    assert incident.silent is silent
    routing = Routing(notify(route("email", severity="info"), route("email", "owner")))
    assert (routing.operators(incident) == []) is silent
    assert routing.owner(incident, "email") is not None
    # The policy is gone.
    later = advance(incident, applied(configured(), idle(NOW + MINUTE)).judgement, settings.judging).incident
    assert later is not None
    assert len(routing.operators(later)) == 1


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
