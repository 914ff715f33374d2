"""What the API's description says of every route: how to log in, and what else than success is answered."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from dutycycle_alerter.web.access.gate import Gate
from dutycycle_alerter.web.access.sessions import COOKIE
from dutycycle_alerter.wire import ErrorAnswer


def _errors(**described: str) -> dict[int | str, dict[str, Any]]:
    return {int(code[1:]): {"model": ErrorAnswer, "description": text} for code, text in described.items()}


NOT_FOUND = _errors(_404="There is none with that number, or it belongs to somebody else.")
CONFLICT = _errors(_409="Its state does not allow that.")
READING = _errors(
    _400="The body is not JSON.",
    _401="Not logged in, or the token is unknown.",
    _403="The client is known but may not do that, or a browser asks on behalf of another site.",
    _411="A body needs a Content-Length.",
    _413="The body is too large.",
    _421="This server does not answer to that name.",
    _422="The request cannot be understood.",
    _429="Too many wrong tokens came from there: try again later.",
    _500="Something went wrong.",
    _503="The store does not answer.",
)
"""What every route may answer."""

# They describe; `access.gate` is what lets in.
SECURED = [
    Security(HTTPBearer(scheme_name="token", auto_error=False, description="One of web.auth.tokens.")),
    Security(
        APIKeyCookie(
            name=COOKIE, scheme_name="session", auto_error=False, description="The cookie of a log-in at /login."
        )
    ),
]


def describe(app: FastAPI, gate: Gate) -> None:
    """Have the description say whether who is not logged in is answered as well."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        schema = plain()
        for operations in schema["paths"].values():
            for operation in operations.values():
                if gate.open and {} not in operation["security"]:
                    operation["security"].append({})
        return schema

    app.openapi = described  # type: ignore[method-assign]
