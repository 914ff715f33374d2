"""What goes wrong with an API server: kinds that are counted, and one error that tells the thing and the remedy."""

from __future__ import annotations

from enum import StrEnum

from dutycycle_alerter.errors import SourceError


class Failure(StrEnum):
    """Why a request or a watch failed. The values are labels of a metric."""

    CREDENTIALS = "credentials"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    TIMEOUT = "timeout"
    CUT = "cut"
    SILENT = "silent"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    NOT_ACCEPTABLE = "not_acceptable"
    EXPIRED = "expired"
    THROTTLED = "throttled"
    SERVER = "server_error"
    REFUSED = "refused"
    GARBAGE = "garbage"
    INTERNAL = "internal"


class ApiError(SourceError):
    """An exchange with an API server that gave nothing.

    `retry_after` is in seconds, where the server named a time. `named` tells, of what was not found, that the server
    knows such objects, and has none of this name. `text` is what the server said.
    """

    def __init__(
        self,
        message: str,
        failure: Failure,
        *,
        retry_after: float | None = None,
        named: bool = False,
        text: str = "",
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.retry_after = retry_after
        self.named = named
        self.text = text
