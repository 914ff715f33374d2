"""From a request to its visitor: by bearer token, session or proxy, in this order, else anonymous."""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from starlette.requests import HTTPConnection

from dutycycle_alerter.settings.web import Auth, Members, Token
from dutycycle_alerter.web.access.attempts import Attempts
from dutycycle_alerter.web.access.proxies import Peers, Person, person
from dutycycle_alerter.web.access.sessions import COOKIE, Sessions
from dutycycle_alerter.web.access.tokens import Tokens
from dutycycle_alerter.web.access.visitor import (
    ForbiddenError,
    Means,
    NotLoggedInError,
    Role,
    TooManyAttemptsError,
    Visitor,
)
from dutycycle_alerter.web.seldom import Seldom

log = logging.getLogger(__name__)
# Anybody can make many lines.
log.addFilter(Seldom())


class Gate:
    """Who is let in as what. `clock` gives wall time, `monotonic` that by which guesses are counted; `key` signs the
    sessions; `proxies` are networks of those that say from where a request comes, beside those that log people in.
    """

    def __init__(
        self,
        auth: Auth,
        key: bytes,
        clock: Callable[[], float],
        proxies: Iterable[str] = (),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._auth = auth
        self._clock = clock
        self._monotonic = monotonic
        self._tokens = Tokens(auth.tokens)
        self._attempts = Attempts()
        self.sessions = Sessions(self._tokens, key, auth.session)
        self.peers = Peers(auth.proxy.trusted if auth.proxy is not None else (), proxies)

    @property
    def logs_in(self) -> bool:
        """Whether the page has a log-in of its own."""
        return bool(self._tokens)

    @property
    def knows_people(self) -> bool:
        """Whether anybody can say who they are."""
        return self.logs_in or self._auth.proxy is not None

    @property
    def open(self) -> bool:
        """Whether who is not logged in may see something."""
        return self._auth.anonymous != "none"

    def check(self) -> None:
        """Say in the log which tokens cannot be used."""
        self._tokens.check()

    def visitor(self, request: HTTPConnection) -> Visitor:
        """Who asks. Raises NotLoggedInError where that has to be said first, ForbiddenError for who has no role."""
        found = self.known(request) or Visitor(Role(self._auth.anonymous))
        if found.role is not Role.NONE:
            return found
        if not found.name:
            raise NotLoggedInError("log in first")
        raise ForbiddenError(f"{found.name} is known, but may see nothing here: ask the operators for a role")

    def role(self, request: HTTPConnection) -> Role:
        """What who asks may see of what is open to everybody. Raises NotLoggedInError for what is said and not true."""
        found = self.known(request)
        return Role(self._auth.anonymous) if found is None else found.role

    def known(self, request: HTTPConnection) -> Visitor | None:
        """Who asks, where they say so. Raises NotLoggedInError for what is said and not true."""
        by_token = self.known_by_token(request)
        proxy = self._auth.proxy
        if by_token is not None or proxy is None or not self.peers.trusts(request.scope):
            return by_token
        named = person(request.headers, proxy)
        return None if named is None else Visitor(self._role(named), named.user, Means.PROXY)

    def known_by_token(self, request: HTTPConnection) -> Visitor | None:
        """Who asks, where they show it themselves: also where a proxy lets through what clients say. Raises
        NotLoggedInError, TooManyAttemptsError.
        """
        bearer = self._bearer(request)
        if bearer is not None:
            return bearer
        cookie = request.cookies.get(COOKIE, "")
        token = self.sessions.read(cookie, now=self._clock()) if cookie and self.logs_in else None
        return None if token is None else Visitor(Role(token.role), token.name, Means.SESSION)

    def log_in(self, request: HTTPConnection, presented: str) -> str:
        """The session's cookie for a token. Raises TooManyAttemptsError, NotLoggedInError."""
        token = self._presented(request, presented, "log-in")
        log.info("log-in of %s from %s", token.name, self.peers.client(request.scope))
        return self.sessions.begun(token, presented, now=self._clock())

    def _presented(self, request: HTTPConnection, presented: str, what: str) -> Token:
        """Return the token's entry. A valid token is never refused, whatever others at the same address presented.

        Wrong tokens are counted by address, those of log-ins and those of programs apart.
        """
        token = self._tokens.presented(presented)
        if token is not None:
            return token
        client, now = self.peers.client(request.scope), self._monotonic()
        counted = f"{what} {client}"
        wait = self._attempts.wait(counted, now=now)
        if wait:
            raise TooManyAttemptsError(wait)
        self._attempts.failed(counted, now=now)
        log.warning("%s from %s refused: nobody's token", what, client)
        raise NotLoggedInError("this is nobody's token")

    def _bearer(self, request: HTTPConnection) -> Visitor | None:
        # A proxy may pass on a token of its own; where there are none of ours, it is not for us.
        given = request.headers.getlist("authorization") if self.logs_in else []
        if not given:
            return None
        scheme, _, presented = given[0].partition(" ")
        if len(given) == 1 and scheme.lower() != "bearer":
            return None
        if len(given) > 1:
            raise NotLoggedInError("this is nobody's token")
        token = self._presented(request, presented.strip(), "request")
        return Visitor(Role(token.role), token.name, Means.BEARER)

    def _role(self, named: Person) -> Role:
        if _among(named, self._auth.operators):
            return Role.OPERATOR
        if _among(named, self._auth.viewers):
            return Role.VIEWER
        return Role(self._auth.everyone)


def default_auth(host: str, names: Iterable[str] = ()) -> Auth:
    """Where nothing is configured: on this machine everybody may act, elsewhere nobody. `host` is listened on, `names`
    are those under which the page is reached: one of another machine tells of a proxy.
    """
    return Auth(anonymous="operator" if all(map(_is_loopback, (host, *names))) else "viewer")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _among(named: Person, members: Members) -> bool:
    def like(names: Iterable[str], patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)

    return like((named.user,), members.users) or like(named.groups, members.groups)
