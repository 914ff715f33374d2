"""From what goes wrong to what is answered: a page for people, an object for programs, and never a stack trace."""

from __future__ import annotations

import logging
from http import HTTPStatus
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from dutycycle_alerter.errors import (
    AlerterError,
    ExpectationError,
    ExpectationNotFoundError,
    IncidentNotFoundError,
    StoreError,
    TransitionError,
)
from dutycycle_alerter.notify.links import LinkError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.web.access.visitor import ForbiddenError, NotLoggedInError, Role, TooManyAttemptsError
from dutycycle_alerter.web.forms import ForgedRequestError
from dutycycle_alerter.web.guard import API
from dutycycle_alerter.web.seldom import Seldom
from dutycycle_alerter.web.site import NOBODY, Site

log = logging.getLogger(__name__)
log.addFilter(Seldom())

_MOST_PROBLEMS = 20

_LINKS = {
    "expired": "It was valid only for a while: newer messages have newer links, and the page itself needs none.",
    "forged": "It was not created here, or was changed, or was created before the alerter got a new key.",
    "malformed": "Part of it is missing: an email program may have broken it. Copy all of it into the browser.",
}


def install(app: FastAPI, site: Site) -> None:
    """Make the application answer every error in one look. Handlers read the store, so none is a coroutine: those are
    run in threads.
    """

    def answer(request: Request, code: int, title: str, text: str, headers: dict[str, str] | None = None) -> Response:
        response: Response
        if request.url.path.startswith(API):
            response = JSONResponse({"error": {"code": code, "title": title, "message": text}}, status_code=code)
        else:
            back = request.path_params.get("incident_id") if request.method == "POST" else None
            # Where it went wrong before anybody looked who asks, nothing of the site is shown.
            seen = site.seen_by(getattr(request.state, "visitor", NOBODY))
            response = seen.error_page(request, code, title, text, back=back)
        response.headers.update(headers or {})
        return response

    def on(error: type[Exception], code: int, title: str) -> None:
        app.add_exception_handler(error, lambda request, raised: answer(request, code, title, str(raised)))

    def log_in(request: Request, error: Exception) -> Response:
        api = request.url.path.startswith(API)
        if (
            not api
            and site.gate.logs_in
            and request.method in ("GET", "HEAD")
            and "authorization" not in request.headers
        ):
            return RedirectResponse(f"{site.base}/login?{urlencode({'next': shown_path(request)})}", 303)
        headers = {"WWW-Authenticate": 'Bearer realm="dutycycle"'} if site.gate.logs_in else {}
        return answer(request, 401, "Log in first", str(error), headers)

    def wait(request: Request, error: Exception) -> Response:
        assert isinstance(error, TooManyAttemptsError)  # noqa: S101 - registered for nothing else
        return answer(request, 429, "Wait a moment", str(error), {"Retry-After": str(error.retry_after)})

    def link(request: Request, error: Exception) -> Response:
        assert isinstance(error, LinkError)  # noqa: S101 - registered for nothing else
        code = 410 if error.reason == "expired" else 403 if error.reason == "forged" else 400
        return answer(request, code, f"This link is {error.reason}", _LINKS[error.reason])

    def store(request: Request, error: Exception) -> Response:
        # What it says of the database is for who runs it.
        log.warning("the store does not answer: %s", error)
        visitor = getattr(request.state, "visitor", NOBODY)
        text = str(error) if visitor.role is Role.OPERATOR else "The alerter's log says why. Try again later."
        return answer(request, 503, "The store does not answer", text)

    app.add_exception_handler(NotLoggedInError, log_in)
    app.add_exception_handler(TooManyAttemptsError, wait)
    app.add_exception_handler(LinkError, link)
    on(IncidentNotFoundError, 404, "There is no such incident")
    on(ExpectationNotFoundError, 404, "There is no such expectation")
    on(ExpectationError, 422, "That cannot be accepted")
    on(ForbiddenError, 403, "You may not do that")
    on(TransitionError, 409, "That cannot be done now")
    on(ForgedRequestError, 403, "The change was not made")
    app.add_exception_handler(StoreError, store)
    on(AlerterError, 500, "Something went wrong")

    def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for nothing else
        # Location: query, path or body, then the parameter, if it is about one. Both may repeat what was sent.
        problems = {
            f"{printable(str(item['loc'][:2][-1]), 80)}: {printable(item['msg'], 300)}" for item in error.errors()
        }
        return answer(request, 422, "The request cannot be understood", "; ".join(sorted(problems)[:_MOST_PROBLEMS]))

    def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
        title = "There is no such page" if error.status_code == 404 else HTTPStatus(error.status_code).phrase
        text = "The address may be mistyped." if error.status_code == 404 else str(error.detail)
        return answer(request, error.status_code, title, text, dict(error.headers or {}))

    def unexpected(request: Request, _error: Exception) -> Response:
        return answer(request, 500, "Something went wrong", "See the alerter's log.")

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def shown_path(request: Request) -> str:
    """The request's path and query, without the site's own base."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path
