"""What people marked as intended takes jobs out of rules for as long as it holds, and operators see what it does."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dutycycle_alerter.incidents.expectations import Expectation, Scope
from dutycycle_alerter.incidents.lifecycle import advance
from dutycycle_alerter.incidents.model import EventKind, Incident, Resolution
from dutycycle_alerter.policies import Applied, NoticeKind, NoticeLog, PoliciesInForce, notices
from dutycycle_alerter.rules import Outcome, judge
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.store.types import storable_name
from tests.alerter.cases import evidence
from tests.alerter.policies.application import DAY, HOUR, NOW, configured, excluding, idle, maintained, outcome

SAID = Expectation(Scope.JOB, "", "slurm/1", ("idle",), "waits for data", "bob", NOW - DAY, NOW + 6 * DAY, 7, id=3)
WORDS = "intended, as bob said on 2026-11-24 until 2026-12-01 12:00 UTC: waits for data"


def applied(*said: Expectation, settings: Settings | None = None, **job: object) -> Applied:
    settings = settings or configured()
    return PoliciesInForce(settings, NOW).expecting(said).applied(judge(idle(**job), settings.judging))


def test_a_job_is_out_of_the_rules_that_were_open_when_it_was_said_and_of_no_other() -> None:
    given = applied(SAID)
    verdict = given.judgement.verdict("idle")
    assert (verdict.outcome, verdict.reason, verdict.intended) == (Outcome.EXCLUDED, WORDS, SAID)
    assert given.expected == {"idle": SAID}
    assert Outcome.EXCLUDED not in {v.outcome for v in given.judgement.verdicts if v.rule != "idle"}


@pytest.mark.parametrize(
    ("said", "job", "covered"),
    [
        ({}, {}, True),
        ({}, {"id": "slurm/10"}, False),
        ({}, {"user": "carol"}, True),  # a job's is the job's, whoever has it
        ({}, {"cluster": "other"}, False),
        ({"cluster": "hpc"}, {"cluster": "hpc"}, True),
        ({"cluster": "hpc"}, {}, False),
        ({"scope": Scope.USER, "subject": "alice"}, {}, True),
        ({"scope": Scope.USER, "subject": "alice"}, {"id": "slurm/10"}, True),
        ({"scope": Scope.USER, "subject": "alice"}, {"user": "carol"}, False),
        ({"scope": Scope.USER, "subject": "alice"}, {"cluster": "other"}, False),
        ({"scope": Scope.USER, "subject": "slurm/1"}, {}, False),
        ({"subject": "alice"}, {}, False),
        ({"scope": Scope.USER, "subject": ""}, {"user": ""}, False),
        ({"rules": ("uneven", "hung")}, {}, False),
        ({"subject": storable_name("x" * 900)}, {"id": "x" * 900}, True),
    ],
)
def test_it_covers_that_job_or_that_users_jobs_in_that_cluster(
    said: dict[str, object], job: dict[str, object], covered: bool
) -> None:
    given = applied(replace(SAID, **said), **job)  # type: ignore[arg-type]
    assert (outcome(given) is Outcome.EXCLUDED) == covered
    assert ("idle" in given.expected) == covered


def test_of_several_the_one_that_ends_last_is_told_and_the_jobs_own_before_its_users() -> None:
    later = replace(SAID, id=4, expires_at=NOW + 8 * DAY)
    user = replace(SAID, id=5, scope=Scope.USER, subject="alice", expires_at=NOW + 9 * DAY)
    assert applied(later, SAID).expected == {"idle": later}
    assert applied(user, later, SAID).expected == {"idle": later}


def test_what_the_site_says_comes_first_and_a_rule_that_is_not_the_jobs_stays_so() -> None:
    given = applied(SAID, settings=excluding())
    assert given.judgement.verdict("idle").reason.startswith("excluded by policy course")
    assert given.expected == {}
    single = evidence([0.0], at=NOW, start=NOW - 10 * HOUR)
    policies = PoliciesInForce(configured(), NOW).expecting([replace(SAID, rules=("partially_idle",))])
    verdicts = policies.applied(judge(single, configured().judging))
    assert outcome(verdicts, "partially_idle") is Outcome.NOT_APPLICABLE


def test_it_holds_under_maintenance_too() -> None:
    settings = maintained(start="2026-11-25T11:00:00Z", end="2026-11-25T13:00:00Z")
    given = applied(SAID, settings=settings)
    assert (outcome(given), outcome(given, "hung")) == (Outcome.EXCLUDED, Outcome.UNKNOWN)


def test_days_are_told_in_the_zone_of_the_policies() -> None:
    given = applied(replace(SAID, at=NOW - DAY + 11.5 * HOUR), settings=configured(timezone="Europe/Oslo"))
    assert given.judgement.verdict("idle").reason.startswith(
        "intended, as bob said on 2026-11-25 until 2026-12-01 13:00 CET"
    )


def test_who_said_it_is_one_name_whatever_it_contains() -> None:
    reason = applied(replace(SAID, actor="ev\u202eil\n\x1b[31m" + "x" * 10**6)).judgement.verdict("idle").reason
    assert len(reason) < 300
    assert reason.isprintable()
    assert "as somebody said" in applied(replace(SAID, actor="")).judgement.verdict("idle").reason


# Incidents


def opened(settings: Settings, *, at: float = NOW - 60) -> Incident:
    incident = advance(None, judge(idle(at=at), settings.judging), settings.judging).incident
    assert incident is not None
    return incident


def test_an_incident_of_another_job_of_the_user_resolves_as_intended() -> None:
    settings = configured()
    said = replace(SAID, scope=Scope.USER, subject="alice")
    step = advance(opened(settings), applied(said).judgement, settings.judging)
    assert step.incident is not None
    assert (step.incident.resolution, step.incident.rules) == (Resolution.INTENDED, ())
    assert [(event.kind, event.text, event.actor) for event in step.events] == [
        (EventKind.RULE_CLEARED, f"idle is {WORDS}", ""),
        (EventKind.INTENDED, "waits for data", "bob"),
        (EventKind.RESOLVED, WORDS, ""),
    ]
    data = {"scope": "user", "until": NOW + 6 * DAY, "rules": ["idle"], "expectation": 3}
    assert step.events[1].data == data


def test_what_several_said_is_in_the_history_each_once() -> None:
    settings = configured()
    before = opened(settings)
    several = replace(before, rules=tuple(replace(before.rules[0], rule=rule) for rule in ("idle", "hung", "uneven")))
    said = (replace(SAID, rules=("idle", "uneven")), replace(SAID, rules=("hung",), actor="carol", id=4))
    step = advance(several, applied(*said).judgement, settings.judging)
    intended = [event for event in step.events if event.kind is EventKind.INTENDED]
    assert [(event.actor, event.data["rules"]) for event in intended] == [
        ("carol", ["hung"]),
        ("bob", ["idle", "uneven"]),
    ]


@pytest.mark.parametrize(
    ("policy", "resolution"),
    [("hung", Resolution.INTENDED), ("idle", Resolution.EXCLUDED), ("uneven", Resolution.EXCLUDED)],
)
def test_one_of_which_the_site_left_out_a_part_is_excluded(policy: str, resolution: Resolution) -> None:
    settings = excluding(rules=[policy])
    before = opened(settings)
    both = replace(before, rules=(*before.rules, replace(before.rules[0], rule="uneven")))
    given = applied(replace(SAID, rules=("idle", "uneven")), settings=settings)
    step = advance(both, given.judgement, settings.judging)
    assert step.incident is not None
    assert step.incident.resolution is resolution
    assert (EventKind.INTENDED in {event.kind for event in step.events}) is (resolution is Resolution.INTENDED)


# Notices


def told(said: Sequence[Expectation], jobs: int = 3, settings: Settings | None = None) -> list[tuple[str, str, int]]:
    settings = settings or configured()
    policies = PoliciesInForce(settings, NOW).expecting(said)
    given = [policies.applied(judge(idle(id=f"slurm/{n}"), settings.judging)) for n in range(jobs)]
    return [(notice.kind.value, notice.text, notice.jobs) for notice in notices(policies, given)]


def test_operators_are_told_what_has_an_effect() -> None:
    user = replace(SAID, scope=Scope.USER, subject="alice", rules=("idle", "underused"))
    words = WORDS.removeprefix("intended, as ")
    assert told([user]) == [("expected", f"3 jobs of user alice excluded from idle and underused, as {words}", 3)]
    assert told([SAID]) == [("expected", f"1 job excluded from idle, as {words}", 1)]
    assert told([replace(SAID, subject="slurm/99"), replace(user, subject="carol")]) == []


@pytest.mark.parametrize(("ends", "soon"), [(NOW + DAY, True), (NOW + DAY + 1, False)])
def test_and_what_ends_within_a_day(ends: float, soon: bool) -> None:
    texts = [text for kind, text, _ in told([replace(SAID, expires_at=ends)]) if kind == NoticeKind.EXPIRING]
    assert texts == (["expectation 3 expires soon (2026-11-26 12:00 UTC)"] if soon else [])


def test_many_are_told_in_one_line() -> None:
    many = [replace(SAID, id=n, subject=f"slurm/{n}") for n in range(25)]
    given = told(many, jobs=25)
    assert len(given) == 21
    assert given[-1] == ("expected", "5 jobs excluded by 5 more expectations", 5)


def test_the_log_names_it_by_its_number_alone(caplog: pytest.LogCaptureFixture) -> None:
    said = replace(SAID, scope=Scope.USER, subject="alice", expires_at=NOW + HOUR)
    policies = PoliciesInForce(configured(), NOW).expecting([said])
    NoticeLog().tell(notices(policies, [policies.applied(judge(idle(), configured().judging))]))
    assert [record.getMessage() for record in caplog.records] == ["expectation 3 expires soon (2026-11-25 13:00 UTC)"]
