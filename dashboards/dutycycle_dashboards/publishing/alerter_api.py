"""The alerter's incidents, from its JSON API: bounded in pages, bytes and time, whatever answers."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from math import ceil
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from dutycycle_dashboards.errors import AlerterError, UsageError
from dutycycle_dashboards.publishing.address import is_loopback
from dutycycle_dashboards.publishing.deadline import within
from dutycycle_dashboards.publishing.inert import inert

Model = dict[str, Any]

PAGE = 200
MOST = 20_000
"""Incidents that are read at most."""
_OVERLAP = 10
_BARREN = 10
"""Pages one after the other that may have nothing new, as when many incidents are opened meanwhile."""
_DAY = 86400.0
_LONGEST = 366
"""Days that the alerter looks back; for longer it is asked for all."""
_BYTES = 32 * 2**20
"""Of one answer: beyond it a smaller page is asked for."""
_REMEDIES = {
    401: "it wants a token: --alerter-token-file",
    403: "the token may not: give one of the role viewer",
    404: "it has no such page: look whether the address is the alerter's, with its path",
}


class _TooLargeError(Exception):
    pass


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """A redirect would carry the token to where nobody sent it."""


class Alerter:
    """The API at an address. Every method raises AlerterError."""

    def __init__(self, url: str, token: str | None, *, ca_file: Path | None = None, timeout: float = 30.0) -> None:
        self._url, self._token, self._timeout = url, token, timeout
        handlers: list[Any] = [_NoRedirects()]
        if url.startswith("https:"):
            try:
                handlers.append(HTTPSHandler(context=ssl.create_default_context(cafile=ca_file)))
            except OSError as error:
                why = f"{ca_file} holds no certificates that can be used: {error}"
                raise UsageError(f"--alerter-ca-file: {why}") from error
        if is_loopback(urlsplit(url).hostname or ""):
            handlers.append(ProxyHandler({}))
        self.left_out = 0
        self._opener: OpenerDirector = build_opener(*handlers)

    def incidents(self, within: float) -> Iterator[Model]:
        """Incidents that are not resolved, then those that were within so many seconds; each once. Pages overlap, for
        an incident that is resolved or opened meanwhile moves the others. `left_out` is how many came after the last
        that is read.
        """
        seen: set[int] = set()
        offset, size, barren = 0, PAGE, 0
        days = ceil(within / _DAY)
        since = {"since": f"{days}d"} if days <= _LONGEST else {}
        while offset < MOST:
            try:
                rows, total = self._page(since, offset, size)
            except _TooLargeError:
                if size == 1:
                    raise AlerterError(f"{self._url}: one incident alone is more than {_BYTES >> 20} MiB") from None
                size = max(1, size // 8)
                continue
            new = {row["id"]: row for row in rows if row["id"] not in seen}
            seen.update(new)
            yield from new.values()
            barren = 0 if new else barren + 1
            if barren > _BARREN:
                raise self._error(f"it says that there are more incidents than {len(seen)}, and shows none of them")
            reached = offset + len(rows)
            self.left_out = max(0, total - reached)
            if not rows or not self.left_out:
                return
            offset = reached - min(_OVERLAP, len(rows) // 2)

    def _page(self, since: Mapping[str, str], offset: int, size: int) -> tuple[list[Model], int]:
        answer = self._asked(f"/api/v1/incidents?{urlencode({**since, 'limit': size, 'offset': offset})}")
        rows, total = (answer.get("incidents"), answer.get("total")) if isinstance(answer, dict) else (None, None)
        if not isinstance(rows, list) or not isinstance(total, int) or not all(map(_is_incident, rows)):
            raise AlerterError(
                f"{self._url} answers, but not as the alerter's API does; look whether it is its address"
            )
        return rows, total

    def _asked(self, path: str) -> object:
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        asked = Request(self._url + path, headers=headers)  # noqa: S310 - http or https, checked before
        try:
            with within(self._timeout), self._opener.open(asked, timeout=self._timeout) as answer:
                return json.loads(_whole(answer))
        except HTTPError as error:
            with error:
                redirected = 300 <= error.code < 400
            why = (
                "it redirects; give the address that it ends at"
                if redirected
                else _REMEDIES.get(error.code, "it failed")
            )
            raise self._error(f"{error.code}, {why}") from error
        except TimeoutError as error:
            raise self._error("it did not answer in time; --timeout gives it longer") from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError):
                raise self._error("it did not answer in time; --timeout gives it longer") from error
            raise self._error(inert(str(reason), 300) or type(reason).__name__) from error
        except (ValueError, RecursionError) as error:
            raise self._error("the answer is no JSON; look whether the address is the alerter's") from error

    def _error(self, why: str) -> AlerterError:
        said = f"the alerter at {self._url}: {why}"
        return AlerterError(said.replace(self._token, "(the token)") if self._token else said)


def _whole(answer: IO[bytes]) -> bytes:
    parts, size = [], 0
    while part := answer.read(2**16):
        size += len(part)
        if size > _BYTES:
            raise _TooLargeError
        parts.append(part)
    return b"".join(parts)


def _is_incident(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("id"), int) and isinstance(row.get("started_at"), str)
