"""What browsers, scripts and proxies send: links' tokens, bodies, queries, headers."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import example
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge
from pydantic import ValidationError
from starlette.datastructures import Headers

from dutycycle_alerter.notify.links import LIFETIME, Action, ActionLink, LinkError, Links, UnsubscribeLink
from dutycycle_alerter.notify.model import Recipient, To
from dutycycle_alerter.settings.web import Proxy
from dutycycle_alerter.web import forms
from dutycycle_alerter.web.access.proxies import Peers, person
from dutycycle_alerter.web.access.visitor import NotLoggedInError
from dutycycle_alerter.web.api import ExpectationsQuery, IncidentsQuery
from dutycycle_alerter.web.api_actions import Intended, Note, Snooze
from dutycycle_alerter.web.guard import host_name
from dutycycle_alerter.web.lists import IncidentQuery, UsersQuery
from dutycycle_alerter.web.metrics.route import encoder
from tests.fuzz.hostile import jsons, texts
from tests.fuzz.running import fuzz

NOW = 1_800_000_000.0
LINKS = Links("https://host.example", bytes(range(32)))
MADE = tuple(
    url.rpartition("/")[2]
    for url in (
        LINKS.action(7, Action.RESOLVE, Recipient(To.OWNER, "alice"), now=NOW),
        LINKS.action(2**63, Action.ACKNOWLEDGE, Recipient(To.OPERATORS, ""), now=NOW),
        LINKS.unsubscribe("mail", "alice", now=NOW),
    )
)


@fuzz(token=texts(MADE, tokens=["A", "_", "-", "=", "=="]))
def test_no_token_but_ours_is_believed(token: str) -> None:
    try:
        found = LINKS.read(token, now=NOW)
    except LinkError as error:
        assert error.reason in ("malformed", "forged", "expired")
    else:
        assert token in MADE
        assert isinstance(found, ActionLink | UnsubscribeLink)


@fuzz(
    number=st.integers(0, 2**64 - 1),
    action=st.sampled_from(Action),
    to=st.sampled_from(To),
    user=st.text(st.characters(), max_size=60),
)
def test_what_a_link_says_is_read_as_it_was(number: int, action: Action, to: To, user: str) -> None:
    url = LINKS.action(number, action, Recipient(to, user), now=NOW)
    expected = ActionLink(number, action, Recipient(to, user), NOW + LIFETIME)
    assert LINKS.read(url.rpartition("/")[2], now=NOW + 1) == expected


BODIES = (
    {"note": "seen", "name": "ada", "seconds": 3600},
    {"reason": "a benchmark of ours", "scope": "job", "covered": "open", "days": 7, "name": "ada"},
    {"note": "", "name": ""},
)


@fuzz(body=jsons(BODIES))
def test_a_body_is_understood_or_refused(body: bytes) -> None:
    for shape in (Note, Snooze, Intended):
        try:
            found: Any = shape.model_validate_json(body)
        except ValidationError:
            continue
        for text in (getattr(found, "note", ""), getattr(found, "reason", ""), found.name):
            assert not any(character < " " or character == "\x7f" for character in text)
            assert len(text) <= 1000
        assert 60 <= getattr(found, "seconds", 60) <= forms.MAX_SNOOZE
        assert 1 <= getattr(found, "days", 1) <= 90


NAMES = (
    "state",
    "user",
    "rule",
    "severity",
    "node",
    "workload",
    "cluster",
    "limit",
    "offset",
    "page",
    "since",
    "range",
    "sort",
)
VALUES = texts(["open", "ada", "idle", "100", "0", "slurm/7", "-1", "24h"])


@fuzz(query=st.dictionaries(st.sampled_from(NAMES), VALUES | st.lists(VALUES, max_size=3), max_size=5))
def test_a_query_is_understood_or_refused(query: dict[str, object]) -> None:
    for shape in (IncidentsQuery, ExpectationsQuery, IncidentQuery, UsersQuery):
        try:
            found: Any = shape.model_validate(query)
        except ValidationError:
            continue
        if hasattr(found, "page_url"):
            url = found.page_url(2)
            assert url.isascii()
            assert not set(url) & set(' \n"<>')


PROXY = Proxy(trusted=["10.0.0.0/8"], user_header="X-User", groups_header="X-Groups", domain="example.org")
HEADERS = st.lists(
    st.tuples(
        st.sampled_from([b"x-user", b"x-groups", b"x-forwarded-for", b"x-forwarded-proto", b"host"]),
        texts(["ada@example.org", "a,b", "10.1.2.3, ::1", "fe80::1%eth0", "https", "[::1]:80"]).map(
            lambda text: text.encode("utf-8", "surrogatepass")
        )
        | st.binary(max_size=20),
    ),
    max_size=4,
)


@fuzz(headers=HEADERS, client=st.none() | texts(["10.0.0.1", "::ffff:10.0.0.1", "127.0.0.1", "fe80::1%eth0", ""]))
def test_a_proxys_headers_name_one_person_or_nobody(headers: list[tuple[bytes, bytes]], client: str | None) -> None:
    scope: Any = {
        "type": "http",
        "headers": headers,
        "client": None if client is None else (client, 1),
        "scheme": "http",
    }
    try:
        found = person(Headers(scope=scope), PROXY)
        assert found is None or (found.user.isprintable() and 0 < len(found.user) < math.inf and "," not in found.user)
    except NotLoggedInError:
        pass
    peers = Peers(PROXY.trusted, ())
    assert peers.scheme(scope) in ("http", "https")
    assert isinstance(peers.client(scope), str)
    host = host_name(Headers(scope=scope).get("host", ""))
    assert not set(host) & set(" /\n\r<>[]")


REGISTRY = CollectorRegistry()
Gauge("dutycycle_up", "Whether it is.", registry=REGISTRY).set(1)
ACCEPTED = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
    "text/plain;version=1.0.0;escaping=underscores",
    "application/openmetrics-text; version=0.0.1",
)


@fuzz(accept=texts(ACCEPTED, tokens=["version=", "version=1.0.0.x", "version=\u00b2", ";", ",", "escaping=dots"]))
@example(accept="application/openmetrics-text; version=one")
@example(accept="text/plain; version=1.0.0; escaping=dots")
def test_a_scraper_has_a_page_whatever_it_accepts(accept: str) -> None:
    header = Headers(raw=[(b"accept", accept.encode("utf-8", "surrogatepass"))])["accept"]
    encode, content_type = encoder(header)
    assert content_type.startswith(("text/plain; version=", "application/openmetrics-text; version="))
    # That scheme doubles underscores: https://prometheus.io/docs/instrumenting/escaping_schemes/
    name = b"dutycycle__up" if content_type.endswith("escaping=dots") else b"dutycycle_up"
    assert b"\n%b 1.0\n" % name in encode(REGISTRY)
