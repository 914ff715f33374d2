"""What is answered: `/metrics`, `/-/healthy`, `/-/ready` and a page that names them, as a WSGI application."""

from __future__ import annotations

import logging
import math
import threading
import zlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from dutycycle_exporter.web.access import Access

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Always the text format: OpenMetrics wants whole numbers in a histogram, and ours counts seconds."""

_TIMEOUT_OFFSET = 0.5
"""Seconds of a scrape's time-out that are left for the answer's way back."""
_GZIP_LEVEL = 1
"""A page of metrics shrinks to a tenth; 9, which is usual, takes five times as long and saves a tenth of that."""
_GZIP = 16 + zlib.MAX_WBITS

_LANDING = b"""<!doctype html><html lang="en"><title>Dutycycle exporter</title><h1>Dutycycle exporter</h1>
<ul><li><a href="/metrics">Metrics</a><li><a href="/-/healthy">Healthy</a><li><a href="/-/ready">Ready</a></ul></html>
"""
_TEXT = "text/plain; charset=utf-8"

_Answer = tuple[str, str, bytes]
"""Status, content type, body."""


class Verdicts(Protocol):
    """Tells how the exporter is."""

    def unready(self) -> str:
        """Why there is nothing to scrape yet; empty when there is."""
        ...

    def unhealthy(self) -> str:
        """Why only a restart can help; empty while that is not so."""
        ...


class Scrapes:
    """Has pages made, one at a time however many ask. Thread-safe.

    `refused` counts those that would have waited for longer than their scraper does.
    """

    def __init__(self, make_page: Callable[[], str]) -> None:
        self._make_page = make_page
        self._turn = threading.Lock()
        self.refused = 0

    def page(self, patience: float | None) -> bytes | None:
        """The page, or None where it cannot be begun within `patience` seconds (None: as long as it takes)."""
        if not self._turn.acquire(timeout=-1 if patience is None else patience):
            self.refused += 1
            return None
        try:
            return self._make_page().encode()
        finally:
            self._turn.release()


def make_app(scrapes: Scrapes, verdicts: Verdicts, access: Access | None = None) -> WSGIApplication:
    """The WSGI application. Everything in it is for those whom `access` admits."""
    access = access or Access()
    answers: dict[str, Callable[[WSGIEnvironment], _Answer]] = {
        "/metrics": lambda environ: _metrics(scrapes, environ),
        "/-/healthy": lambda _: _verdict(verdicts.unhealthy()),
        "/-/ready": lambda _: _verdict(verdicts.unready()),
        "/": lambda _: ("200 OK", "text/html; charset=utf-8", _LANDING),
    }

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        policy = access.policy()
        extra = list(policy.config.headers)
        if policy.limiter is not None and not policy.limiter.allows():
            status, kind, body = _text("429 Too Many Requests", "over the rate_limit of --web.config.file")
        elif not policy.admits(environ.get("HTTP_AUTHORIZATION", "")):
            extra.append(("WWW-Authenticate", "Basic"))
            status, kind, body = _text("401 Unauthorized", "a user and a password are needed")
        elif environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            extra.append(("Allow", "GET, HEAD"))
            status, kind, body = _text("405 Method Not Allowed", "only GET and HEAD")
        else:
            status, kind, body = _answer(answers.get(environ.get("PATH_INFO", "")), environ)
            if kind == CONTENT_TYPE and _takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
                extra += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
                body = _compressed(body)
        start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body))), *extra])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return app


def _answer(make: Callable[[WSGIEnvironment], _Answer] | None, environ: WSGIEnvironment) -> _Answer:
    if make is None:
        return _text("404 Not Found", "there are /metrics, /-/healthy and /-/ready")
    try:
        return make(environ)
    except Exception:
        # Here, where the log makes one line of it; what calls us would write the trace to stderr as it is.
        log.exception("a request could not be answered")
        return _text("500 Internal Server Error", "a defect of the exporter; its log says where")


def _metrics(scrapes: Scrapes, environ: WSGIEnvironment) -> _Answer:
    page = scrapes.page(_patience(environ.get("HTTP_X_PROMETHEUS_SCRAPE_TIMEOUT_SECONDS", "")))
    if page is None:
        return _text("503 Service Unavailable", "another collection took the whole scrape timeout")
    return "200 OK", CONTENT_TYPE, page


def _patience(header: str) -> float | None:
    """How many seconds a scrape may wait, by the header in which Prometheus says its time-out."""
    try:
        timeout = float(header)
    except ValueError:
        return None
    if not math.isfinite(timeout) or not 0 < timeout < threading.TIMEOUT_MAX:
        return None
    return max(timeout - _TIMEOUT_OFFSET, timeout / 2)


def _takes_gzip(header: str) -> bool:
    """Whether an Accept-Encoding has gzip, and not with the weight 0."""
    for part in header.split(","):
        name, _, weight = part.strip().partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _compressed(body: bytes) -> bytes:
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP)
    return packer.compress(body) + packer.flush()


def _verdict(problem: str) -> _Answer:
    return _text("503 Service Unavailable" if problem else "200 OK", problem or "ok")


def _text(status: str, text: str) -> _Answer:
    return status, _TEXT, f"{text}\n".encode(errors="replace")
