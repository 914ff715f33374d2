"""Who gets what, by any way of saying who one is: pages, API, forms; and what is no way of saying it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import ValidationError

from dutycycle_alerter.incidents.model import State
from dutycycle_alerter.settings.web import Auth, Web
from dutycycle_alerter.web.access.attempts import AT_ONCE
from dutycycle_alerter.web.access.gate import default_auth
from tests.alerter.web.conftest import Client, Live
from tests.alerter.web.people import AUTH, SECRETS, TOKENS, Browser, bearer, logged_in
from tests.alerter.web.test_metrics import values

Site = Callable[..., Live]

OPEN = ("/-/healthy", "/-/ready", "/metrics", "/static/style.css", "/login", "/api/v1/openapi.json")
PAGES = ("/", "/expectations", "/users", "/gpus")
READS = tuple(f"/api/v1/{what}" for what in ("incidents", "expectations", "users", "gpus", "status", "reports/users"))
DEEDS = ("acknowledge", "snooze", "resolve", "intend")
BODIES: dict[str, dict[str, object]] = {
    "acknowledge": {"note": "x"},
    "snooze": {"seconds": 3600},
    "resolve": {},
    "intend": {"reason": "a benchmark", "scope": "job", "days": 3},
}


def raw(client: Client, request: bytes) -> bytes:
    """What is answered to these bytes, before the server closes."""
    place = urlsplit(client.url)
    with socket.create_connection((place.hostname, place.port), timeout=60) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture
def guarded(live_site: Site) -> Live:
    return live_site(auth=AUTH)


def test_nobody_sees_anything_without_logging_in(guarded: Live) -> None:
    number = guarded.incident_of("alice")
    for path in (*PAGES, f"/incidents/{number}", "/?state=all", "/incidents/4711", "/users?range=7d"):
        answer = guarded.client.get(path)
        assert (answer.status, answer.data) == (303, b""), path
        assert answer.headers["location"].startswith("/login?next=%2F"), path
    for path in (*READS, "/api/v1/fleet", f"/api/v1/incidents/{number}", "/api/v1/incidents/4711"):
        answer = guarded.client.get(path)
        assert answer.status == 401, path
        assert answer.headers["www-authenticate"].startswith("Bearer")
    for what in (*DEEDS, "intended"):
        for path in (f"/incidents/{number}/{what}", f"/api/v1/incidents/{number}/{what}"):
            headers = {"X-Requested-With": "dutycycle"}
            answer = guarded.client.request("POST", path, body="{}", headers=headers)
            assert answer.status in (401, 404), path
    assert guarded.client.request("DELETE", "/api/v1/expectations/1").status == 401
    for path in ("/nowhere", "/?page=0", "/incidents/0", "/incidents/../", "//", "/api/v1/nowhere"):
        answer = guarded.client.get(path)
        assert answer.status in (303, 401, 404), path
        for secret in ("alice", "gpu-a", "judged", *SECRETS.values()):
            assert secret not in answer.data.decode(), path


def test_what_is_open_names_nobody(guarded: Live) -> None:
    for path in OPEN:
        answer = guarded.client.get(path)
        assert answer.status == 200, path
        for name in ("alice", "erin", "heidi", "slurm/", *SECRETS.values()):
            assert name not in answer.data.decode(), path


@pytest.mark.parametrize("means", ["bearer", "session"])
@pytest.mark.parametrize("name", ["olga", "vic", "alice", "bob", ""])
def test_metrics_name_people_to_who_sees_everything_alone(guarded: Live, name: str, means: str) -> None:
    browser = logged_in(guarded.client, name) if name and means == "session" else Browser(guarded.client)
    # Not who sees everything first, and then not what they were given.
    for asked in ("vic", name, "vic", name):
        headers = bearer(asked) if asked and (asked != name or means == "bearer") else {}
        answer = browser.send("GET", "/metrics", headers=headers)
        page, sees_all = answer.data.decode(), asked in ("olga", "vic")
        assert answer.status == 200
        series = values(page, "dutycycle_incident_opened_timestamp_seconds")
        unresolved = sum(values(page, "dutycycle_incidents").values())
        assert len(series) == (unresolved if sees_all else 0)
        assert bool(values(page, "dutycycle_incident_wasted_gpu_seconds")) is sees_all
        assert values(page, "dutycycle_incidents_not_shown") == {(): 0 if sees_all else unresolved}
        assert unresolved > 0
        assert ("alice" in page, "slurm/" in page) == (sees_all, sees_all)


def test_a_scraper_with_a_wrong_token_is_told_so(guarded: Live) -> None:
    answer = guarded.client.get("/metrics", Authorization="Bearer " + "x" * 24)
    assert (answer.status, answer.headers["www-authenticate"][:6]) == (401, "Bearer")
    assert "dutycycle_incidents" not in answer.data.decode()


@pytest.mark.parametrize(
    ("auth", "sees_all"),
    [({"anonymous": "viewer"}, True), ({"anonymous": "operator"}, True), ({"tokens": TOKENS}, False)],
)
def test_metrics_name_people_to_everybody_where_everybody_sees_everything(
    live_site: Site, auth: dict[str, object], sees_all: bool
) -> None:
    page = live_site(auth=Auth.model_validate(auth)).client.page("/metrics")
    assert ("alice" in page) is sees_all


@pytest.mark.parametrize(("user", "sees_all"), [("vic", True), ("alice", False)])
def test_metrics_for_who_comes_by_a_proxy(live_site: Site, user: str, sees_all: bool) -> None:
    auth = Auth.model_validate({"proxy": {"trusted": ["127.0.0.1"]}, "viewers": {"users": ["vic"]}})
    page = live_site(auth=auth).client.get("/metrics", **{"X-Forwarded-User": user}).data.decode()
    assert ("alice" in page) is sees_all
    assert "dutycycle_incidents_not_shown" in page


@pytest.mark.parametrize("means", ["bearer", "session"])
@pytest.mark.parametrize("name", ["olga", "vic", "alice", "bob"])
def test_who_may_read_what(guarded: Live, name: str, means: str) -> None:
    sees_all = name in ("olga", "vic")
    client = guarded.client
    number = guarded.incident_of("alice")
    reads = 200 if sees_all or name == "alice" else 404
    browser = logged_in(client, name) if means == "session" else Browser(client)
    headers = bearer(name) if means == "bearer" else {}
    for path, status in [
        *((path, 200) for path in (*PAGES, *READS)),
        (f"/incidents/{number}", reads),
        (f"/api/v1/incidents/{number}", reads),
        ("/api/v1/fleet", 200 if sees_all else 403),
        ("/incidents/4711", 404),
    ]:
        answer = browser.send("GET", path, headers=headers)
        assert answer.status == status, path
        if not sees_all:
            page = answer.data.decode()
            others = {"alice", "bob", "carol", "dmitri", "erin", "heidi", "user11"} - {name}
            assert [other for other in others if other in page] == [], path
    listed = json.loads(browser.send("GET", "/api/v1/incidents", headers=headers).data)["incidents"]
    assert {one["user"] for one in listed} == (
        {"alice", "bob", "carol", "dmitri", "erin", "heidi"} if sees_all else {name}
    )
    for query in ("user=carol", "user=carol&state=open"):
        answer = browser.send("GET", f"/api/v1/incidents?{query}", headers=headers)
        assert (json.loads(answer.data)["total"] > 0) is sees_all


@pytest.mark.parametrize("what", DEEDS)
@pytest.mark.parametrize("may", ["olga", "alice"])
def test_who_may_do_what_by_the_api(guarded: Live, may: str, what: str) -> None:
    number = guarded.incident_of("alice")
    unknown = {"": {}, "?": {"Authorization": "Bearer " + "x" * 24}}
    for name, status in (("vic", 403), ("bob", 404), ("", 401), ("?", 401), (may, 200)):
        answer = guarded.client.request(
            "POST",
            f"/api/v1/incidents/{number}/{what}",
            body=json.dumps(BODIES[what] | {"name": "Mallory"}),
            headers={"Content-Type": "application/json", **(unknown[name] if name in unknown else bearer(name))},
        )
        assert answer.status == status, answer.data
        found = guarded.store.incident(number)
        assert found is not None
        assert (found.state is State.OPEN) is (status != 200)
        if status != 200:
            assert json.loads(answer.data)["error"]["code"] == status
    assert guarded.store.events(number)[-1].actor == may
    assert json.loads(answer.data)["incident"]["actor"] == may


@pytest.mark.parametrize("what", ["acknowledge", "snooze", "resolve", "intended"])
@pytest.mark.parametrize("may", ["olga", "alice"])
def test_who_may_do_what_on_the_page(guarded: Live, may: str, what: str) -> None:
    """The actor is who is logged in, whatever name is sent."""
    number = guarded.incident_of("alice")
    for name, status in (("vic", 403), ("bob", 404), (may, 303)):
        browser = logged_in(guarded.client, name)
        browser.get("/expectations" if name == "bob" else f"/incidents/{number}")
        answer = browser.post(f"/incidents/{number}/{what}", name="Mallory", reason="a benchmark")
        assert answer.status == status
        found = guarded.store.incident(number)
        assert found is not None
        assert (found.state is State.OPEN) is (status != 303)
    assert guarded.store.events(number)[-1].actor == may


def test_a_session_acts_by_the_api_only_with_the_header_and_from_here(guarded: Live) -> None:
    path = f"/api/v1/incidents/{guarded.incident_of('alice')}/acknowledge"
    browser = logged_in(guarded.client, "olga")
    for headers, status in [
        ({}, 403),
        ({"X-Requested-With": "XMLHttpRequest"}, 403),
        ({"X-Requested-With": "dutycycle", "Origin": "https://evil.example"}, 403),
        ({"X-Requested-With": "dutycycle", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"X-Requested-With": "dutycycle"}, 200),
    ]:
        sent = {
            "Content-Type": "application/json",
            "Cookie": f"dutycycle_session={browser.cookies['dutycycle_session']}",
        }
        answer = guarded.client.request("POST", path, body="{}", headers=sent | headers)
        assert answer.status == status, headers
    # A body that a form of another site can send is none of ours.
    sent["Content-Type"] = "text/plain"
    assert guarded.client.request("POST", path, body="{}", headers=sent | headers).status == 422


NO_WAYS = [
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer "},
    {"Authorization": f"Bearer {SECRETS['olga']}x"},
    {"Authorization": f"Bearer {SECRETS['olga'][:-1]}"},
    {"Authorization": f"Bearer {SECRETS['olga'].upper()}"},
    {"Authorization": f"Basic {SECRETS['olga']}"},
    {"Authorization": SECRETS["olga"]},
    {"Authorization": "Bearer \xe9" + "x" * 30},
    {"Authorization": "Bearer " + "x" * 10_000},
    {"Cookie": f"dutycycle_session={SECRETS['olga']}"},
    {"Cookie": "dutycycle_session=" + "A" * 5000},
    {"Cookie": "dutycycle_session="},
    {"X-Forwarded-User": "olga"},
    {"X-API-Key": SECRETS["olga"]},
]


def test_what_is_no_way_of_saying_who_one_is(guarded: Live) -> None:
    for headers in NO_WAYS:
        assert guarded.client.get("/api/v1/status", **headers).status == 401, headers


def test_a_token_twice_is_nobodys(guarded: Live) -> None:
    line = f"Authorization: Bearer {SECRETS['olga']}\r\n"
    head = f"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{line}"
    assert raw(guarded.client, f"{head}\r\n".encode()).startswith(b"HTTP/1.1 200 ")
    assert raw(guarded.client, f"{head}{line}\r\n".encode()).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("name", ["token", "access_token", "secret", "key", "authorization", "api_key"])
def test_a_token_in_an_address_is_not_looked_at(guarded: Live, name: str) -> None:
    """Addresses end in logs and histories."""
    for path in ("/api/v1/status", "/"):
        assert guarded.client.get(f"{path}?{name}={SECRETS['olga']}").status in (303, 401)
    assert guarded.client.request("POST", f"/login?secret={SECRETS['olga']}").status in (403, 422)


TRICKS = [
    "/incidents/../api/v1/status",
    "/login/../api/v1/incidents",
    "/static/../api/v1/incidents",
    "/static/..%2f..%2fapp.py",
    "/static/%2e%2e/app.py",
    "/static/%2e%2e%2f%2e%2e%2fsettings%2fweb.py",
    "/static/....//....//etc/passwd",
    "/static//etc/passwd",
    "/static/%00",
    "//api/v1/incidents",
    "/api//v1/incidents",
    "/api/v1/incidents/",
    "/api/v1%2fincidents",
    "/API/v1/incidents",
    "/%2e/api/v1/incidents",
    "/./users",
    "/users/",
    "/users;x",
    "/users%20",
    "/users%00",
    "/-/../users",
    "/metrics/../users",
    "/act/..%2fusers",
    "/act/%2e%2e%2fincidents%2f1",
    "/incidents/1%2facknowledge",
    "/\\users",
    "http://evil.example/users",
]


def test_tricks_with_the_path_open_nothing(guarded: Live) -> None:
    for path in TRICKS:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        answer = raw(guarded.client, head)
        assert int(answer.split(b" ", 2)[1]) in (303, 400, 401, 404, 405), (path, answer)
        for secret in (b"alice", b"gpu-a", b"root:", b"import "):
            assert secret not in answer, path


@pytest.mark.parametrize("what", ["viewer", "operator"])
def test_what_who_is_not_logged_in_may(live_site: Site, what: str) -> None:
    live = live_site(auth=Auth.model_validate({"anonymous": what, "tokens": TOKENS}))
    number = live.incident_of("alice")
    browser = Browser(live.client)
    page = browser.get(f"/incidents/{number}").data.decode()
    assert ("Acknowledge" in page) is (what == "operator")
    assert ("Log in" in page) is True
    answer = browser.post(f"/incidents/{number}/acknowledge", name="Olga")
    # A viewer's page has no form, and so no token.
    assert answer.status == (303 if what == "operator" else 403)
    headers = {"X-Requested-With": "dutycycle", "Content-Type": "application/json"}
    answer = live.client.request("POST", f"/api/v1/incidents/{number}/resolve", body='{"name": "Eve"}', headers=headers)
    assert answer.status == (200 if what == "operator" else 403)
    if what == "operator":
        assert live.store.events(number)[-1].actor == "Eve (not logged in)"
        assert [event.actor for event in live.store.events(number)][-2] == "Olga (not logged in)"
        assert live.client.get("/api/v1/status", Authorization="Bearer " + "x" * 30).status == 401


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("127.0.0.1", "operator"),
        ("127.1.2.3", "operator"),
        ("::1", "operator"),
        ("localhost", "operator"),
        ("", "viewer"),
        ("0.0.0.0", "viewer"),
        ("::", "viewer"),
        ("10.0.0.1", "viewer"),
        ("gpu.example.org", "viewer"),
        ("localhost.example.org", "viewer"),
    ],
)
def test_where_nothing_is_configured_nobody_acts_from_elsewhere(host: str, may: str) -> None:
    assert default_auth(host).anonymous == may


@pytest.mark.parametrize(
    ("web", "may"),
    [
        ({}, "operator"),
        ({"public_url": "http://127.0.0.1:9837", "allowed_hosts": ["LocalHost.:8080", "[::1]"]}, "operator"),
        ({"public_url": "https://gpus.example.org/dutycycle"}, "viewer"),
        ({"allowed_hosts": ["localhost", "gpus.example.org:8443"]}, "viewer"),
        ({"public_url": "https://192.0.2.1"}, "viewer"),
    ],
)
def test_behind_a_proxy_nobody_acts_where_nothing_is_configured(web: dict[str, object], may: str) -> None:
    """The page then listens on a loopback address and yet serves everybody."""
    assert default_auth("127.0.0.1", Web.model_validate(web).reached_by).anonymous == may


def test_a_programs_guesses_are_counted_and_lock_out_no_valid_token(guarded: Live) -> None:
    def status(secret: str) -> int:
        return guarded.client.get("/api/v1/status", Authorization=f"Bearer {secret}").status

    assert [status("x" * 24) for _ in range(AT_ONCE)] == [401] * AT_ONCE
    assert (status("x" * 24), status(SECRETS["olga"])) == (429, 200)
    assert logged_in(guarded.client, "olga").get("/").status == 200


def test_a_token_in_a_file_is_read_anew(live_site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "token"
    live = live_site(auth=Auth.model_validate({"tokens": [{"name": "olga", "token_file": str(file)}]}))

    def status(secret: str) -> int:
        return live.client.get("/api/v1/status", Authorization=f"Bearer {secret}").status

    assert status("a" * 30) == 401
    assert status("a" * 30) == 401
    assert caplog.text.count("olga cannot log in") == 1  # however often somebody tries
    file.write_text("a" * 30 + "\n")
    assert status("a" * 30) == 200
    file.write_text("b" * 30)
    assert (status("a" * 30), status("b" * 30)) == (401, 200)
    for unusable in ("short", "", "two\nlines" + "x" * 30, "\x00" * 30):
        file.write_text(unusable)
        assert status(unusable.splitlines()[-1] if unusable.isprintable() and unusable else "lines" + "x" * 30) == 401
    file.unlink()
    assert status("b" * 30) == 401


@pytest.mark.parametrize(
    ("auth", "says"),
    [
        ({}, "nobody could log in"),
        ({"tokens": [{"name": "a", "token": "short"}]}, "at least 20"),
        ({"tokens": [{"name": "a"}]}, "token_file"),
        ({"tokens": [{"name": "a", "token": "x" * 24, "token_file": "f"}]}, "token_file"),
        ({"tokens": [TOKENS[0], TOKENS[0]]}, "two tokens are called 'olga'"),
        ({"tokens": [{"name": "a b\n", "token": "x" * 24}]}, "name"),
        ({"tokens": [{"name": "", "token": "x" * 24}]}, "name"),
        ({"tokens": [{"name": "a", "token": "x" * 24, "role": "admin"}]}, "role"),
        ({"proxy": {}}, "trusted"),
        ({"proxy": {"trusted": []}}, "trusted"),
        ({"proxy": {"trusted": ["localhost"]}}, "an address or a network"),
        ({"proxy": {"trusted": ["10.0.0.1/8"]}}, "an address or a network"),
        ({"proxy": {"trusted": ["0.0.0.0/0"]}}, "is everybody"),
        ({"proxy": {"trusted": ["::/0"]}}, "is everybody"),
        ({"proxy": {"trusted": ["10.0.0.1"], "user_header": "X_User"}}, "the name of a header"),
        ({"proxy": {"trusted": ["10.0.0.1"], "user_header": "Authorization"}}, "says something else"),
        ({"tokens": TOKENS, "operators": {"users": ["a"]}}, "give proxy"),
        ({"proxy": {"trusted": ["10.0.0.1"]}, "viewers": {"groups": ["a"]}}, "groups_header"),
    ],
)
def test_a_configuration_that_lets_in_the_wrong_ones_is_an_error(auth: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says) as refused:
        Auth.model_validate(auth)
    assert "x" * 24 not in str(refused.value)


@pytest.mark.parametrize("name", ["", " ", "a b", "http://h.example", "h.example/", "h.example:x", "u@h.example", "*"])
def test_a_host_that_is_none_is_an_error(name: str) -> None:
    with pytest.raises(ValidationError, match="allowed_hosts"):
        Web(allowed_hosts=(name,))


@pytest.mark.parametrize(
    ("given", "ascii_name"),
    [
        ("gpus.example.org:8443", "gpus.example.org:8443"),
        ("GPU_1.example.org", "GPU_1.example.org"),
        ("[::1]:80", "[::1]:80"),
        ("bücher.example:80", "xn--bcher-kva.example:80"),
        # As browsers write them: not "strasse", and with a dot.
        ("straße.example", "xn--strae-oqa.example"),
        ("ＧＰＵ。bücher.example", "gpu.xn--bcher-kva.example"),
        ("gpu_1.bücher.example", "gpu_1.xn--bcher-kva.example"),
    ],
)
def test_a_host_is_kept_as_browsers_send_it(given: str, ascii_name: str) -> None:
    assert Web(allowed_hosts=(given,)).allowed_hosts == (ascii_name,)
    assert Web(public_url=f"https://{given}/dutycycle").public_url == f"https://{ascii_name}/dutycycle"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://gpus.example.org:443/dutycycle", "https://gpus.example.org/dutycycle"),
        ("http://gpus.example.org:80", "http://gpus.example.org"),
        ("http://gpus.example.org:443", "http://gpus.example.org:443"),
        ("https://bücher.example.:0443", "https://xn--bcher-kva.example"),
    ],
)
def test_the_public_address_is_kept_as_browsers_write_it(given: str, kept: str) -> None:
    assert Web(public_url=given).public_url == kept


@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("☃.example", "xn--"),  # browsers know it, the standard does not
        ("a\u200db.example", "xn--"),
        ("x" * 64 + "ü.example", "xn--"),
        ("a..bücher.example", "host name"),
        ("a$b.example", "host name"),
        ("h.example:x", "host name"),
        ("h.example:123456", "host name"),
    ],
)
def test_a_host_that_no_browser_could_send_is_an_error(host: str, says: str) -> None:
    """It would be known to nobody, or as the empty name to everybody."""
    for key, value in (("allowed_hosts", (host,)), ("public_url", f"https://{host}/dutycycle")):
        with pytest.raises(ValidationError, match=rf"(?s){key}.*{says}"):
            Web.model_validate({key: value})


@pytest.mark.parametrize("url", ["https://h.example/incidents", "https://h.example/api/x", "https://h.example/a/../b"])
def test_a_public_path_that_hides_pages_is_an_error(url: str) -> None:
    with pytest.raises(ValidationError, match="path"):
        Web(public_url=url)
