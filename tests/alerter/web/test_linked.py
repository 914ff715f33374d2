"""The links of messages: what they show, that only POST does something, and what no longer works."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dutycycle_alerter.incidents.expectations import Scope
from dutycycle_alerter.incidents.model import Event, EventKind, State, Step
from dutycycle_alerter.notify.links import LIFETIME, Action, Links
from dutycycle_alerter.notify.model import OPERATORS, Recipient, To
from dutycycle_alerter.settings.web import Auth
from dutycycle_alerter.store import incidents
from dutycycle_alerter.store.database import open_database
from tests.alerter.web.conftest import Live
from tests.alerter.web.html import parse
from tests.alerter.web.linking import ALICE, LINKS, PUBLIC, of_alice, path
from tests.alerter.web.people import AUTH, Browser, logged_in

Site = Callable[..., Live]


@pytest.fixture(params=[True, False], ids=["with log-in", "without"])
def site(request: pytest.FixtureRequest, live_site: Site) -> Live:
    return live_site(public_url=PUBLIC, auth=AUTH if request.param else None)


@pytest.fixture
def guarded(live_site: Site) -> Live:
    return live_site(public_url=PUBLIC, auth=AUTH)


STATES = [
    (Action.ACKNOWLEDGE, {}, State.ACKNOWLEDGED),
    (Action.SNOOZE, {"snooze": "1d"}, State.SNOOZED),
    (Action.RESOLVE, {"note": "done"}, State.RESOLVED),
    (Action.INTENDED, {"reason": "a benchmark", "scope": "user", "lasting": "14d"}, State.RESOLVED),
]


@pytest.mark.parametrize(("action", "fields", "state"), STATES)
def test_get_asks_and_post_does(site: Live, action: Action, fields: dict[str, str], state: State) -> None:
    """Without log-in, too; the actor is the user whom the message was for, whatever is sent."""
    number, address = site.incident_of("alice"), of_alice(site, action)
    before = (site.store.incident(number), site.store.events(number))
    browser = Browser(site.client)
    for method in ("GET", "HEAD", "GET"):
        assert browser.send(method, address).status == 200
    page = parse(browser.get(address).data.decode())
    assert "All 4 GPUs are idle" in page.words
    assert "Nothing has changed yet" in page.words
    assert (site.store.incident(number), site.store.events(number)) == before
    answer = browser.post(address, name="Mallory", **fields)
    assert (answer.status, answer.headers["location"]) == (303, address)
    found = site.store.incident(number)
    assert found is not None
    assert (found.state, found.actor) == (state, "alice")
    if action is Action.SNOOZE:
        assert found.snoozed_until == site.now + 86400
    if action is Action.INTENDED:
        (said,) = site.store.expectations()
        assert (said.scope, said.subject, said.reason) == (Scope.USER, "alice", "a benchmark")
        assert said.expires_at == site.now + 14 * 86400
    # A second use changes nothing.
    events = site.store.events(number)
    assert parse(browser.get(address).data.decode()).all("form") == []
    assert browser.post(address, **fields).status == 303
    assert site.store.events(number) == events


def test_the_page_of_a_link_shows_nothing_else(guarded: Live) -> None:
    page = Browser(guarded.client).get(of_alice(guarded, Action.RESOLVE)).data.decode()
    for word in ("bob", "gpu-b01", "judged", "Users"):
        assert word not in page
    assert "GPUs" not in [link.words for link in parse(page).all("a")]


def test_a_link_of_operators_asks_who_it_is(guarded: Live) -> None:
    """Where people log in, a typed name is not passed off as somebody who did."""
    address = of_alice(guarded, Action.ACKNOWLEDGE, OPERATORS)
    browser = Browser(guarded.client)
    browser.get(address)
    assert browser.post(address).status == 422
    assert browser.post(address, name="olga").status == 303
    found = guarded.store.incident(guarded.incident_of("alice"))
    assert found is not None
    assert found.actor == "olga (by a link)"
    address = of_alice(guarded, Action.SNOOZE, OPERATORS)
    browser = logged_in(guarded.client, "olga")
    browser.get(address)
    assert browser.post(address).status == 303
    assert guarded.store.events(guarded.incident_of("alice"))[-1].actor == "olga"


def test_a_link_believes_no_proxy(live_site: Site) -> None:
    """It goes round the proxy's log-in, which then may pass on what a client says of itself."""
    proxy = {"trusted": ["127.0.0.1"], "user_header": "X-Auth-Request-User"}
    auth = Auth.model_validate({"proxy": proxy, "operators": {"users": ["root"]}})
    live = live_site(public_url=PUBLIC, auth=auth)
    says = {"X-Auth-Request-User": "root"}
    browser = Browser(live.client)
    for address, fields, actor in [
        (of_alice(live, Action.SNOOZE), {}, "alice"),
        (of_alice(live, Action.ACKNOWLEDGE, OPERATORS), {"name": "root"}, "root (by a link)"),
    ]:
        assert "As root" not in parse(browser.send("GET", address, headers=says).data.decode()).words
        assert browser.send("POST", address, {"token": browser.token, **fields}, says).status == 303
        assert live.store.events(live.incident_of("alice"))[-1].actor == actor


def test_an_owners_link_is_for_incidents_of_that_user(guarded: Live) -> None:
    """A store that is set up anew gives the same numbers to other incidents."""
    address = of_alice(guarded, Action.RESOLVE, Recipient(To.OWNER, "bob"))
    browser = Browser(guarded.client)
    browser.get(of_alice(guarded, Action.RESOLVE))
    for answer in (browser.get(address), browser.post(address)):
        assert answer.status == 404
        assert "alice" not in answer.data.decode()
    assert guarded.store.incident(guarded.incident_of("alice")).state is State.OPEN  # type: ignore[union-attr]


@pytest.mark.parametrize(("to", "actor"), [(ALICE, "alice"), (OPERATORS, "olga (by a link)")])
def test_an_old_link_undoes_nothing_that_came_after_it(guarded: Live, to: Recipient, actor: str) -> None:
    number, address = guarded.incident_of("alice"), of_alice(guarded, Action.ACKNOWLEDGE, to)
    browser = Browser(guarded.client)
    browser.get(address)
    browser.post(address, name="olga")
    guarded.store.snooze(number, until=guarded.now + 3600, actor="vic")
    events = guarded.store.events(number)
    assert events[-2].actor == actor
    page = parse(browser.get(address).data.decode())
    assert "This incident is now snoozed by vic." in page.words
    assert page.all("form") == []
    assert browser.post(address, name="olga").status == 303
    assert guarded.store.events(number) == events


def test_a_link_snoozes_for_a_length_that_is_offered(guarded: Live) -> None:
    address = of_alice(guarded, Action.SNOOZE)
    browser = Browser(guarded.client)
    browser.get(address)
    browser.post(address, snooze="1h", until="2026-12-01T00:00")
    found = guarded.store.incident(guarded.incident_of("alice"))
    assert found is not None
    assert found.snoozed_until == guarded.now + 3600


def test_when_a_snooze_has_ended_its_link_snoozes_again(guarded: Live, store_file: Path) -> None:
    number, address = guarded.incident_of("alice"), of_alice(guarded, Action.SNOOZE)
    browser = Browser(guarded.client)
    browser.get(address)
    browser.post(address, snooze="1h")
    with closing(open_database(f"sqlite:///{store_file}")) as database, database.write() as connection:
        snoozed = incidents.get(connection, number)
        assert snoozed is not None
        woken = replace(snoozed, state=State.OPEN, snoozed_until=None)
        incidents.save(connection, snoozed, Step(woken, (Event(guarded.now, EventKind.SNOOZE_EXPIRED, "it ended"),)))
    page = parse(browser.get(address).data.decode())
    assert "Snooze it?" in page.words
    assert "That was done" not in page.words
    assert browser.post(address, snooze="8h").status == 303
    found = guarded.store.incident(number)
    assert found is not None
    assert (found.state, found.snoozed_until) == (State.SNOOZED, guarded.now + 8 * 3600)


def test_a_link_does_the_one_thing(guarded: Live) -> None:
    """Its form does not do another, and neither its token nor its page's opens the rest."""
    number, address = guarded.incident_of("alice"), of_alice(guarded, Action.ACKNOWLEDGE)
    browser = Browser(guarded.client)
    browser.get(address)
    browser.post(f"/incidents/{number}/resolve", name="alice")
    browser.post(address, action="resolve", link_action="resolve")
    found = guarded.store.incident(number)
    assert found is not None
    assert found.state is State.ACKNOWLEDGED
    assert guarded.client.get("/api/v1/status", Authorization=f"Bearer {address.rpartition('/')[2]}").status == 401


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_another_site_cannot_send_its_form(guarded: Live, headers: dict[str, str]) -> None:
    address = of_alice(guarded, Action.RESOLVE)
    browser = Browser(guarded.client)
    browser.get(address)
    assert browser.send("POST", address, {"token": browser.token}, headers).status == 403
    assert browser.send("POST", address, {"token": ""}).status == 403
    assert guarded.store.incident(guarded.incident_of("alice")).state is State.OPEN  # type: ignore[union-attr]


def test_what_no_longer_works_says_so(guarded: Live) -> None:
    number = guarded.incident_of("alice")
    good = of_alice(guarded, Action.RESOLVE)
    # A length that no whole number of bytes has: any other might be a token that is forged.
    cut = good[: len("/act/") + (len(good) - len("/act/") - 2) // 4 * 4 + 1]
    expired = path(LINKS.action(number, Action.RESOLVE, ALICE, now=guarded.now - LIFETIME - 1))
    forged = path(Links(PUBLIC, bytes(32)).action(number, Action.RESOLVE, ALICE, now=guarded.now))
    unsubscribe = path(LINKS.unsubscribe("mail", "alice", now=guarded.now))
    for address, status, says in [
        (expired, 410, "This link is expired"),
        (forged, 403, "This link is forged"),
        (cut, 400, "This link is malformed"),
        (good + "x", 400, "This link is malformed"),
        (good.replace("/act/", "/unsubscribe/"), 400, "This link is malformed"),
        (unsubscribe.replace("/unsubscribe/", "/act/"), 400, "This link is malformed"),
        ("/act/" + "x" * 3000, 422, "cannot be understood"),
        ("/act/%ff%fe", 400, "This link is malformed"),
        (path(LINKS.action(4711, Action.RESOLVE, ALICE, now=guarded.now)), 404, "no such incident"),
    ]:
        browser = Browser(guarded.client)
        browser.get(good)
        for answer in (browser.get(address), browser.post(address)):
            assert answer.status == status, address
            assert says in parse(answer.data.decode()).all("main")[0].words
    assert guarded.store.incident(number).state is State.OPEN  # type: ignore[union-attr]
