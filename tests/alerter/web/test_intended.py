"""Saying that it was intended: by the page, the API and the link of a message."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from dutycycle_alerter.incidents.model import Resolution
from dutycycle_alerter.notify.links import Action
from dutycycle_alerter.notify.model import OPERATORS
from dutycycle_alerter.settings.policies import JOB_RULES, Expectations
from tests.alerter.web.conftest import Live
from tests.alerter.web.html import parse
from tests.alerter.web.linking import PUBLIC, of_alice
from tests.alerter.web.people import AUTH, Browser, bearer, logged_in

Site = Callable[..., Live]


@pytest.fixture
def guarded(live_site: Site) -> Live:
    return live_site(public_url=PUBLIC, auth=AUTH)


@pytest.mark.parametrize("covered", ["", "open", "all"])
@pytest.mark.parametrize("way", ["page", "API", "link"])
def test_of_which_rules(guarded: Live, way: str, covered: str) -> None:
    """Of those that are open in the incident, or of all: a job that is meant to idle may be underused next."""
    number = guarded.incident_of("alice")
    chosen = {"covered": covered} if covered else {}
    if way == "API":
        answer = guarded.client.request(
            "POST",
            f"/api/v1/incidents/{number}/intend",
            body=json.dumps({"reason": "a benchmark", "scope": "job", "days": 3, **chosen}),
            headers={"Content-Type": "application/json", **bearer("olga")},
        )
        assert answer.status == 200
    else:
        page, target = f"/incidents/{number}", f"/incidents/{number}/intended"
        if way == "link":
            page = target = of_alice(guarded, Action.INTENDED)
        browser = logged_in(guarded.client, "olga")
        shown = parse(browser.get(page).data.decode())
        (choice,) = (one for one in shown.all("select") if one.attributes["name"] == "covered")
        assert [option.attributes["value"] for option in choice.all("option")] == ["open", "all"]
        assert browser.post(target, reason="a benchmark", **chosen).status == 303
        assert browser.post(target, reason="a benchmark", covered="none").status == 422
    (said,) = guarded.store.expectations()
    assert said.rules == (JOB_RULES if covered == "all" else ("idle",))


def test_what_is_over_may_be_said_to_have_been_intended_once(guarded: Live) -> None:
    number, address = guarded.incident_of("alice"), of_alice(guarded, Action.INTENDED)
    guarded.store.resolve(number, actor="olga")
    browser = Browser(guarded.client)
    browser.get(address)
    assert browser.post(address, reason="a benchmark").status == 303
    events = guarded.store.events(number)
    assert [event.kind for event in events][-2:] == ["resolved", "intended"]
    for link in (address, of_alice(guarded, Action.INTENDED, OPERATORS)):
        page = parse(browser.get(link).data.decode())
        assert page.all("form") == []
        assert re.search("marked this as intended .+: a benchmark", page.words)
        browser.post(link, reason="a benchmark", name="olga")
    assert guarded.store.events(number) == events
    # Until it is taken back.
    (said,) = guarded.store.expectations()
    guarded.store.withdraw(said.id, actor="olga")
    assert parse(browser.get(address).data.decode()).all("form") != []


def test_a_reason_is_asked_for(guarded: Live) -> None:
    address = of_alice(guarded, Action.INTENDED)
    browser = Browser(guarded.client)
    for fields in ({}, {"reason": "  "}, {"reason": "x"}, {"reason": "x" * 501}, {"reason": "a\u202eb c"}):
        browser.get(address)
        assert browser.post(address, **fields).status == 422
    assert browser.post(address, reason="fine", lasting="1000d").status == 422
    assert browser.post(address, reason="fine", scope="everybody").status == 422
    assert guarded.store.expectations() == []


def test_where_only_operators_say_what_was_intended(live_site: Site) -> None:
    live = live_site(public_url=PUBLIC, auth=AUTH, limits=Expectations(owners=False))
    number = live.incident_of("alice")
    browser = logged_in(live.client, "alice")
    assert "intended" not in browser.get(f"/incidents/{number}").data.decode().replace("/expectations", "")
    assert browser.post(f"/incidents/{number}/intended", reason="a benchmark").status == 403
    address = of_alice(live, Action.INTENDED)
    page = parse(browser.get(address).data.decode())
    assert "only operators mark incidents as intended" in page.words
    assert page.all("main")[0].all("form") == []
    assert browser.post(address, reason="a benchmark").status == 403
    browser = logged_in(live.client, "olga")
    browser.get(f"/incidents/{number}")
    assert browser.post(f"/incidents/{number}/intended", reason="a benchmark").status == 303
    assert live.store.incident(number).resolution is Resolution.INTENDED  # type: ignore[union-attr]
