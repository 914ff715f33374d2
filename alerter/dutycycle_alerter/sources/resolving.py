"""Finds the addresses of a target that is given by name (`dns+http://NAME:PORT/PATH`), and keeps nobody waiting."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

PREFIX = "dns+"
MOST_ADDRESSES = 5000
"""Addresses of one name that are read: the most nodes that Kubernetes supports, and more than a DNS answer (64 KiB)
has room for.
"""
KEPT = 3600.0
"""Seconds for which the addresses of a name that no longer resolves are still read: exporters answer in an outage of
DNS too, and after an hour an address may have become somebody else's.
"""

Resolve = Callable[[str, int | None], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the resolver said of a name. `error` is why `addresses` is empty."""

    name: Name
    addresses: tuple[str, ...]
    error: str = ""


def addresses_of(host: str, port: int | None) -> Iterable[str]:
    """Its IPv4 and IPv6 addresses, as the system resolves it. May take minutes, or for ever. Raises OSError."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Name:
    """One such target: what its name resolved to last. `timeout` in seconds is when the status says that it does not.

    Belongs to one thread; only `resolve` is called from another. `monotonic` tells for how long addresses are kept.
    """

    def __init__(
        self,
        target: str,
        timeout: float,
        resolve: Resolve = addresses_of,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.target = target
        self.addresses: tuple[str, ...] = ()
        self._parts = urlsplit(target.removeprefix(PREFIX))
        self._timeout = timeout
        self._resolve = resolve
        self._monotonic = monotonic
        self._asked_at: float | None = None
        self._known_at = monotonic()
        self._error = ""
        self._unread = 0

    @property
    def host(self) -> str:
        """The name, without the dot at the end that makes it absolute: certificates have none."""
        return (self._parts.hostname or "").removesuffix(".")

    @property
    def host_header(self) -> str:
        """What an exporter is asked for: the name, with its port where the target has one."""
        return self.host if self._parts.port is None else f"{self.host}:{self._parts.port}"

    def url(self, address: str) -> str:
        """Of one of its addresses."""
        host = f"[{address.replace('%', '%25')}]" if ":" in address else address
        port = "" if self._parts.port is None else f":{self._parts.port}"
        return urlunsplit(self._parts._replace(netloc=host + port))

    @property
    def asked(self) -> bool:
        """Whether the resolver owes an answer."""
        return self._asked_at is not None

    def ask(self, answer: Callable[[Resolved], None]) -> None:
        """Have it resolved; `answer` is called from another thread, maybe never. Does nothing while one is owed."""
        if self.asked:
            return
        self._asked_at = self._monotonic()
        # Not of a pool: the interpreter waits for the threads of a pool at its end, and nothing ends a resolution.
        threading.Thread(target=self._answer, args=(answer,), name="resolve", daemon=True).start()

    def _answer(self, answer: Callable[[Resolved], None]) -> None:
        try:
            found = sorted(set(self._resolve(self._parts.hostname or "", self._parts.port)))
        except (OSError, ValueError) as error:  # a name that cannot be written in DNS is a ValueError
            answer(Resolved(self, (), _reason(error)))
            return
        answer(Resolved(self, tuple(found), "" if found else "it has no address"))

    def take(self, resolved: Resolved) -> None:
        """What the resolver said. Addresses that are no longer among the name's are let go; where it said none, all
        are kept for a while.
        """
        self._asked_at = None
        self._error = resolved.error
        if resolved.addresses:
            self._known_at = self._monotonic()
            self.addresses = resolved.addresses[:MOST_ADDRESSES]
            self._unread = len(resolved.addresses) - len(self.addresses)

    def expire(self) -> None:
        """Let addresses go that are kept for too long. To be called once a round, also while the resolver is silent."""
        if self._monotonic() - self._known_at > KEPT:
            self.addresses = ()

    @property
    def error(self) -> str:
        """Why the addresses may be others by now, or are not all read; empty while they are the name's."""
        error = self._error
        if self._asked_at is not None and self._monotonic() - self._asked_at > self._timeout:
            error = f"the resolver is silent for {self._monotonic() - self._asked_at:.0f} s"
        if not error:
            return f"{self._unread} of its addresses are not read, {MOST_ADDRESSES} are" if self._unread else ""
        if not self.addresses:
            return error
        left = max(0.0, KEPT - (self._monotonic() - self._known_at)) / 60
        return f"{error}; what is known is read for {left:.0f} min more: {len(self.addresses)} addresses"


def _reason(error: OSError | ValueError) -> str:
    said = error.strerror if isinstance(error, socket.gaierror) else error
    return f"does not resolve: {said}"
