"""Logging in and out on the page, and how a session ends."""

from __future__ import annotations

import base64
import logging
import string
from collections.abc import Callable

import pytest

from dutycycle_alerter.settings.web import Auth
from dutycycle_alerter.web.access.attempts import AT_ONCE, EVERY, Attempts
from dutycycle_alerter.web.access.sessions import COOKIE, Sessions
from dutycycle_alerter.web.access.tokens import Tokens
from dutycycle_alerter.web.seldom import AT_ONCE as AT_ONCE_LOGGED
from dutycycle_alerter.web.seldom import Seldom
from tests.alerter.web.conftest import KEY, Client, Live
from tests.alerter.web.doubles import NOW, FixedReader, full_reader
from tests.alerter.web.people import AUTH, SECRETS, TOKENS, Browser, logged_in

Serve = Callable[..., Client]
LIFETIME, DAY = 3600.0, 86400.0


def test_log_in_look_and_log_out(live_site: Callable[..., Live]) -> None:
    live = live_site(auth=AUTH)
    browser = Browser(live.client)
    answer = browser.get("/users?range=30d")
    assert (answer.status, answer.headers["location"]) == (303, "/login?next=%2Fusers%3Frange%3D30d")
    browser.get(answer.headers["location"])
    answer = browser.post("/login", secret=f" {SECRETS['vic']}\n", next="/users?range=30d")
    assert (answer.status, answer.headers["location"]) == (303, "/users?range=30d")
    page = browser.get("/users?range=30d")
    assert page.status == 200
    assert "vic" in page.data.decode()
    assert browser.post("/logout").headers["location"] == "/login"
    assert browser.cookies[COOKIE] == ""
    assert browser.get("/users").status == 303


def test_a_wrong_token_is_said_and_kept_nowhere(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    browser = Browser(serve(full_reader(""), auth=AUTH))
    for secret in ("", "x", "wrong-" + "x" * 30, "\u00fc" * 30, "x" * 5000, SECRETS["olga"] + "x"):
        answer = browser.log_in(secret)
        assert answer.status == 401
        assert "nobody" in answer.data.decode()
        assert COOKIE not in browser.cookies
        if len(secret) > 20:
            assert secret not in answer.data.decode()
            assert secret not in caplog.text


def test_log_ins_are_in_the_log_with_client_and_name(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="dutycycle_alerter.web.access.gate")
    client = serve(full_reader(""), auth=AUTH)
    logged_in(client, "olga")
    Browser(client).log_in("wrong")
    client.get("/api/v1/status", Authorization="Bearer wrong")
    assert [record.message for record in caplog.records if record.name.endswith("gate")] == [
        "log-in of olga from 127.0.0.1",
        "log-in from 127.0.0.1 refused: nobody's token",
        "request from 127.0.0.1 refused: nobody's token",
    ]


def test_lines_of_the_log_that_requests_cause_are_bounded() -> None:
    times = [100.0]
    seldom, line = Seldom(lambda: times[0]), logging.makeLogRecord({})
    assert sum(seldom.filter(line) for _ in range(3 * AT_ONCE_LOGGED)) == AT_ONCE_LOGGED
    times[0] += 1
    assert [seldom.filter(line) for _ in range(2)] == [True, False]


def test_a_clock_that_is_set_back_silences_no_log() -> None:
    seldom = Seldom()
    for at in (NOW + DAY, NOW, NOW + 1):
        assert seldom.filter(logging.makeLogRecord({"created": at}))


def test_secrets_are_on_no_page_and_in_no_log(live_site: Callable[..., Live], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    live = live_site(auth=AUTH)
    browser = logged_in(live.client, "olga")
    session = browser.cookies[COOKIE]
    said = [browser.get(path).data.decode() for path in ("/", "/gpus", "/nowhere", "/metrics", "/api/v1/status")]
    assert browser.send("GET", "/", headers={"Authorization": f"Bearer {SECRETS['olga']}x"}).status == 401
    for text in (*said, caplog.text):
        for secret in (*SECRETS.values(), session, KEY.hex()):
            assert secret not in text


def test_forms_of_other_sites_neither_log_in_nor_out(serve: Serve) -> None:
    client = serve(full_reader(""), auth=AUTH)
    browser = logged_in(client, "olga")
    browser.get("/")
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        for path, fields in (("/logout", {}), ("/login", {"secret": SECRETS["vic"]})):
            answer = browser.send("POST", path, {"token": browser.token, **fields}, headers)
            assert answer.status == 403
    for token in ("", "x" * 43):
        assert browser.send("POST", "/logout", {"token": token}).status == 403
    assert browser.get("/").status == 200


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "", "/\t/evil.example", "javascript:x", "/é"],
)
def test_after_the_log_in_one_is_here(serve: Serve, elsewhere: str) -> None:
    browser = Browser(serve(full_reader(""), auth=AUTH))
    assert browser.log_in(SECRETS["olga"], elsewhere).headers["location"] == "/"


def test_the_cookie_is_out_of_reach(serve: Serve) -> None:
    client = serve(full_reader(""), auth=AUTH, proxies=["127.0.0.1"])
    for proto, secure in (({}, False), ({"X-Forwarded-Proto": "https"}, True)):
        browser = Browser(client)
        browser.get("/login")
        fields = {"token": browser.token, "secret": SECRETS["olga"]}
        answer = browser.send("POST", "/login", fields, proto)
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Max-Age=43200" in cookie
        assert ("Secure" in cookie) is secure


def test_there_is_no_log_in_where_there_are_no_tokens(serve: Serve) -> None:
    client = serve(full_reader(""))
    assert client.get("/login").status == 404
    assert client.request("POST", "/login", fields={"secret": "x"}).status == 404


def sessions(tokens: list[dict[str, str]] = TOKENS, key: bytes = KEY) -> Sessions:
    return Sessions(Tokens(Auth.model_validate({"tokens": tokens}).tokens), key, LIFETIME)


def test_a_session_ends() -> None:
    token = AUTH.tokens[0]
    cookie = sessions().begun(token, SECRETS["olga"], now=NOW)
    assert sessions().read(cookie, now=NOW + LIFETIME - 1) == token
    assert sessions().read(cookie, now=NOW + LIFETIME) is None
    others = [other for other in TOKENS if other["name"] != "olga"]
    assert sessions(others).read(cookie, now=NOW) is None
    assert sessions([{"name": "olga", "token": "y" * 24}]).read(cookie, now=NOW) is None
    assert sessions(key=bytes(32)).read(cookie, now=NOW) is None
    degraded = sessions([{**TOKENS[0], "role": "viewer"}]).read(cookie, now=NOW)
    assert degraded is not None
    assert degraded.role == "viewer"


def test_a_changed_session_is_nobodys() -> None:
    data = base64.urlsafe_b64decode(sessions().begun(AUTH.tokens[0], SECRETS["olga"], now=NOW))
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        assert sessions().read(base64.urlsafe_b64encode(changed).decode(), now=NOW) is None, place
    for nonsense in ("", "x", "====", "é", "A" * 44, "A" * 10_000, "AAAA"):
        assert sessions().read(nonsense, now=NOW) is None


def test_a_session_is_one_cookie() -> None:
    """Its last character has bits that mean nothing, and are nothing else than they were."""
    cookie = sessions().begun(AUTH.tokens[0], SECRETS["olga"], now=NOW)
    whole = cookie.rstrip("=")
    assert whole != cookie
    read = [
        last
        for last in string.ascii_letters + string.digits + "-_"
        if sessions().read(f"{whole[:-1]}{last}{cookie[len(whole) :]}", now=NOW)
    ]
    assert read == [whole[-1]]


def test_who_fails_too_often_has_to_wait(serve: Serve) -> None:
    times = [1000.0]
    client = serve(FixedReader(), auth=AUTH, monotonic=lambda: times[0])
    browser = Browser(client)
    for _ in range(AT_ONCE):
        assert browser.log_in("wrong").status == 401
    answer = browser.log_in("wrong")
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) == EVERY
    times[0] += EVERY
    assert browser.log_in("wrong").status == 401


def test_a_valid_token_is_accepted_while_its_address_has_to_wait(serve: Serve) -> None:
    client = serve(full_reader(""), auth=AUTH)
    browser = Browser(client)
    for _ in range(AT_ONCE + 1):
        wrong = client.get("/api/v1/status", Authorization="Bearer wrong").status, browser.log_in("wrong").status
    assert wrong == (429, 429)
    assert client.get("/api/v1/status", Authorization=f"Bearer {SECRETS['olga']}").status == 200
    assert browser.log_in(SECRETS["olga"]).status == 303


def test_nobody_waits_because_the_clock_was_set_back(serve: Serve) -> None:
    times = [NOW + DAY]
    browser = Browser(serve(FixedReader(), auth=AUTH, clock=lambda: times[0]))
    assert browser.log_in("wrong").status == 401
    times[0] = NOW
    assert browser.log_in(SECRETS["olga"]).status == 303


def test_failures_are_counted_by_client_and_in_bounded_memory() -> None:
    attempts = Attempts()
    for _ in range(AT_ONCE + 5):
        attempts.failed("a", now=NOW)
    assert attempts.wait("a", now=NOW) == 6 * EVERY
    assert attempts.wait("b", now=NOW) == 0
    assert attempts.wait("a", now=NOW + 1000 * EVERY) == 0
    for number in range(20_000):
        attempts.failed(str(number), now=NOW)
    assert len(attempts._free_at) <= 10_000
