"""The forms: what they do, and from where they may be sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest
import urllib3

from dutycycle_alerter.incidents.model import EventKind, State
from dutycycle_alerter.settings.web import Web
from tests.alerter.web.conftest import Client, Live
from tests.alerter.web.html import parse


def cookies_of(response: urllib3.BaseHTTPResponse) -> dict[str, str]:
    return dict(value.split(";")[0].split("=", 1) for value in response.headers.getlist("set-cookie"))


class Browser:
    """Loads an incident's page, then sends its form with the cookies it was given."""

    def __init__(self, client: Client, incident_id: int) -> None:
        self.client, self.path = client, f"/incidents/{incident_id}"
        page = client.get(self.path)
        self.cookies = cookies_of(page)
        fields = parse(page.data.decode()).all("form")[0].all("input")
        self.token = next(field.attributes["value"] for field in fields if field.attributes["name"] == "token")

    def send(
        self, change: str, headers: dict[str, str] | None = None, cookies: dict[str, str] | None = None, **fields: str
    ) -> urllib3.BaseHTTPResponse:
        sent = {"token": self.token, "name": "Olga", "note": "", "snooze": "8h", "until": "", **fields}
        held = self.cookies if cookies is None else cookies
        return self.client.request(
            "POST",
            f"{self.path}/{change}",
            body=urlencode(sent),
            headers={
                "Content-Type": "application/x-www-form-urlencoded",
                "Cookie": "; ".join(f"{name}={value}" for name, value in held.items()),
                "Origin": self.client.url.rstrip("/"),
                **(headers or {}),
            },
        )


@pytest.fixture
def browser(live: Live) -> Browser:
    return Browser(live.client, live.incident_of("alice"))


def test_acknowledge_is_kept_with_name_and_note_and_shown(live: Live, browser: Browser) -> None:
    answer = browser.send("acknowledge", note=" asked\r\nher ")
    assert (answer.status, answer.headers["location"]) == (303, f"{browser.path}?done=acknowledged")
    number = live.incident_of("alice")
    assert live.store.incident(number).state is State.ACKNOWLEDGED  # type: ignore[union-attr]
    last = live.store.events(number)[-1]
    assert (last.kind, last.actor, last.text) == (EventKind.ACKNOWLEDGED, "Olga", "asked her")
    page = parse(live.client.page(answer.headers["location"]))
    assert "This incident is now acknowledged." in page.words
    assert "acknowledged by Olga asked her" in page.all("ol")[-1].words
    assert "Acknowledge" not in [button.words for button in page.all("button")]


def test_the_name_is_remembered_in_the_form(live: Live, browser: Browser) -> None:
    cookies = cookies_of(browser.send("acknowledge", name="Öl <ga>"))
    page = parse(live.client.get(browser.path, Cookie=urlencode(cookies)).data.decode())
    assert "Öl <ga>" in [field.attributes.get("value") for field in page.all("input")]


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"snooze": "1h"}, 3600),
        ({"snooze": "8h"}, 8 * 3600),
        ({"snooze": "1d"}, 86400),
        ({"snooze": "1w"}, 7 * 86400),
    ],
)
def test_snooze_for_a_while(live: Live, browser: Browser, fields: dict[str, str], seconds: float) -> None:
    assert browser.send("snooze", **fields).status == 303
    found = live.store.incident(live.incident_of("alice"))
    assert found is not None
    assert found.state is State.SNOOZED
    assert found.snoozed_until == live.now + seconds


def test_snooze_until_a_time_wins_over_the_length(live: Live, browser: Browser) -> None:
    assert browser.send("snooze", until="2099-01-01T00:00").status == 422
    until = datetime.fromtimestamp(live.now + 30 * 3600, UTC).replace(second=0, microsecond=0)
    assert browser.send("snooze", until=until.strftime("%Y-%m-%dT%H:%M")).status == 303
    assert live.store.incident(live.incident_of("alice")).snoozed_until == until.timestamp()  # type: ignore[union-attr]


def test_resolve(live: Live, browser: Browser) -> None:
    assert browser.send("resolve").status == 303
    page = parse(live.client.page(browser.path))
    assert "resolved: by a person" in page.words
    assert [form.attributes["action"] for form in page.all("form")] == [f"{browser.path}/intended"]


@pytest.mark.parametrize("change", ["acknowledge", "snooze", "resolve"])
def test_a_resolved_incident_cannot_be_changed(live: Live, browser: Browser, change: str) -> None:
    browser.send("resolve")
    answer = browser.send(change)
    page = parse(answer.data.decode())
    assert answer.status == 409
    assert "is resolved and cannot be" in page.words
    assert browser.path in [link.attributes["href"] for link in page.all("main")[0].all("a")]


def test_an_incident_that_does_not_exist(browser: Browser) -> None:
    browser.path = "/incidents/4711"
    assert browser.send("acknowledge").status == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 81},
        {"note": "x" * 501},
        {"snooze": "2h"},
        {"until": "tomorrow"},
        {"until": "2001-01-01T00:00"},
        {"until": "9999-12-31T23:59"},
        {"until": "0001-01-01T00:00"},
        {"until": "x" * 41},
    ],
)
def test_a_form_that_makes_no_sense_changes_nothing(live: Live, browser: Browser, fields: dict[str, str]) -> None:
    answer = browser.send("snooze", **fields)
    page = parse(answer.data.decode())
    assert answer.status == 422
    assert page.all("h1")[0].words == "The request cannot be understood"
    assert next(iter(fields)) in page.all("main")[0].words
    assert live.store.incident(live.incident_of("alice")).state is State.OPEN  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:8888"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_form_sent_from_elsewhere_changes_nothing(live: Live, browser: Browser, headers: dict[str, str]) -> None:
    """Also from another port of the same host, to which a browser sends the same cookies."""
    answer = browser.send("resolve", headers=headers)
    assert answer.status == 403
    assert "The change was not made" in answer.data.decode()
    assert live.store.incident(live.incident_of("alice")).state is State.OPEN  # type: ignore[union-attr]


@pytest.mark.parametrize("origin", [True, False])
@pytest.mark.parametrize(
    ("token", "cookie"),
    [("", None), ("x" * 43, None), (None, ""), ("", ""), (None, "x" * 43), ("é", None), ("short", "short")],
)
def test_without_the_browsers_token_nothing_changes(
    live: Live, browser: Browser, token: str | None, cookie: str | None, origin: bool
) -> None:
    fields = {} if token is None else {"token": token}
    cookies = None if cookie is None else {"dutycycle_token": cookie}
    headers = {} if origin else {"Origin": browser.client.url.rstrip("/")}
    assert browser.send("resolve", headers=headers, cookies=cookies, **fields).status == 403
    assert live.store.incident(live.incident_of("alice")).state is State.OPEN  # type: ignore[union-attr]


def test_one_token_serves_every_page_of_a_browser(live: Live, browser: Browser) -> None:
    again = live.client.get(browser.path, Cookie=f"dutycycle_token={browser.token}")
    assert f'value="{browser.token}"' in again.data.decode()
    assert cookies_of(again)["dutycycle_token"] == browser.token


def test_cookies_are_out_of_reach_of_scripts_and_other_sites(live: Live, browser: Browser) -> None:
    for response in (live.client.get(browser.path), browser.send("acknowledge")):
        for cookie in response.headers.getlist("set-cookie"):
            assert re.search("HttpOnly", cookie)
            assert re.search("SameSite=lax", cookie)
            assert "Secure" not in cookie  # it is plain HTTP


@pytest.mark.parametrize("public", ["https://gpus.example.org", "https://gpus.example.org:443"])
@pytest.mark.parametrize("name", ["gpus.example.org", "gpus.example.org:443", "gpus.example.org."])
def test_under_an_https_public_name_cookies_are_secure_and_forms_come_from_there(
    live_site: Callable[..., Live], public: str, name: str
) -> None:
    """Also where the proxy is on another machine, and is not believed that the browser used TLS; and with the port that
    browsers leave out, or a name that is fully qualified.
    """
    live = live_site(public_url=Web(public_url=public).public_url)
    number, host = live.incident_of("alice"), {"Host": name}
    page = live.client.get(f"/incidents/{number}", **host)
    assert "Secure" in page.headers["set-cookie"]
    browser = Browser(live.client, number)
    for origin, status in (("http://gpus.example.org", 403), ("null", 403), ("https://gpus.example.org", 303)):
        assert browser.send("resolve", headers={**host, "Origin": origin}).status == status


@pytest.mark.parametrize("change", ["acknowledge", "snooze", "resolve"])
def test_get_changes_nothing(live: Live, change: str) -> None:
    number = live.incident_of("alice")
    assert live.client.get(f"/incidents/{number}/{change}").status == 405
    assert live.store.incident(number).state is State.OPEN  # type: ignore[union-attr]
