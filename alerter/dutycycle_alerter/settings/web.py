"""The page and its API: where they listen, how people reach them, and who may do what."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

import idna
from pydantic import AfterValidator, Field, SecretStr, model_validator

from dutycycle_alerter.authorities import Authority, authority
from dutycycle_alerter.settings.types import RealDuration, Section

HEALTH_PORT = 9838
"""The port of `health_listen_address` by default."""
SHORTEST_TOKEN = 20
"""Characters of a token: too many to be guessed."""

_TAKEN = ("-", "act", "api", "expectations", "incidents", "static", "unsubscribe")
"""First parts of the page's own addresses that have others below them."""


def _public(url: str) -> str:
    parts = urlsplit(url)
    if url and (not re.fullmatch(r"https?://[^\s/?#\\@]+(/[^\s?#\\]*)?", url) or not parts.hostname):
        raise ValueError("expected the address of the page in a browser, such as https://gpus.example.org")
    path = parts.path.rstrip("/")
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", path) or {".", ".."} & set(path.split("/")):
        raise ValueError("a path is made of letters, digits, '.', '_', '~' and '-', such as /dutycycle")
    if path and path.split("/")[1] in _TAKEN:
        raise ValueError(f"the path {path} would hide pages of its own: choose another, such as /dutycycle")
    return url and f"{parts.scheme}://{_authority(parts.netloc).within(parts.scheme)}{path}"


def _header(name: str) -> str:
    # Not underscores: proxies turn them into hyphens, or drop them, each as it likes.
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise ValueError("expected the name of a header, such as X-Forwarded-User")
    if name.lower() in ("authorization", "cookie", "host", "origin"):
        raise ValueError("this header says something else: choose one that the proxy alone sets")
    return name


def _network(text: str) -> str:
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise ValueError("expected an address or a network, such as 127.0.0.1 or 10.0.0.0/24") from None
    if not network.prefixlen:
        raise ValueError(f"{text} is everybody: name the network of the proxy")
    return str(network)


def _host(name: str) -> str:
    return str(_authority(name))


def _authority(name: str) -> Authority:
    """As a browser sends it: in ASCII. What is compared with a Host header must have no other form."""
    known = name
    if not name.isascii():
        host, colon, port = name.partition(":")
        known = f"{_in_ascii(host)}{colon}{port}"
    found = authority(known)
    if found is None:
        raise ValueError("expected a host name as in the browser's address, such as gpus.example.org")
    return found


def _in_ascii(host: str) -> str:
    """By UTS #46, as browsers do: Python's own codec is of 2003, and makes "strasse" of "straße"."""
    try:
        labels = idna.uts46_remap(host, std3_rules=False).split(".")
        return ".".join(label if label.isascii() else idna.alabel(label).decode() for label in labels)
    except idna.IDNAError as error:
        raise ValueError(
            f"the host name {host!r} has no form in ASCII ({error}): "
            "write it as browsers send it, such as xn--bcher-kva.example"
        ) from None


def _secret_token(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if len(text) < SHORTEST_TOKEN or not re.fullmatch(r"[!-~]+", text):
        raise ValueError(f"a token has at least {SHORTEST_TOKEN} visible ASCII characters: `openssl rand -hex 24`")
    return value


_Header = Annotated[str, Field(max_length=80), AfterValidator(_header)]
_Network = Annotated[str, AfterValidator(_network)]
_Host = Annotated[str, Field(max_length=260), AfterValidator(_host)]
_Pattern = Annotated[str, Field(min_length=1, max_length=200)]
_PersonName = Annotated[
    str, Field(min_length=1, max_length=80, pattern=r"^[^\s\x00-\x1f\x7f]+( [^\s\x00-\x1f\x7f]+)*$")
]


class Token(Section):
    """One person or program that logs in by a token: at /login, or as `Authorization: Bearer` of the API."""

    name: _PersonName
    """Who it is: shown as the actor of changes; with role `own`, the user as the scheduler calls them."""
    role: Literal["operator", "viewer", "own"] = "viewer"
    """operator: sees and does everything. viewer: sees everything. own: sees and does what is about their own jobs."""
    token: Annotated[SecretStr, AfterValidator(_secret_token)] | None = None
    """The token."""
    token_file: Path | None = None
    """A file with it, reread for each use."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.token is None) == (self.token_file is None):
            raise ValueError(f"the token of {self.name!r}: give token_file, or token: ${{NAME}}")
        return self


class Proxy(Section):
    """A proxy that logs people in and says who they are in headers, such as oauth2-proxy or ingress-nginx with it."""

    user_header: _Header = "X-Forwarded-User"
    """The header with the user's name. The proxy must set or remove it in every request."""
    groups_header: _Header | None = None
    """The header with the user's groups, separated by commas; the proxy must set or remove it in every request."""
    domain: str = Field(default="", max_length=200)
    """An email domain that is removed from names: with `example.org`, alice@example.org is alice."""
    trusted: tuple[_Network, ...] = Field(min_length=1, max_length=50)
    """Addresses or networks of the proxy: the headers of whoever else connects are ignored."""


class Members(Section):
    """People by shell-style patterns."""

    users: tuple[_Pattern, ...] = Field(default=(), max_length=500)
    """Patterns of users' names."""
    groups: tuple[_Pattern, ...] = Field(default=(), max_length=500)
    """Patterns of their groups."""


class Auth(Section):
    """Who may see what, and act. Without it everybody may act where the page listens on a loopback address and is
    reached there (no `allowed_hosts` or `public_url` of another machine), and elsewhere only look.
    """

    tokens: tuple[Token, ...] = Field(default=(), max_length=200)
    """Who logs in with a token."""
    proxy: Proxy | None = None
    operators: Members = Members()
    """Whom of the proxy's users are operators: they see and do everything."""
    viewers: Members = Members()
    """Whom of them see everything."""
    everyone: Literal["none", "own", "viewer"] = "own"
    """What all others of the proxy's users may: nothing, their own jobs, or see everything."""
    anonymous: Literal["none", "viewer", "operator"] = "none"
    """The role of people who are not logged in."""
    session: RealDuration = 12 * 3600
    """How long a log-in at /login lasts."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [token.name for token in self.tokens]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise ValueError(f"two tokens are called {twice!r}")
        if self.anonymous == "none" and not self.tokens and self.proxy is None:
            raise ValueError("nobody could log in: give tokens or proxy, or say what anonymous may")
        named = (*self.operators.users, *self.operators.groups, *self.viewers.users, *self.viewers.groups)
        if named and self.proxy is None:
            raise ValueError("operators and viewers are the proxy's users: give proxy, or each token a role")
        groups = self.operators.groups or self.viewers.groups
        if groups and self.proxy is not None and self.proxy.groups_header is None:
            raise ValueError("groups are asked for and no header has them: give proxy.groups_header")
        return self


class Web(Section):
    """The page and its API."""

    listen_address: str = "127.0.0.1:9837"
    """[HOST]:PORT of the page and its API."""
    health_listen_address: str = ""
    """[HOST]:PORT of `/-/healthy`, `/-/ready` and `/metrics`. Clients of the page cannot block this listener. Empty:
    port 9838 on the host of `listen_address`.
    """
    allowed_hosts: tuple[_Host, ...] = ()
    """Host names under which a proxy serves the page, beside localhost and the listen address. Names that are not ASCII
    are compared as browsers send them (`xn--...`).
    """
    public_url: Annotated[str, AfterValidator(_public)] = ""
    """Where people reach the page; messages link to it. Its host is allowed. It may have a path, which a proxy may
    strip or leave. Empty: messages have no links.
    """
    trusted_proxies: tuple[_Network, ...] = Field(default=(), max_length=50)
    """Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, beside those of
    `auth.proxy`. A proxy on this machine is `127.0.0.1` and `::1`. X-Forwarded-For is used to count failed log-ins,
    X-Forwarded-Proto for cookies that need TLS. These proxies do not log anybody in.
    """
    auth: Auth | None = None

    @property
    def reached_by(self) -> tuple[str, ...]:
        """The hosts under which the configuration says that people reach the page, without ports."""
        written = (*self.allowed_hosts, *filter(None, [urlsplit(self.public_url).netloc]))
        return tuple(_authority(text).name.lower() for text in written)
