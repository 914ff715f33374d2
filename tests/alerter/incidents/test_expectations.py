"""What may be said to be intended, of what, for how long and in which words; and what becomes of the incident."""

from dataclasses import replace

import pytest

from dutycycle_alerter.errors import ExpectationError, TransitionError
from dutycycle_alerter.incidents.actions import intend, withdraw
from dutycycle_alerter.incidents.expectations import (
    LONGEST_REASON,
    Covered,
    Expectation,
    Scope,
    checked_reason,
    expected_of,
    extending,
    withdrawn,
)
from dutycycle_alerter.incidents.model import Event, EventKind, Incident, OpenRule, Resolution, Severity, State
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.policies import JOB_RULES, Expectations
from tests.alerter.store.test_incidents import NOW, incident

DAY = 86400.0
LIMITS = Expectations()


def said(item: Incident | None = None, **changes: object) -> Expectation:
    arguments: dict[str, object] = {
        "scope": Scope.JOB,
        "actor": "bob",
        "reason": "waits for data",
        "now": NOW,
        "until": NOW + 7 * DAY,
        "limits": LIMITS,
    }
    return expected_of(item or incident(id=7), **(arguments | changes))  # type: ignore[arg-type]


# What is said


def test_it_is_about_the_job_and_the_rules_that_are_open() -> None:
    assert said(incident(id=7, cluster="hpc")) == Expectation(
        scope=Scope.JOB,
        cluster="hpc",
        subject="slurm/1",
        rules=("idle", "uneven"),
        reason="waits for data",
        actor="bob",
        at=NOW,
        expires_at=NOW + 7 * DAY,
        incident_id=7,
    )


def test_or_about_the_user_of_the_job() -> None:
    one = said(incident(id=7, cluster="hpc"), scope=Scope.USER)
    assert (one.scope, one.cluster, one.subject) == (Scope.USER, "hpc", "alice")


def test_of_a_resolved_incident_whose_rules_have_left_it_is_about_the_primary_one() -> None:
    assert said(incident(id=7, state=State.RESOLVED, rules=())).rules == ("idle",)


@pytest.mark.parametrize("scope", Scope)
def test_or_about_every_rule_that_judges_jobs(scope: Scope) -> None:
    one = said(scope=scope, covered=Covered.ALL)
    assert set(one.rules) == set(JOB_RULES) >= {"idle", "partially_idle", "underused"}
    assert "gpu_fault" not in one.rules


def test_no_fault_is_among_all_rules() -> None:
    fault = incident("gpu01/GPU-1", id=7, kind="gpu_fault", rule="gpu_fault", rules=())
    with pytest.raises(TransitionError, match="no fault is intended"):
        said(fault, covered=Covered.ALL)


def test_a_report_may_be_said_to_be_intended_too() -> None:
    report = incident(id=7, kind="report", rule="memory_underused", state=State.RESOLVED, rules=())
    assert said(report, scope=Scope.USER).rules == ("memory_underused",)


@pytest.mark.parametrize(
    ("subject", "kind"),
    [("gpu01/GPU-1", "gpu_fault"), ("node/gpu01", "gpu_fault"), ("gpu01/GPU-1", "leaked_memory"), ("x", "throttled")],
)
@pytest.mark.parametrize("state", State)
def test_no_fault_of_a_gpu_or_node_is_intended(subject: str, kind: str, state: State) -> None:
    fault = incident(subject, id=7, kind=kind, rule=kind, rules=(OpenRule(kind, NOW, Severity.WARNING),), state=state)
    with pytest.raises(TransitionError, match="no fault is intended"):
        said(fault)


def test_nothing_is_said_of_a_user_whom_nobody_knows() -> None:
    with pytest.raises(TransitionError, match="say it of the job"):
        said(incident(id=7, user=""), scope=Scope.USER)
    assert said(incident(id=7, user="")).subject == "slurm/1"


def test_a_site_may_allow_it_of_jobs_alone() -> None:
    with pytest.raises(ExpectationError, match="of the job"):
        said(scope=Scope.USER, limits=Expectations(of_users=False))
    assert said(limits=Expectations(of_users=False)).scope is Scope.JOB


@pytest.mark.parametrize(
    ("until", "problem"),
    [
        (NOW, "a time to come"),
        (NOW - 1, "a time to come"),
        (float("nan"), "a time to come"),
        (NOW + 90 * DAY + 1, "lasts 90 d at most"),
        (float("inf"), "lasts 90 d at most"),
        (1e300, "lasts 90 d at most"),
    ],
)
def test_it_ends_at_a_time_to_come_and_soon_enough(until: float, problem: str) -> None:
    with pytest.raises(ExpectationError, match=problem):
        said(until=until)


def test_the_longest_time_is_the_sites_and_told_on_the_scale_of_people() -> None:
    scaled = Settings.model_validate({"time_scale": 60, "policies": {"expectations": {"longest": "30d"}}}).scaled()
    limits = scaled.policies.expectations
    assert said(until=NOW + DAY / 2, limits=limits, time_scale=60).expires_at == NOW + DAY / 2
    with pytest.raises(ExpectationError, match="lasts 30 d at most"):
        said(until=NOW + DAY / 2 + 1, limits=limits, time_scale=60)


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "  ",
        "ok",
        " ok ",
        "x" * (LONGEST_REASON + 1),
        "x" * 2**20,
        " " * 2**20 + "a reason",
        "two\nlines",
        "two\r\nlines",
        "two\u2028lines",
        "tab\tseparated",
        "\x1b[31mred",
        "\x9b31mred",
        "nul\0byte",
        "back\u202ewards",
        "iso\u2067lated",
        "zero\u200bwidth",
        "half \ud800",
        "a" + "\u0301" * 30,
        "deleted\x7f",
    ],
)
def test_a_reason_is_one_line_that_a_person_can_read(reason: str) -> None:
    with pytest.raises(ExpectationError, match="reason") as raised:
        checked_reason(reason)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "reason",
    [
        "abc",
        "x" * LONGEST_REASON,
        "<script>alert(1)</script>",
        "<!channel> & *bold*",
        "ממתין לנתונים",
        "等待数据",
        "👍 fine",
    ],
)
def test_other_text_is_kept_as_it_is_and_made_inert_where_it_is_shown(reason: str) -> None:
    assert checked_reason(f"  {reason} ") == reason


# Twice


def test_who_says_the_same_again_extends_it_and_has_the_last_word() -> None:
    first = replace(said(), id=3)
    again = said(reason="still waits", now=NOW + DAY, until=NOW + 9 * DAY)
    kept = extending([first], again)
    assert (kept.id, kept.actor, kept.reason, kept.at) == (3, "bob", "still waits", NOW + DAY)
    assert kept.expires_at == NOW + 9 * DAY


def test_it_is_not_shortened() -> None:
    first = replace(said(), id=3)
    assert extending([first], said(now=NOW + DAY, until=NOW + 2 * DAY)).expires_at == NOW + 7 * DAY


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ({"scope": Scope.USER}, "of the user"),
        ({"cluster": "other"}, "of another cluster"),
        ({"subject": "slurm/2"}, "of another job"),
        ({"rules": ("idle",)}, "of fewer rules"),
        ({"rules": ("idle", "uneven", "stalled")}, "of more rules"),
        ({"actor": "carol"}, "by another"),
        ({"incident_id": 8}, "of another incident"),
        ({"incident_id": None}, "of an incident that is forgotten"),
        ({"expires_at": NOW}, "expired"),
        ({"withdrawn_at": NOW - 1}, "withdrawn"),
    ],
)
def test_what_was_said_otherwise_stands_beside_it(first: dict[str, object], why: str) -> None:
    new = said()
    assert extending([replace(new, id=3, **first)], new) == new, why  # type: ignore[arg-type]


def test_the_order_of_the_rules_makes_no_difference() -> None:
    first = replace(said(), id=3, rules=("uneven", "idle"))
    assert extending([first], said()).id == 3


def test_saying_it_again_of_one_rule_does_not_extend_the_others() -> None:
    """alice said idle and stalled, for a day; bob says idle, for a week."""
    first = replace(said(actor="alice", until=NOW + DAY), id=3, rules=("idle", "stalled"))
    late = said(incident(id=7, state=State.RESOLVED, rules=()))
    kept = extending([first], late)
    assert (kept.id, kept.rules, kept.expires_at, kept.actor) == (0, ("idle",), NOW + 7 * DAY, "bob")


# Its end


def test_it_holds_up_to_its_end_and_not_at_it() -> None:
    one = said()
    assert one.in_force(NOW - 100), "the clock of who said it may be ahead"
    assert one.in_force(NOW + 7 * DAY - 0.001)
    assert not one.in_force(NOW + 7 * DAY)


def test_it_is_withdrawn_once_and_only_while_it_holds() -> None:
    gone = withdrawn(said(), actor="carol", now=NOW + 5)
    assert (gone.withdrawn_at, gone.withdrawn_by, gone.in_force(NOW + 5)) == (NOW + 5, "carol", False)
    with pytest.raises(TransitionError, match="was withdrawn already"):
        withdrawn(gone, actor="bob", now=NOW + 6)
    with pytest.raises(TransitionError, match="expired already"):
        withdrawn(said(), actor="bob", now=NOW + 7 * DAY)


# The incident


@pytest.mark.parametrize("state", [State.OPEN, State.ACKNOWLEDGED, State.SNOOZED])
def test_an_active_incident_is_resolved_as_intended(state: State) -> None:
    before = incident(id=7, state=state, snoozed_until=NOW + 60 if state is State.SNOOZED else None)
    one = said(before, now=NOW + 10)
    step = intend(before, one)
    assert step.incident == replace(
        before,
        state=State.RESOLVED,
        resolution=Resolution.INTENDED,
        resolved_at=NOW + 10,
        updated_at=NOW + 10,
        snoozed_until=None,
        actor="bob",
    )
    data = {"scope": "job", "until": NOW + 7 * DAY, "rules": ["idle", "uneven"], "expectation": 0}
    assert step.events == (
        Event(NOW + 10, EventKind.INTENDED, "waits for data", "bob", data),
        Event(NOW + 10, EventKind.RESOLVED, "intended: waits for data", "bob", {"resolution": "intended"}),
    )


@pytest.mark.parametrize("resolution", Resolution)
def test_a_resolved_incident_gets_the_event_and_stays_as_it_is(resolution: Resolution) -> None:
    before = incident(id=7, state=State.RESOLVED, resolution=resolution, resolved_at=NOW - 60, rules=())
    step = intend(before, said(before, now=NOW + 10))
    assert step.incident == replace(before, updated_at=NOW + 10)
    assert [event.kind for event in step.events] == [EventKind.INTENDED]


@pytest.mark.parametrize("state", State)
def test_what_is_taken_back_is_told_in_the_history_and_changes_nothing_else(state: State) -> None:
    before = incident(id=7, state=state)
    step = withdraw(before, said(before), actor="carol", now=NOW + 20)
    assert step.incident == replace(before, updated_at=NOW + 20)
    data = {"scope": "job", "rules": ["idle", "uneven"], "said_by": "bob"}
    assert step.events == (Event(NOW + 20, EventKind.WITHDRAWN, "no longer intended: waits for data", "carol", data),)
