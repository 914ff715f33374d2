"""One list and watch that never ends: lists in pages, watches from there, recovers from whatever the server does.

On losing touch nothing is taken from the table: its last word stays, and is not fresh.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Mapping
from threading import Event, Lock, Thread
from typing import NoReturn

from dutycycle_alerter.elapsed import elapsed
from dutycycle_alerter.kubernetes import objects
from dutycycle_alerter.kubernetes.client import Client, Stream, refused
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.kubernetes.fetching import PROOF
from dutycycle_alerter.kubernetes.objects import MalformedError
from dutycycle_alerter.kubernetes.pace import Pace
from dutycycle_alerter.kubernetes.tables import Table

_log = logging.getLogger(__name__)

_PAGES = 10_000
_LARGEST_PAGE = 8_000
_PATIENCE = 3
"""Failures in a row, of those that may be the place's, after which all is listed anew: the server cannot bear it."""
_LONG = 300.0
"""Seconds for which a server may fail to begin a watch before that may be the place's: a list is what it can bear least
while it starts or has too much to do.
"""
_SHORT = 1.0
"""Seconds that a watch lasts at least that is what it should be."""
_AT_ONCE = 1.0
"""Seconds within which a list is read that is as good as new."""
_GRACE = 5.0
"""Seconds within which one watch follows the other without a doubt about what is in between."""


class Reflector:
    """Keeps a table up to date with the objects at `path` that `selector` (a query) selects, in a thread of its own.
    `kind` is that of the list (`PodList`), `what` names them to people.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        selector: Mapping[str, str],
        *,
        kind: str,
        what: str,
        table: Table,
        pace: Pace,
        denied_pause: float | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._selector = selector
        self._kind = kind
        self._what = what
        self._table = table
        self._pace = pace
        self._denied_pause = denied_pause
        self._stop = Event()
        self._thread = Thread(target=self._run, name=f"kubernetes-{what}", daemon=True)
        self._lock = Lock()
        self._stream: Stream | None = None
        self._version = ""
        self._page = pace.page
        self._in_a_row = 0
        self._watches_failed = 0
        self._failing_since: float | None = None
        self._forbidden_since: float | None = None
        self._open = self._missed = False
        self._error = f"{client.shown}: {what}: not listed yet"
        self._failure: Failure | None = None
        self._heard = self._closed = self._settled = 0.0
        self._heard_at: float | None = None
        self.failures: Counter[str] = Counter()
        """By reason."""
        self.events = 0
        self.lists = 0
        """Complete ones; the first is no relist."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, timeout: float) -> None:
        """End it, also where it waits for the server; `timeout` is in seconds."""
        self._stop.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.cut()
        if self._thread.is_alive():
            self._thread.join(timeout)

    @property
    def denied(self) -> bool:
        """Whether the server forbids it, and has done so for long enough to be believed."""
        since = self._forbidden_since
        return since is not None and elapsed() - since >= PROOF

    @property
    def heard_at(self) -> float | None:
        """When the server was last heard (Unix seconds, our clock)."""
        return self._heard_at

    def silent_for(self) -> float | None:
        """Seconds since the server was last heard; None where it never was."""
        return None if self._heard_at is None else elapsed() - self._heard

    def problem(self) -> str:
        """Why the table may not be what is there now; empty where it is."""
        if self._error:
            return self._error
        if self._stop.is_set():
            return f"{self._client.shown}: {self._what}: no longer watched"
        now = elapsed()
        silent = now - self._heard
        if silent > min(self._pace.silence, self._pace.apart):
            then = "it is asked again" if silent > self._pace.silence else "what it said may not be read yet"
            return f"{self._client.shown}: {self._what}: silent for {silent:.0f} s; {then}"
        if not self._open and now - self._closed > _GRACE:
            return f"{self._client.shown}: {self._what}: the watch ended, and the next has not begun yet"
        if now < self._settled:
            return f"{self._client.shown}: {self._what}: connected again, what was missed is still coming"
        return ""

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except ApiError as error:
                if self._stop.is_set():
                    return
                pause = self._failed(error)
            except Exception:  # noqa: BLE001
                # A thread that dies would leave a table that grows old in silence.
                _log.exception("watching %s of %s", self._what, self._client.shown)
                message = f"{self._client.shown}: {self._what}: an error of the alerter's own, see its log"
                pause = self._failed(ApiError(message, Failure.INTERNAL))
                self._version = ""
            else:
                continue
            self._stop.wait(pause)

    def _failed(self, error: ApiError) -> float:
        """Takes note of a failure. How long to wait before going on, in seconds."""
        if not self._in_a_row or error.failure is not self._failure:
            _log.info("%s", error)
        self._error, self._failure = str(error), error.failure
        self.failures[error.failure.value] += 1
        self._in_a_row += 1
        self._missed = True
        if error.failure in (Failure.EXPIRED, Failure.SILENT):
            # A server that begins watches and then says nothing would look well again with each that it begins.
            self._version = ""
        if error.failure in (Failure.UNAUTHORIZED, Failure.TLS, Failure.CREDENTIALS):
            try:
                self._client.renew()
            except ApiError as other:
                self._error = str(other)
        if error.failure is not Failure.FORBIDDEN:
            self._forbidden_since = None
        elif self._forbidden_since is None:
            self._forbidden_since = elapsed()
        if self.denied and self._denied_pause is not None:
            return self._denied_pause
        return self._pace.pause(self._in_a_row, error.retry_after)

    def _list(self) -> None:
        """All pages, as one. Raises ApiError."""
        self._table.begin()
        query = {**self._selector, "limit": str(self._page)}
        first, begun = "", elapsed()
        for _ in range(_PAGES):
            try:
                page = objects.decode_page(self._client.get(self._path, query), self._kind)
            except MalformedError as error:
                self._garbage(str(error))
            except ApiError as error:
                if error.failure is Failure.EXPIRED:
                    # The rest could be had, but not what happened to the first pages since: all from the beginning, and
                    # in fewer steps.
                    self._page = min(self._page * 4, _LARGEST_PAGE)
                raise
            if self._stop.is_set():
                return
            first = first or page.metadata.resourceVersion
            self._table.page(page.items or ())
            if not page.metadata.more:
                break
            if page.metadata.more == query.get("continue"):
                self._garbage("the list does not continue: its next page is this one")
            query["continue"] = page.metadata.more
        else:
            self._garbage(f"a list of more than {_PAGES} pages")
        self._table.commit()
        # From the first page on: what changed since is told again, whatever the server did with the pages.
        self._version, self._page = first, self._pace.page
        self.lists += 1
        self._watches_failed, self._failing_since = 0, None
        # What changed while a long list was read comes only now.
        self._missed = elapsed() - begun > _AT_ONCE
        # However long nothing was heard before, the list makes up for it.
        self._heard = begun
        self._hear()

    def _watch(self) -> None:
        """One watch, from where the last one ended. Raises ApiError where it ended otherwise than it should."""
        lasting = self._pace.watch * random.uniform(1.0, 1.5)  # noqa: S311
        query = {
            **self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, round(lasting))),
        }
        silence = self._pace.silence
        lines = 0
        try:
            stream = self._client.watch(self._path, query, silence, lasting + 2 * silence)
            begun = self._opened(stream)
            for line in stream.lines():
                if line:
                    self._take(line)
                    lines += 1
            self._ended(lines, elapsed() - begun)
        except ApiError as error:
            self._watches_failed += self._may_be_the_place(error.failure)
            if self._watches_failed >= _PATIENCE:
                self._version = ""
            raise
        finally:
            self._open, self._closed = False, elapsed()
            with self._lock:
                self._stream = None

    def _may_be_the_place(self, failure: Failure) -> bool:
        """Whether a watch that failed like this may do so because of where it was to begin."""
        if self._open:
            return True
        now = elapsed()
        if self._failing_since is None:
            self._failing_since = now
        if failure is Failure.SERVER:
            return now - self._failing_since >= _LONG
        return failure in (Failure.GARBAGE, Failure.REFUSED)

    def _opened(self, stream: Stream) -> float:
        with self._lock:
            self._stream = stream
        if self._stop.is_set():
            stream.cut()
        now = elapsed()
        if self._missed:
            self._settled = now + self._pace.settle
        self._missed = False
        self._hear()
        self._open, self._error, self._failure, self._failing_since = True, "", None, None
        return now

    def _take(self, line: bytes) -> None:
        try:
            event = objects.decode_event(line)
        except MalformedError as error:
            self._garbage(str(error))
        if event.type == "ERROR":
            status = objects.decode_status(event.object)
            raise refused(f"{self._client.shown}: {self._path}", status.code or 500, status)
        if event.type == "BOOKMARK":
            version = objects.identify(event.object).version
        elif event.type in ("ADDED", "MODIFIED", "DELETED"):
            version = self._table.change(event.type, event.object)
            self.events += 1
        else:
            self._garbage(f"an event of the kind {event.type[:40]!r}")
        self._version = version or self._version
        self._in_a_row = self._watches_failed = 0
        self._hear()

    def _ended(self, lines: int, lasted: float) -> None:
        """The server ended a watch. One that ends as soon as it has begun is not begun again without a pause."""
        if lasted < _SHORT and not lines:
            message = f"{self._client.shown}: {self._path}: the watch ends as soon as it has begun"
            raise ApiError(message, Failure.CUT)
        if lasted < _SHORT:
            self._stop.wait(self._pace.first_pause)
        self._in_a_row = self._watches_failed = 0

    def _hear(self) -> None:
        """Takes note of a word of the server's. One that comes too late was waiting until this process went on, and so
        were others behind it: until they are read, the table shows what may never have been true at one time.
        """
        now = elapsed()
        if now - self._heard > self._pace.apart:
            # Before it counts as heard, as others ask meanwhile. The server ends the watch of whoever reads nothing
            # for long: the rest comes with the next one.
            self._settled, self._missed = now + self._pace.settle, True
        self._heard, self._heard_at, self._forbidden_since = now, time.time(), None

    def _garbage(self, reason: str) -> NoReturn:
        raise ApiError(f"{self._client.shown}: {self._path}: {reason}", Failure.GARBAGE)
