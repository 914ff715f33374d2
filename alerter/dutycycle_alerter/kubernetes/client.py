"""Requests to one API server that end: whole answers bounded in size, watches line by line, errors with remedies."""

from __future__ import annotations

import contextlib
import http.client
import math
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import NoReturn, Protocol

import urllib3
from urllib3.exceptions import HTTPError

from dutycycle_alerter.bounded_http import cut_off
from dutycycle_alerter.kubernetes.failures import ApiError, Failure
from dutycycle_alerter.kubernetes.objects import Status, decode_status
from dutycycle_alerter.printable import printable

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
MOST_BYTES = 256 * 2**20
"""Of one page of a list, unpacked: 500 objects of the size that etcd takes at most would be more, but no cluster is
like that.
"""
LONGEST_LINE = 8 * 2**20
"""Of a watch. etcd takes objects of 1.5 MiB."""
_MOST_OF_ERROR = 64 * 1024
_MESSAGE = 300
_LONGEST_PAUSE = 600.0
_READING = 2.0
"""Times as long as it may take to begin, a whole answer may take to be read."""
_BROKEN = (HTTPError, OSError, http.client.HTTPException, ValueError)


class Transport(Protocol):
    """The way to the server."""

    shown: str

    def request(
        self, path: str, query: Mapping[str, str], *, accept: str, timeout: float, compressed: bool = True
    ) -> urllib3.BaseHTTPResponse:
        """An answer whose body is not yet read."""
        ...

    def failed(self, path: str, error: Exception, timeout: float) -> ApiError:
        """What an error of the transport means."""
        ...

    def renew(self) -> None:
        """Read credentials again."""
        ...

    def note(self) -> str:
        """What is careless about it; empty where nothing is."""
        ...

    def close(self) -> None:
        """Close idle connections."""
        ...


class Client:
    """One API server. Thread-safe. `timeout` is in seconds, for an answer to begin, and to go on."""

    def __init__(self, transport: Transport, timeout: float, *, most_bytes: int = MOST_BYTES) -> None:
        self._transport = transport
        self._timeout = timeout
        self._most = most_bytes
        self.shown = transport.shown

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        at_most: float = math.inf,
    ) -> bytes:
        """The body of an answer 200, which begins within `at_most` seconds, if the time-out is longer. Raises
        ApiError.
        """
        timeout = min(self._timeout, at_most)
        response = self._transport.request(path, query or {}, accept=accept, timeout=timeout)
        deadline = time.monotonic() + _READING * timeout
        try:
            with cut_off(deadline - time.monotonic(), response.shutdown):
                if response.status != 200:
                    self._refuse(path, response)
                body = _whole(response, self._most)
            if time.monotonic() >= deadline:
                # A body without a length ends where the connection does, also where it was cut off.
                raise TimeoutError
        except _BROKEN as error:
            late = time.monotonic() >= deadline
            raise self._transport.failed(path, TimeoutError() if late else error, _READING * timeout) from error
        except _TooLargeError:
            message = f"{self.shown}: {path}: the answer is larger than {self._most / 2**20:g} MiB"
            raise ApiError(message, Failure.GARBAGE) from None
        finally:
            response.close()
        return body

    def watch(self, path: str, query: Mapping[str, str], silence: float, longest: float) -> Stream:
        """A watch that the server has begun. Raises ApiError. Without a whole line for `silence` seconds it fails, and
        after `longest` it is cut off.
        """
        response = self._transport.request(path, query, accept=JSON, timeout=silence, compressed=False)
        if response.status == 200:
            return Stream(self, path, response, silence, longest)
        try:
            with cut_off(self._timeout, response.shutdown):
                self._refuse(path, response)
        except _BROKEN as error:
            raise self._transport.failed(path, error, self._timeout) from error
        finally:
            response.close()

    def broken(self, path: str, error: Exception, silence: float) -> ApiError:
        """What an error of the transport means within a watch."""
        found = self._transport.failed(path, error, silence)
        if found.failure is Failure.TIMEOUT:
            return ApiError(f"{self.shown}: {path}: silent for {round(silence, 2):g} s", Failure.SILENT)
        return found

    def renew(self) -> None:
        """Read credentials again. Raises ApiError."""
        self._transport.renew()

    def note(self) -> str:
        """What is careless about the way to the server; empty where nothing is."""
        return self._transport.note()

    def close(self) -> None:
        """Close idle connections."""
        self._transport.close()

    def _refuse(self, path: str, response: urllib3.BaseHTTPResponse) -> NoReturn:
        """Raises ApiError for an answer that is not 200."""
        try:
            status = decode_status(_whole(response, _MOST_OF_ERROR))
        except _TooLargeError:
            status = Status()
        raise refused(f"{self.shown}: {path}", response.status, status, _retry_after(response))


class Stream:
    """The lines of one watch."""

    def __init__(
        self, client: Client, path: str, response: urllib3.BaseHTTPResponse, silence: float, longest: float
    ) -> None:
        self._client = client
        self._path = path
        self._response = response
        self._silence = silence
        self._longest = longest
        self._cut = False

    def lines(self) -> Iterator[bytes]:
        """Whole lines, until the server ends it. Raises ApiError where it ends otherwise."""
        rest, whole_at = bytearray(), time.monotonic()
        last = whole_at + self._longest
        try:
            with cut_off(self._longest, self._response.shutdown):
                while data := self._response.read1(65536):
                    begun = len(rest)
                    rest += data
                    end = rest.rfind(b"\n", begun) + 1
                    if end:
                        # Lines that came together are done together: slow work on them is not the server's silence.
                        yield from bytes(memoryview(rest)[:end]).splitlines()
                        del rest[:end]
                        whole_at = time.monotonic()
                    elif len(rest) > LONGEST_LINE:
                        self._fail(Failure.GARBAGE, f"a line is longer than {LONGEST_LINE // 2**20} MiB")
                    elif time.monotonic() - whole_at > self._silence:
                        self._fail(Failure.SILENT, f"no whole line for {round(self._silence, 2):g} s")
            if time.monotonic() >= last:
                self._fail(Failure.CUT, "the watch did not end when it should")
            if rest.strip():
                self._fail(Failure.CUT, "the watch ended within a line")
        except _BROKEN as error:
            raise self._client.broken(self._path, error, self._silence) from error
        finally:
            self._response.close()

    def cut(self) -> None:
        """End it at once, from another thread."""
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it has just ended by itself
            self._response.shutdown()

    def _fail(self, failure: Failure, reason: str) -> NoReturn:
        raise ApiError(f"{self._client.shown}: {self._path}: {reason}", failure)


class _TooLargeError(Exception):
    pass


def _whole(response: urllib3.BaseHTTPResponse, most: int) -> bytes:
    chunks, size = [], 0
    for chunk in response.stream(2**16, decode_content=True):
        size += len(chunk)
        if size > most:
            raise _TooLargeError
        chunks.append(chunk)
    return b"".join(chunks)


def refused(where: str, code: int, status: Status, retry_after: float | None = None) -> ApiError:
    """The error for a status that is not 200, by the server's own explanation."""
    failure, remedy = _MEANING.get(code, (Failure.SERVER if code >= 500 else Failure.REFUSED, ""))
    if 300 <= code < 400:
        remedy = "it sends elsewhere, which is not followed: is the server's URL right?"
    text = printable(status.message, _MESSAGE)
    if code == 403 and _NOBODY in text:
        # Also what becomes of a token that was not sent, for the program that makes it failed.
        failure, remedy = Failure.UNAUTHORIZED, "no token or certificate came along: see the user in the kubeconfig"
    said = ": ".join(part for part in (f"{where}: answered {code}", text, remedy) if part)
    if retry_after is None and status.details is not None and status.details.retryAfterSeconds > 0:
        retry_after = min(float(status.details.retryAfterSeconds), _LONGEST_PAUSE)
    named = status.details is not None and bool(status.details.name)
    return ApiError(said, failure, retry_after=retry_after, named=named, text=text)


_NOBODY = '"system:anonymous"'
_MEANING = {
    401: (Failure.UNAUTHORIZED, "the token or certificate is not accepted: has it ended?"),
    403: (Failure.FORBIDDEN, "grant get, list and watch to the alerter's service account or user"),
    404: (Failure.NOT_FOUND, ""),
    406: (Failure.NOT_ACCEPTABLE, ""),
    410: (Failure.EXPIRED, "everything is listed again"),
    429: (Failure.THROTTLED, "it is asked again later"),
    503: (Failure.SERVER, "it is asked again later"),
}


def _retry_after(response: urllib3.BaseHTTPResponse) -> float | None:
    """In seconds, at most ten minutes."""
    told = response.headers.get("Retry-After", "").strip()
    try:
        seconds = float(int(told)) if told.isdigit() else parsedate_to_datetime(told).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), _LONGEST_PAUSE)
