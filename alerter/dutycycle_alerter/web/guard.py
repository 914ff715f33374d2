"""What every request must satisfy before a route sees it, and the headers that every answer carries."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 64 * 1024
"""Bytes of a request's body; the forms need far less."""

_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[^\[\]:/@\s]+))(?::[0-9]{1,5})?")

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with that a browser sends "Origin: null" with the page's own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware: known hosts only (DNS rebinding), bounded bodies, security headers on every answer."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(host_name(host) for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        app = self._refusal(Headers(scope=scope)) or self._app
        await app(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> PlainTextResponse | None:
        host = host_name(headers.get("host", ""))
        if not self._known(host):
            text = (
                f"This server does not answer to the name {host!a}.\n"
                "If the name is right, add it to web.allowed_hosts in the configuration.\n"
            )
            return PlainTextResponse(text, 421)
        if "transfer-encoding" in headers:
            return PlainTextResponse("A body needs a Content-Length.\n", 411)
        if int(headers.get("content-length", "0")) > MAX_BODY:
            return PlainTextResponse(f"A body has at most {MAX_BODY} bytes.\n", 413)
        return None

    def _known(self, host: str) -> bool:
        return host in self._hosts or host == "localhost" or _is_address(host)


def host_name(host: str) -> str:
    """The name in a Host header or an origin's authority, without port and brackets, in lower case; empty where it is
    neither.
    """
    match = _HOST.fullmatch(host.strip().lower())
    return "" if match is None else match["v6"] or match["name"] or ""


def _is_address(host: str) -> bool:
    """Whether the name is an IP address: nobody can make one of those resolve to another."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
