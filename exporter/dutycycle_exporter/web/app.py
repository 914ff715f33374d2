"""What is answered: `/metrics`, `/-/healthy`, `/-/ready` and a page that names them, as a WSGI application."""

from __future__ import annotations

import io
import logging
import math
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dutycycle_exporter.errors import BusyError
from dutycycle_exporter.web.access import Access, Policy

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
_COMPRESSED = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
_MOST_WAITING = 8
"""Scrapes that are answered or wait for it; each has a thread until its turn has come."""

_LANDING = b"""<!doctype html><html lang="en"><title>Dutycycle exporter</title><h1>Dutycycle exporter</h1>
<ul><li><a href="/metrics">Metrics</a><li><a href="/-/healthy">Healthy</a><li><a href="/-/ready">Ready</a></ul></html>
"""
_TEXT = "text/plain; charset=utf-8"


class _Answer(NamedTuple):
    status: str
    kind: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Verdicts(Protocol):
    """Tells how the exporter is."""

    def unready(self) -> str:
        """Why there is nothing to scrape yet; empty when there is."""
        ...

    def unhealthy(self) -> str:
        """Why only a restart can help; empty while that is not so."""
        ...


class Scrapes:
    """Has pages made, one at a time however many ask, and few of them. Thread-safe.

    `make_page` gives a page piece by piece. `refused` counts those that would have waited for longer than their scraper
    does, or behind too many others.
    """

    def __init__(self, make_page: Callable[[], Iterable[str]]) -> None:
        self._make_page = make_page
        self._turn = threading.Lock()
        self._places = threading.BoundedSemaphore(_MOST_WAITING)
        self._counting = threading.Lock()
        self.refused = 0

    def page(self, patience: float | None, *, compressed: bool) -> bytes:
        """The page, as gzip where it shall be `compressed`. Raises BusyError where it cannot be begun within `patience`
        seconds (None: as long as it takes).
        """
        if not self._places.acquire(blocking=False):
            raise self._refusal("too many scrapes wait for another collection")
        try:
            if not self._turn.acquire(timeout=-1 if patience is None else patience):
                raise self._refusal("another collection took the whole scrape timeout")
            try:
                # Piece by piece: of a large page there is never a text beside its lines, or bytes beside its text.
                pieces = (piece.encode() for piece in self._make_page())
                return _joined(_packed(pieces) if compressed else pieces)
            finally:
                self._turn.release()
        finally:
            self._places.release()

    def _refusal(self, why: str) -> BusyError:
        with self._counting:
            self.refused += 1
        return BusyError(why)


def make_app(scrapes: Scrapes, verdicts: Verdicts, access: Access | None = None) -> WSGIApplication:
    """The WSGI application. Everything in it is for those whom `access` admits."""
    access = access or Access()
    answers: dict[str, Callable[[WSGIEnvironment], _Answer]] = {
        "/metrics": lambda environ: _metrics(scrapes, environ),
        "/-/healthy": lambda _: _verdict(verdicts.unhealthy()),
        "/-/ready": lambda _: _verdict(verdicts.unready()),
        "/": lambda _: _Answer("200 OK", "text/html; charset=utf-8", _LANDING),
    }

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        policy = access.policy()
        try:
            answer = _refused(policy, environ) or _answer(answers.get(environ.get("PATH_INFO", "")), environ)
        except BusyError as error:
            answer = _text("503 Service Unavailable", str(error))
        headers = [("Content-Type", answer.kind), ("Content-Length", str(len(answer.body)))]
        start_response(answer.status, [*headers, *policy.config.headers, *answer.headers])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [answer.body]

    return app


def _refused(policy: Policy, environ: WSGIEnvironment) -> _Answer | None:
    """What a request is turned away with; None for one that is to be answered. Raises BusyError."""
    if policy.limiter is not None and not policy.limiter.allows():
        return _text("429 Too Many Requests", "over the rate_limit of --web.config.file")
    if not policy.admits(environ.get("HTTP_AUTHORIZATION", "")):
        return _text("401 Unauthorized", "a user and a password are needed", ("WWW-Authenticate", "Basic"))
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return _text("405 Method Not Allowed", "only GET and HEAD", ("Allow", "GET, HEAD"))
    return None


def _answer(make: Callable[[WSGIEnvironment], _Answer] | None, environ: WSGIEnvironment) -> _Answer:
    if make is None:
        return _text("404 Not Found", "there are /metrics, /-/healthy and /-/ready")
    try:
        return make(environ)
    except BusyError:
        raise
    except Exception:
        # Here, where the log makes one line of it; what calls us would write the trace to stderr as it is.
        log.exception("a request could not be answered")
        return _text("500 Internal Server Error", "a defect of the exporter; its log says where")


def _metrics(scrapes: Scrapes, environ: WSGIEnvironment) -> _Answer:
    """Raises BusyError."""
    compressed = _takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", ""))
    patience = _patience(environ.get("HTTP_X_PROMETHEUS_SCRAPE_TIMEOUT_SECONDS", ""))
    page = scrapes.page(patience, compressed=compressed)
    return _Answer("200 OK", CONTENT_TYPE, page, _COMPRESSED if compressed else ())


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


def _packed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _joined(pieces: Iterable[bytes]) -> bytes:
    body = io.BytesIO()
    for piece in pieces:
        body.write(piece)
    return body.getvalue()


def _verdict(problem: str) -> _Answer:
    return _text("503 Service Unavailable" if problem else "200 OK", problem or "ok")


def _text(status: str, text: str, *headers: tuple[str, str]) -> _Answer:
    return _Answer(status, _TEXT, f"{text}\n".encode(errors="replace"), headers)
