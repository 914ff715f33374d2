"""Asks a PromQL engine over its HTTP API: POST only, bounded in time and size, failures told in one line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from dutycycle_alerter.bounded_http import Answer, Connections
from dutycycle_alerter.credentials import hidden
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.promql.access import headers, tls_context, tls_files
from dutycycle_alerter.promql.answers import Matrix, Vector
from dutycycle_alerter.promql.decode import KnownSeries, about_query, decode_failure, decode_matrix, decode_vector
from dutycycle_alerter.settings.prometheus import Prometheus

_AT_ONCE = 8
_WHOLE_TRUTH = {"partial_response": "false", "deny_partial_response": "1", "nocache": "1"}
"""Thanos and VictoriaMetrics answer with what they have where a part of them is down, and VictoriaMetrics hides the
newest half minute, unless told otherwise. An engine that does not know a parameter ignores it.
"""
_EARLIER = 0.9
"""The engine gives up first, so that its explanation arrives."""

_Columns = TypeVar("_Columns", Vector, Matrix)


class Client:
    """Connections to one engine. Safe to use from several threads.

    `queries`, `seconds` (waited for the engine, the transfer included) and `bytes` (of answers, unpacked) add up over
    the client's life, failures too.
    """

    def __init__(self, settings: Prometheus) -> None:
        self._settings = settings
        self._url = f"{settings.url}/api/v1/query"
        self._known = KnownSeries()
        self._lock = threading.Lock()
        self._connections: Connections | None = None
        self._tls_files: tuple[object, ...] = ()
        self.queries = 0
        self.seconds = 0.0
        self.bytes = 0

    def instant(self, query: str, *, at: float, labels: tuple[str, ...], within: float = inf) -> Vector:
        """Every series' value at Unix time `at`, told apart by these labels. Raises SourceError, at the latest after
        the configured time-out or `within` seconds, whichever is shorter.
        """
        return self._ask(query, at, within, lambda body: decode_vector(body, labels, self._known))

    def raw(self, query: str, *, at: float, labels: tuple[str, ...], within: float = inf) -> Matrix:
        """The samples that a range selector (`name{...}[5m]`) covers before Unix time `at`. Raises SourceError, as
        `instant` does.
        """
        return self._ask(query, at, within, lambda body: decode_matrix(body, labels, self._known))

    def turn(self) -> None:
        """All has been asked that is asked again and again: series that did not come are let go."""
        self._known.turn()

    def close(self) -> None:
        """Close every connection. The client may be used again."""
        with self._lock:
            if self._connections is not None:
                self._connections.close()
            self._connections = None

    def _ask(self, query: str, at: float, within: float, decode: Callable[[bytes], _Columns]) -> _Columns:
        timeout = min(self._settings.timeout, within)
        sent, secrets = headers(self._settings)
        sent |= {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        giving_up = max(1, round(timeout * 1000 * _EARLIER))
        form = {"query": query, "time": f"{at:.3f}", "timeout": f"{giving_up}ms"}
        body = urlencode(_WHOLE_TRUTH | self._settings.params | form).encode()
        began, size = time.monotonic(), 0
        try:
            answer = self._connected().request(
                "POST", self._url, headers=sent, body=body, max_bytes=self._settings.max_bytes, timeout=timeout
            )
            size = len(answer.body)
        except SourceError as error:
            raise SourceError(hidden(str(error), secrets)) from None  # a chain would show what is hidden here
        finally:
            with self._lock:
                self.queries += 1
                self.seconds += time.monotonic() - began
                self.bytes += size
        try:
            _refuse(answer)
            columns = decode(answer.body)
            self._refuse_partial(columns.warnings)
        except SourceError as error:
            raise SourceError(hidden(f"{self._url}: {error}", secrets)) from None
        return columns

    def _refuse_partial(self, warnings: tuple[str, ...]) -> None:
        """A Prometheus whose remote storage fails answers with the rest, and a warning."""
        told = next((warning for warning in warnings if not about_query(warning)), None)
        if told is not None and self._settings.params.get("partial_response") != "true":
            raise SourceError(f"the answer may not be the whole one: {told}")

    def _connected(self) -> Connections:
        """Anew where a TLS file has changed: certificates are replaced while we run."""
        with self._lock:
            files = tls_files(self._settings)
            if self._connections is None or files != self._tls_files:
                context = tls_context(self._settings)
                if self._connections is not None:
                    self._connections.close()
                self._connections = Connections(
                    self._settings.timeout,
                    per_host=_AT_ONCE,
                    tls=context,
                    server_name=self._settings.server_name or None,
                )
                self._tls_files = files
            return self._connections


def _refuse(answer: Answer) -> None:
    """Raises SourceError for an answer that holds no result, with what the engine says and what helps."""
    kind = printable(answer.headers.get("content-type", "").partition(";")[0].strip().lower(), 60)
    if answer.status == 200:
        if not _is_json(kind):
            raise SourceError(f"answered {kind or 'no content type'}, not JSON: is this a PromQL engine's url?")
        return
    if 300 <= answer.status < 400:
        raise SourceError(f"answered {answer.status}, elsewhere{_destination(answer)}: redirects are not followed")
    failure = decode_failure(answer.body) if _is_json(kind) else None
    said = f" {failure.errorType}: {failure.error}" if failure is not None and failure.error else ""
    remedy = _remedy(answer.status, failure.errorType if failure else "", failure.error if failure else "")
    raise SourceError(f"answered {answer.status}{said}{f' ({remedy})' if remedy else ''}")


def _is_json(kind: str) -> bool:
    # VictoriaMetrics says application/stream+json of raw samples.
    return kind.endswith(("/json", "+json"))


def _destination(answer: Answer) -> str:
    """Where a redirect points, without what may be secret in it."""
    try:
        parts = urlsplit(answer.headers.get("location", ""))
        host = parts.hostname or ""
    except ValueError:
        return ""
    return f" ({printable(f'{parts.scheme}://{host}{parts.path}', 200)})" if host else ""


def _remedy(status: int, kind: str, said: str) -> str:
    if status in {401, 403}:
        return "check the credentials; Mimir wants its tenant in headers.X-Scope-OrgID"
    if status in {404, 405}:
        return "does the url miss a path, such as /prometheus for Mimir or /select/0/prometheus for VictoriaMetrics?"
    if status == 413 or (status in {422, 429} and any(word in said for word in ("too many", "limit", "exceed", "max"))):
        return "too much for one query: configure shards"
    if status in {503, 504} or kind == "timeout":
        return "the engine is overloaded or too slow: use the recording rules, configure shards or a longer timeout"
    return ""
