"""A public address with a path."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.notify.links import Action, Links
from tests.alerter.web.conftest import KEY, Live
from tests.alerter.web.html import parse
from tests.alerter.web.linking import ALICE, path
from tests.alerter.web.people import AUTH, Browser

Site = Callable[..., Live]


@pytest.mark.parametrize(("prefix", "stripped"), [("/gpus", True), ("/gpus", False), ("/a/b", True), ("/a/b", False)])
def test_below_a_path_everything_works_whether_the_proxy_strips_it_or_not(
    live_site: Site, prefix: str, stripped: bool
) -> None:
    public = f"https://host.example{prefix}"
    live = live_site(public_url=public, auth=AUTH)
    seen = "" if stripped else prefix
    browser = Browser(live.client)

    def inner(address: str) -> str:
        """As the proxy passes it on."""
        assert address.startswith(f"{prefix}/"), address
        return seen + address.removeprefix(prefix)

    assert browser.get(f"{seen}/users").headers["location"] == f"{prefix}/login?next=%2Fusers"
    browser.get(f"{seen}/login")
    answer = browser.post(f"{seen}/login", secret="olga-" + "o" * 24, next="/users")
    assert answer.headers["location"] == f"{prefix}/users"
    number = live.incident_of("alice")
    for start in ("/", "/users", "/gpus", "/expectations", f"/incidents/{number}", "/nowhere"):
        page = parse(browser.get(seen + start).data.decode())
        addresses = [
            element.attributes[name]
            for element in page.all("html")[0].walk()
            for name in ("href", "action", "formaction")
            if name in element.attributes and not element.attributes[name].startswith("#")
        ]
        assert len(addresses) > 5
        for address in addresses:
            if not address.endswith(("/logout", "acknowledge", "snooze", "resolve", "intended")):
                assert browser.get(inner(address)).status == 200, address
    link = path(Links(public, KEY).action(number, Action.ACKNOWLEDGE, ALICE, now=live.now))
    browser.get(inner(link))
    assert inner(browser.post(inner(link)).headers["location"]) == inner(link)
    assert live.store.incident(number).state is State.ACKNOWLEDGED  # type: ignore[union-attr]
    described = browser.get(f"{seen}/api/v1/openapi.json").data.decode()
    assert f'"servers":[{{"url":"{prefix}"}}]' in described
