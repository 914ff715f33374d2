"""From what goes wrong to what is answered: a page for people, an object for programs, and never a stack trace."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from dutycycle_alerter.errors import AlerterError, IncidentNotFoundError, StoreError, TransitionError
from dutycycle_alerter.web.forms import ForgedRequestError
from dutycycle_alerter.web.site import Site

API = "/api/"


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
            response = site.error_page(request, code, title, text, back=back)
        response.headers.update(headers or {})
        return response

    def on(error: type[Exception], code: int, title: str) -> None:
        app.add_exception_handler(error, lambda request, raised: answer(request, code, title, str(raised)))

    on(IncidentNotFoundError, 404, "There is no such incident")
    on(TransitionError, 409, "That cannot be done now")
    on(ForgedRequestError, 403, "The change was not made")
    on(StoreError, 503, "The store does not answer")
    on(AlerterError, 500, "Something went wrong")

    def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for nothing else
        # Location: query, path or body, then the parameter. The value itself is not repeated.
        problems = sorted({f"{item['loc'][1]}: {item['msg']}" for item in error.errors()})
        return answer(request, 422, "The request cannot be understood", "; ".join(problems))

    def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
        title = "There is no such page" if error.status_code == 404 else HTTPStatus(error.status_code).phrase
        text = "The address may be mistyped." if error.status_code == 404 else str(error.detail)
        return answer(request, error.status_code, title, text, dict(error.headers or {}))

    def unexpected(request: Request, _error: Exception) -> Response:
        return answer(request, 500, "Something went wrong", "The alerter's log says what.")

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)
