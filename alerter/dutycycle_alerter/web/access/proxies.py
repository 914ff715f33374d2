"""What proxies say of a request: only those that are trusted are believed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Scope

from dutycycle_alerter.settings.web import Proxy
from dutycycle_alerter.web.access.visitor import NotLoggedInError

_LONGEST_NAME = 255
_MOST_GROUPS = 1000

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Peers:
    """The configured proxies, as networks. The headers of `trusted` name the user. The headers of both name the
    client's address and the browser's scheme.
    """

    def __init__(self, trusted: Iterable[str] = (), forwarding: Iterable[str] = ()) -> None:
        self._trusted = tuple(ipaddress.ip_network(network) for network in trusted)
        self._forwarding = (*self._trusted, *(ipaddress.ip_network(network) for network in forwarding))

    def trusts(self, scope: Scope) -> bool:
        """Whether the connection is one of a trusted proxy's."""
        return _within(peer(scope), self._trusted)

    def forwards(self, scope: Scope) -> bool:
        """Whether the connection is that of a proxy which is believed from where a request comes."""
        return _within(peer(scope), self._forwarding)

    def scheme(self, scope: Scope) -> str:
        """`https` where the connection is encrypted, or its proxy says that the browser's is."""
        if Headers(scope=scope).getlist("x-forwarded-proto") == ["https"] and self.forwards(scope):
            return "https"
        return str(scope["scheme"])

    def client(self, scope: Scope) -> str:
        """Who asks, for counting: the peer, or whom its proxy names; of IPv6 the network of a site."""
        address = peer(scope)
        if self.forwards(scope):
            # The last one is the proxy's own word; those before are the client's.
            named = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).rpartition(",")[2].strip()
            address = _address(named) or address
        if isinstance(address, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((address, 64), strict=False))
        return str(address)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody as a proxy calls them."""

    user: str
    groups: frozenset[str]


def person(headers: Headers, proxy: Proxy) -> Person | None:
    """Whom a trusted proxy names; None where it names nobody. Raises NotLoggedInError for what is ambiguous."""
    user = _single(headers, proxy.user_header)
    if not user:
        return None
    if proxy.domain:
        user = user.removesuffix(f"@{proxy.domain}")
    # A comma: two headers that something on the way made one of.
    if not user or len(user) > _LONGEST_NAME or not user.isprintable() or "," in user:
        raise NotLoggedInError(f"the proxy's header {proxy.user_header} holds no user's name")
    groups = "" if proxy.groups_header is None else _single(headers, proxy.groups_header)
    names = frozenset(filter(None, (name.strip() for name in groups.split(",", _MOST_GROUPS)[:_MOST_GROUPS])))
    return Person(user, names)


def peer(scope: Scope) -> Address | None:
    """The address at the other end of the connection; None where there is none."""
    client = scope.get("client")
    return None if client is None else _address(client[0])


def _within(address: Address | None, networks: Iterable[Network]) -> bool:
    return address is not None and any(address.version == one.version and address in one for one in networks)


def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    # A dual-stack socket shows IPv4 peers so.
    return getattr(address, "ipv4_mapped", None) or address


def _single(headers: Headers, name: str) -> str:
    """The header's value, empty where it is missing. Twice, one of them may be the client's."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise NotLoggedInError(f"the header {name} was sent more than once: the proxy has to replace what clients send")
    try:
        return values[0].encode("latin-1").decode("utf-8").strip() if values else ""
    except UnicodeError:
        raise NotLoggedInError(f"the header {name} is not UTF-8") from None
