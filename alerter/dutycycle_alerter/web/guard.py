"""What every request must satisfy before a route sees it, and the headers that every answer carries."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dutycycle_alerter.authorities import authority, spellings
from dutycycle_alerter.web.access.proxies import Peers

MAX_BODY = 64 * 1024
"""Bytes of a request's body; the forms need far less."""

API = "/api/"
"""What begins with it is for programs: they are answered in JSON."""

OWN_PATHS = frozenset({"/expectations", "/gpus", "/login", "/logout", "/users"})
"""Whole paths of pages, which a site's public path may be as well."""

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
    """ASGI middleware: known hosts only (DNS rebinding), bounded bodies, security headers on every answer.

    `base` is the path of the site's public address: a proxy may leave it or strip it. `peers` are asked whether the
    browser used TLS; under the name `encrypted` (of an https public address) it did.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str], base: str = "", encrypted: str = "", peers: Peers | None = None
    ) -> None:
        self._app = app
        # What is no name is known to nobody: a Host header that is none would be, else.
        self._hosts = frozenset(filter(None, map(host_name, hosts)))
        self._base = base
        self._encrypted = encrypted
        self._peers = peers or Peers()

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

        headers = Headers(scope=scope)
        publicly = self._encrypted in spellings(headers.get("host", ""), "https")
        scheme = "https" if publicly else self._peers.scheme(scope)
        inner = {**scope, "scheme": scheme, "path": self._stripped(scope["path"])}
        app = self._refusal(headers, inner["path"]) or self._app
        await app(inner, receive, send_with_headers)

    def _stripped(self, path: str) -> str:
        """The path as the routes know it. A whole path that is one of theirs (`/gpus`) stays: it was stripped."""
        if self._base and path.startswith(f"{self._base}/"):
            return path.removeprefix(self._base)
        return "/" if self._base and path == self._base and path not in OWN_PATHS else path

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        host = host_name(headers.get("host", ""))
        if not self._known(host):
            text = (
                f"This server does not answer to the name {host!a}.\n"
                "If the name is right, add it to web.allowed_hosts in the configuration.\n"
            )
            return _answer(path, 421, "Misdirected Request", text)
        if "transfer-encoding" in headers:
            return _answer(path, 411, "Length Required", "A body needs a Content-Length.\n")
        if int(headers.get("content-length", "0")) > MAX_BODY:
            return _answer(path, 413, "Content Too Large", f"A body has at most {MAX_BODY} bytes.\n")
        return None

    def _known(self, host: str) -> bool:
        return host in self._hosts or host == "localhost" or _is_address(host)


def _answer(path: str, code: int, title: str, text: str) -> Response:
    if path.startswith(API):
        return JSONResponse({"error": {"code": code, "title": title, "message": text.strip()}}, code)
    return PlainTextResponse(text, code)


def host_name(host: str) -> str:
    """The name in a Host header or an origin's authority, without port and brackets, in lower case; empty where it is
    neither.
    """
    found = authority(host.strip().lower())
    return "" if found is None else found.name


def _is_address(host: str) -> bool:
    """Whether the name is an IP address: nobody can make one of those resolve to another."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
