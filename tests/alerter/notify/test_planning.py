"""Who is told what of an incident's events: routes, kinds of receivers, quiet, and who knows of it already."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dutycycle_alerter.incidents.model import Event, EventKind, Incident, OpenRule, Severity, State
from dutycycle_alerter.notify.model import OPERATORS, Recipient, To
from dutycycle_alerter.notify.planning import plan
from dutycycle_alerter.notify.routing import Routing
from dutycycle_alerter.settings.notify import News
from dutycycle_alerter.settings.policies import Attention
from tests.alerter.notify.outbox import idle, notify, receiver, route
from tests.alerter.store.test_incidents import NOW

ALICE = Recipient(To.OWNER, "alice")


def told(
    item: Incident, *kinds: EventKind, routes: list[dict[str, Any]], known: set[Any] | None = None, actor: str = ""
) -> list[tuple[str, News]]:
    """Receiver and news of each notice."""
    events = [Event(NOW, kind, kind.value, actor) for kind in kinds]
    return [
        (notice.receiver, notice.news)
        for notice in plan(item, events, known or set(), Routing(notify(*routes)), now=NOW)
    ]


FIELDS = {
    "rules": "idle",
    "scheduler": "slurm",
    "cluster": "north",
    "account": "lab",
    "namespace": "speech",
    "partition": "gpu",
    "user": "alice",
    "node": "gpu1",
}


@pytest.mark.parametrize("field", FIELDS)
def test_each_matcher_of_a_route_counts(field: str) -> None:
    item = idle(cluster="north", namespace="speech", partition="gpu")
    for pattern, matches in ((FIELDS[field], True), (["x", f"{FIELDS[field][:3]}*"], True), ("other", False)):
        got = told(item, EventKind.OPENED, routes=[route("webhook", **{field: pattern})])
        assert bool(got) is matches


def test_of_the_routes_to_one_receiver_the_first_that_matches_counts() -> None:
    routes = [route("email", rules="stalled"), route("email", news=["resolved"]), route("email"), route("slack")]
    assert told(idle(), EventKind.OPENED, routes=routes) == [("slack", News.OPENED)]


@pytest.mark.parametrize(
    ("severity", "asked", "kind", "is_told"),
    [
        (Severity.WARNING, "warning", "efficiency", True),
        (Severity.WARNING, "critical", "efficiency", False),
        (Severity.CRITICAL, "warning", "efficiency", True),
        (Severity.INFO, "warning", "throttled", False),
        (Severity.INFO, "info", "throttled", True),
        (Severity.INFO, "info", "report", True),
        (Severity.INFO, "warning", "report", False),
        (Severity.CRITICAL, "info", "report", True),
        (Severity.CRITICAL, "warning", "report", False),
    ],
)
def test_severity_is_the_lowest_that_is_told(severity: Severity, asked: str, kind: str, *, is_told: bool) -> None:
    got = told(idle(severity=severity, kind=kind), EventKind.OPENED, routes=[route("email", severity=asked)])
    assert bool(got) is is_told


@pytest.mark.parametrize(
    ("kind", "news"),
    [
        ("slack", [News.OPENED, News.UPDATED, News.ESCALATED, News.RESOLVED, News.UPDATED, News.REOPENED]),
        ("webhook", [News.OPENED, News.UPDATED, News.ESCALATED, News.RESOLVED, News.UPDATED, News.REOPENED]),
        ("email", [News.OPENED, News.ESCALATED]),
        ("slack_webhook", [News.OPENED, News.ESCALATED]),
        ("apprise", [News.OPENED, News.ESCALATED]),
    ],
)
def test_what_each_kind_of_receiver_is_told_by_default(kind: str, news: list[News]) -> None:
    happened = (
        EventKind.OPENED,
        EventKind.CAUSE_FOUND,
        EventKind.SEVERITY_CHANGED,
        EventKind.RESOLVED,
        EventKind.FINAL,
        EventKind.REOPENED,
        EventKind.TOLD,
        EventKind.NOT_TOLD,
    )
    assert [item for _, item in told(idle(), *happened, routes=[route(kind)])] == news


@pytest.mark.parametrize(
    ("state", "kind", "actor", "is_told"),
    [
        (State.SNOOZED, EventKind.CAUSE_FOUND, "", False),
        (State.SNOOZED, EventKind.SEVERITY_CHANGED, "", False),
        (State.SNOOZED, EventKind.SNOOZED, "bob", True),
        (State.ACKNOWLEDGED, EventKind.CAUSE_FOUND, "", False),
        (State.ACKNOWLEDGED, EventKind.SEVERITY_CHANGED, "", True),
        (State.ACKNOWLEDGED, EventKind.ACKNOWLEDGED, "bob", True),
        (State.RESOLVED, EventKind.RESOLVED, "", True),
        (State.OPEN, EventKind.SNOOZE_EXPIRED, "", True),
    ],
)
def test_quiet_is_kept(state: State, kind: EventKind, actor: str, *, is_told: bool) -> None:
    known = {("slack", OPERATORS)}
    assert bool(told(idle(state=state), kind, routes=[route("slack")], known=known, actor=actor)) is is_told


@pytest.mark.parametrize("kind", [EventKind.RESOLVED, EventKind.CAUSE_FOUND, EventKind.ACKNOWLEDGED, EventKind.FINAL])
def test_who_was_never_told_of_it_does_not_hear_what_became_of_it(kind: EventKind) -> None:
    assert told(idle(), kind, routes=[route("slack")]) == []
    assert len(told(idle(), kind, routes=[route("slack")], known={("slack", OPERATORS)})) == 1


def test_who_wants_no_openings_hears_of_ends_all_the_same() -> None:
    assert told(idle(), EventKind.RESOLVED, routes=[route("email", news=["resolved"])]) == [("email", News.RESOLVED)]


def test_what_becomes_somebodys_later_is_told_as_new() -> None:
    """By its primary rule, by its severity, or because it wakes."""
    routes = [route("slack", rules="idle"), route("email", severity="critical")]
    assert told(idle(), EventKind.PRIMARY_CHANGED, routes=routes) == [("slack", News.OPENED)]
    assert told(idle(), EventKind.REOPENED, routes=routes) == [("slack", News.OPENED)]
    critical = idle(severity=Severity.CRITICAL, rule="stalled")
    assert told(critical, EventKind.SEVERITY_CHANGED, routes=routes) == [("email", News.OPENED)]
    assert told(idle(), EventKind.SNOOZE_EXPIRED, routes=routes) == [("slack", News.OPENED)]


def test_what_opens_as_critical_is_told_to_who_wants_to_hear_of_that_alone() -> None:
    routes = [route("email", news=["escalated"])]
    assert told(idle(), EventKind.OPENED, routes=routes) == []
    assert told(idle(severity=Severity.CRITICAL), EventKind.OPENED, routes=routes) == [("email", News.ESCALATED)]


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.CRITICAL])
def test_a_condition_that_comes_and_goes_sends_no_mails(severity: Severity) -> None:
    routes, known = [route("email"), route("slack")], {("email", OPERATORS), ("slack", OPERATORS)}
    assert told(idle(severity=severity), EventKind.REOPENED, routes=routes, known=known) == [("slack", News.REOPENED)]


def test_operators_hear_of_what_wakes_from_a_snooze_and_users_do_not() -> None:
    routes = [route("email"), route("slack"), route("email", "owner")]
    known = {("email", OPERATORS), ("slack", OPERATORS), ("email", ALICE)}
    got = told(idle(), EventKind.SNOOZE_EXPIRED, routes=routes, known=known)
    assert sorted(got) == [("email", News.OPENED), ("slack", News.UPDATED)]
    assert told(idle(), EventKind.SNOOZE_EXPIRED, routes=[route("email", news=["escalated"])], known=known) == []


def test_what_is_over_by_the_time_its_snooze_ends_is_not_told_as_open() -> None:
    over, known = idle(state=State.RESOLVED), {("email", OPERATORS)}
    happened = (EventKind.SNOOZE_EXPIRED, EventKind.RESOLVED)
    assert told(over, *happened, routes=[route("email")], known=known) == []


def test_who_was_taken_for_the_user_of_a_job_hears_no_more_of_it() -> None:
    known = {("email", Recipient(To.OWNER, "team-a")), ("email", ALICE)}
    routes = [route("email", "owner", news=["opened", "resolved"])]
    notices = plan(idle(), [Event(NOW, EventKind.RESOLVED, "")], known, Routing(notify(*routes)), now=NOW)
    assert [notice.to for notice in notices] == [ALICE]


def test_an_end_is_told_also_where_no_route_matches_any_more() -> None:
    routes, known = [route("slack", rules="stalled")], {("slack", OPERATORS), ("gone", OPERATORS)}
    assert told(idle(), EventKind.RESOLVED, routes=routes, known=known) == [("slack", News.RESOLVED)]


def test_users_hear_here_what_becomes_of_what_they_know() -> None:
    routes = [route("slack", "owner"), route("email", "owner")]
    assert told(idle(), EventKind.OPENED, routes=routes) == []
    known = {("slack", ALICE), ("email", ALICE)}
    assert told(idle(), EventKind.RESOLVED, routes=routes, known=known) == [("slack", News.RESOLVED)]
    assert told(idle(), EventKind.REOPENED, routes=routes, known=known) == [("slack", News.REOPENED)]


@pytest.mark.parametrize(
    ("rule", "severity", "told_at", "named", "is_told"),
    [
        ("idle", Severity.CRITICAL, None, None, True),
        ("underused", Severity.CRITICAL, None, None, True),
        # What is critical for operators alone is not so for its user.
        ("idle", Severity.CRITICAL, Attention.WARNING, None, False),
        ("idle", Severity.CRITICAL, Attention.NONE, None, False),
        ("underused", Severity.WARNING, Attention.CRITICAL, None, True),
        # It was critical before: by what is told at once.
        ("idle", Severity.CRITICAL, None, "idle", True),
        ("idle", Severity.CRITICAL, Attention.WARNING, "idle", False),
        ("underused", Severity.CRITICAL, None, "underused", False),
    ],
)
def test_users_who_know_of_it_hear_that_it_is_critical_now(
    rule: str, severity: Severity, told_at: Attention | None, named: str | None, *, is_told: bool
) -> None:
    item = replace(idle(severity=severity, rule=rule), rules=(OpenRule(rule, NOW, severity, told_at),))
    event = Event(NOW, EventKind.SEVERITY_CHANGED, "", data={} if named is None else {"rule": named})
    routing = Routing(notify(route("slack", "owner"), route("email", "owner")))
    known = {("slack", ALICE), ("email", ALICE)}
    got = {notice.receiver: notice.news for notice in plan(item, [event], known, routing, now=NOW)}
    assert got == ({"slack": News.ESCALATED, "email": News.ESCALATED} if is_told else {"slack": News.UPDATED})
    assert plan(item, [event], set(), routing, now=NOW) == []


def test_a_user_is_nobody_where_the_incident_is_not_theirs_to_change() -> None:
    routing = Routing(notify(route("email", "owner", severity="critical", account="lab")))
    critical = idle(severity=Severity.CRITICAL)
    found = routing.owner(critical, "email")
    assert found is not None
    assert found.to == ALICE
    quiet = (OpenRule("idle", NOW, Severity.CRITICAL, Attention.WARNING),)
    for other in (
        idle(),
        idle(severity=Severity.CRITICAL, user=""),
        idle(severity=Severity.CRITICAL, account="other"),
        idle(severity=Severity.CRITICAL, kind="gpu_fault"),
        idle(severity=Severity.WARNING, rule="hung"),
    ):
        assert routing.owner(other, "email") is None
    assert routing.owner(replace(critical, rules=quiet), "email") is None, "by what the user is to hear of it"


def test_a_notice_says_all_that_is_needed() -> None:
    item, event = idle(), Event(NOW - 5, EventKind.OPENED, "x" * 5000, "bob")
    routing = Routing(notify(route("email", group_by=["rule", "user", "node", "severity"], group_wait="5m")))
    (notice,) = plan(item, [event], set(), routing, now=NOW)
    assert (notice.receiver, notice.to, notice.at, notice.actor) == ("email", OPERATORS, NOW - 5, "bob")
    assert notice.bundle == "900 rule=idle user=alice node=gpu1 severity=warning"
    assert (notice.due_at, notice.digest, len(notice.text)) == (NOW + 300, "", 1000)


def test_alertmanager_groups_by_itself_and_a_thread_is_its_incidents() -> None:
    routing = Routing(notify(route("alertmanager"), route("slack")))
    event = Event(NOW, EventKind.OPENED, "")
    alert, thread = plan(idle(id=7), [event], set(), routing, now=NOW)
    assert (alert.bundle, alert.due_at) == ("0", NOW)
    assert (thread.bundle, thread.due_at) == ("0 incident=7", NOW + 60)


def test_a_digest_is_due_at_its_time() -> None:
    routes = [route("email", digest="weekly", digest_at="08:00", digest_day="tue")]
    routing = Routing(notify(*routes, receivers=[receiver("email")], timezone="Europe/Oslo"))
    (notice,) = plan(idle(), [Event(NOW, EventKind.OPENED, "")], set(), routing, now=NOW)
    # NOW is a Sunday.
    assert (notice.digest, notice.due_at) == ("weekly", 1_750_140_000.0)
