"""Logging in by a token, and out."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import Field

from dutycycle_alerter.web import forms
from dutycycle_alerter.web.access.sessions import COOKIE
from dutycycle_alerter.web.access.visitor import NotLoggedInError
from dutycycle_alerter.web.site import OpenSite, Site

router = APIRouter(include_in_schema=False)

_HERE = re.compile(r"/(?![/\\])[!-~]*")
_LONGEST = 2000


class LogIn(forms.Sent):
    """The form of the log-in."""

    secret: str = Field(default="", max_length=5000)
    next: str = Field(default="", max_length=_LONGEST)


@router.api_route("/login", methods=["GET", "HEAD"])
def ask(
    request: Request, site: OpenSite, following: Annotated[str, Query(alias="next", max_length=_LONGEST)] = "/"
) -> HTMLResponse:
    """The form."""
    return _form(request, site, following)


@router.post("/login")
def log_in(request: Request, site: OpenSite, sent: Annotated[LogIn, Form()]) -> Response:
    """Begin a session, and go on to where the visitor was about to go."""
    _check_offered(site)
    forms.check(request, sent.token, origins=site.origins)
    try:
        session = site.gate.log_in(request, sent.secret.strip())
    except NotLoggedInError as error:
        return _form(request, site, sent.next, wrong=str(error), status_code=401)
    response = RedirectResponse(site.base + _here(sent.next), 303)
    response.set_cookie(
        COOKIE,
        session,
        max_age=int(site.gate.sessions.lifetime),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return response


@router.post("/logout")
def log_out(request: Request, site: OpenSite, sent: Annotated[forms.Sent, Form()]) -> RedirectResponse:
    """End the session in this browser."""
    _check_offered(site)
    forms.check(request, sent.token, origins=site.origins)
    response = RedirectResponse(f"{site.base}/login", 303)
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=request.url.scheme == "https")
    return response


def _form(request: Request, site: Site, following: str, *, wrong: str = "", status_code: int = 200) -> HTMLResponse:
    _check_offered(site)
    return site.page(request, "login.html", None, status_code=status_code, following=_here(following), wrong=wrong)


def _check_offered(site: Site) -> None:
    if not site.gate.logs_in:
        raise HTTPException(404)


def _here(path: str) -> str:
    """A path of this site; its front page for what leads elsewhere, or nowhere."""
    return path if _HERE.fullmatch(path) else "/"
