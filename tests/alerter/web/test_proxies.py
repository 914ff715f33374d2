"""A proxy that logs people in: who is believed, and who becomes what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.requests import Request

from dutycycle_alerter.settings.web import Auth
from dutycycle_alerter.web.access.gate import Gate
from dutycycle_alerter.web.access.visitor import ForbiddenError, Means, NotLoggedInError, Visitor
from tests.alerter.web.conftest import Client
from tests.alerter.web.doubles import NOW, full_reader

SITE = {
    "proxy": {
        "trusted": ["10.0.0.0/24", "fd00::1"],
        "user_header": "X-Auth-User",
        "groups_header": "X-Auth-Groups",
        "domain": "example.org",
    },
    "operators": {"users": ["root", "adm-*"], "groups": ["hpc-admins"]},
    "viewers": {"groups": ["pi-*"]},
}


def request(*headers: tuple[str, str], peer: str = "10.0.0.7") -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    return Request({"type": "http", "headers": raw, "client": (peer, 1234), "scheme": "http", "path": "/"})


def visitor(asked: Request, **changes: object) -> Visitor:
    return Gate(Auth.model_validate(SITE | changes), bytes(32), lambda: NOW).visitor(asked)


@pytest.mark.parametrize(
    ("user", "groups", "role", "name"),
    [
        ("root", "", "operator", "root"),
        ("adm-olga", "", "operator", "adm-olga"),
        ("olga", "users,hpc-admins", "operator", "olga"),
        ("olga", " users , hpc-admins ", "operator", "olga"),
        ("vera", "pi-vision", "viewer", "vera"),
        ("alice", "users", "own", "alice"),
        ("alice@example.org", "", "own", "alice"),
        ("alice@elsewhere.org", "", "own", "alice@elsewhere.org"),
        ("root@elsewhere.org", "", "own", "root@elsewhere.org"),
        ("alice", "hpc-admins-not", "own", "alice"),
        ("alice", "HPC-ADMINS", "own", "alice"),
        ("Jörg", "", "own", "Jörg"),
    ],
)
def test_roles_by_users_and_groups(user: str, groups: str, role: str, name: str) -> None:
    found = visitor(request(("X-Auth-User", user), ("X-Auth-Groups", groups)))
    assert found == Visitor(role, name, Means.PROXY)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("X-Auth-User", "")],
        [("X-Auth-User", " ")],
        [("X-Forwarded-User", "root")],
        [("X_Auth_User", "root")],
        [("X-Auth-User", "root"), ("X-Auth-User", "root")],
        [("X-Auth-User", "alice"), ("x-auth-user", "root")],
        [("X-Auth-User", "alice,root")],
        [("X-Auth-User", "ali\x00ce")],
        [("X-Auth-User", "ali\u202ece")],
        [("X-Auth-User", "x" * 300)],
        [("X-Auth-User", "@example.org")],
        [("X-Auth-User", "olga"), ("X-Auth-Groups", "users"), ("X-Auth-Groups", "hpc-admins")],
    ],
)
def test_what_names_nobody_or_two_lets_nobody_in(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(NotLoggedInError):
        visitor(request(*headers))


@pytest.mark.parametrize("peer", ["10.0.1.7", "127.0.0.1", "fd00::2", "::1", "192.0.2.1", "::ffff:10.0.1.1"])
def test_headers_of_others_are_ignored(peer: str) -> None:
    """Also where they claim to be forwarded by the proxy."""
    asked = request(("X-Auth-User", "root"), ("X-Forwarded-For", "10.0.0.7"), peer=peer)
    with pytest.raises(NotLoggedInError):
        visitor(asked)
    assert visitor(asked, anonymous="viewer") == Visitor("viewer")  # type: ignore[arg-type]


@pytest.mark.parametrize("peer", ["10.0.0.1", "fd00::1", "::ffff:10.0.0.9", "fd00::1%eth0"])
def test_the_trusted_are_believed(peer: str) -> None:
    assert visitor(request(("X-Auth-User", "root"), peer=peer)).name == "root"


def test_what_everyone_else_may() -> None:
    asked = request(("X-Auth-User", "alice"))
    assert visitor(asked, everyone="viewer").role == "viewer"
    with pytest.raises(ForbiddenError, match="alice is known"):
        visitor(asked, everyone="none")
    with pytest.raises(ForbiddenError):
        visitor(asked, everyone="none", anonymous="none")


def test_failures_are_counted_by_whom_the_proxy_names() -> None:
    peers = Gate(Auth.model_validate(SITE), bytes(32), lambda: NOW).peers
    for forwarded, peer, client in [
        ("198.51.100.1", "10.0.0.7", "198.51.100.1"),
        ("1.1.1.1, 198.51.100.1", "10.0.0.7", "198.51.100.1"),
        ("nonsense", "10.0.0.7", "10.0.0.7"),
        ("198.51.100.1", "192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "10.0.0.7", "2001:db8:1:2::/64"),
    ]:
        assert peers.client(request(("X-Forwarded-For", forwarded), peer=peer).scope) == client


@pytest.mark.parametrize(
    ("peer", "client", "scheme"),
    [
        ("127.0.0.1", "127.0.0.1", "http"),
        ("::1", "::/64", "http"),
        ("10.9.0.1", "198.51.100.1", "https"),
        ("10.8.0.1", "10.8.0.1", "http"),
    ],
)
def test_a_proxy_that_logs_nobody_in_says_from_where_requests_come(peer: str, client: str, scheme: str) -> None:
    """Else all of a site would be one client, and one of them could lock out the others. Who asks it does not say."""
    gate = Gate(Auth(anonymous="viewer"), bytes(32), lambda: NOW, ["10.9.0.0/24"])
    forwarded = ("X-Forwarded-For", "1.1.1.1, 198.51.100.1"), ("X-Forwarded-Proto", "https")
    asked = request(("X-Forwarded-User", "root"), *forwarded, peer=peer)
    assert (gate.peers.client(asked.scope), gate.peers.scheme(asked.scope)) == (client, scheme)
    assert gate.visitor(asked) == Visitor("viewer")  # type: ignore[arg-type]


def test_it_is_the_peer_that_counts_on_a_real_connection(serve: Callable[..., Client]) -> None:
    """What a client forwards does not change who it is."""
    trusted = serve(full_reader(""), auth=Auth.model_validate({"proxy": {"trusted": ["127.0.0.1"]}}))
    assert trusted.get("/", **{"X-Forwarded-User": "alice"}).status == 200
    assert trusted.get("/", **{"X-Forwarded-User": "alice", "X-Forwarded-For": "192.0.2.1"}).status == 200
    assert trusted.get("/").status == 401
    other = serve(full_reader(""), auth=Auth.model_validate({"proxy": {"trusted": ["192.0.2.1"]}}))
    assert other.get("/", **{"X-Forwarded-User": "alice", "X-Forwarded-For": "192.0.2.1"}).status == 401
