"""The forms that change an incident: where a POST may come from, and what it may say.

Two independent checks keep other sites from posting: the browser's own statement of the origin, and a token that the
page carries and the browser's cookie repeats. (Cookies do not tell ports of one host apart, origins do; a client that
states no origin has to know the token.)
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Annotated

from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, Field
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from dutycycle_alerter.authorities import spellings
from dutycycle_alerter.incidents.expectations import Covered, Scope
from dutycycle_alerter.scale import parse_duration

TOKEN_COOKIE = "dutycycle_token"  # noqa: S105 - the cookie's name
NAME_COOKIE = "dutycycle_name"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_NAME_KEPT = 90 * 86400
MAX_SNOOZE = 366 * 86400


class ForgedRequestError(Exception):
    """A change was asked for from somewhere else than this server's own pages."""


class Snooze(StrEnum):
    """How long an incident is to be quiet."""

    HOUR = "1h"
    SHIFT = "8h"
    DAY = "1d"
    WEEK = "1w"

    @property
    def seconds(self) -> float:
        """On the shown scale."""
        return parse_duration(self.value)


SNOOZES = {
    Snooze.HOUR: "1 hour",
    Snooze.SHIFT: "8 hours",
    Snooze.DAY: "1 day",
    Snooze.WEEK: "1 week",
}


def _one_line(text: str) -> str:
    return " ".join(text.split())


Line = Annotated[str, AfterValidator(_one_line)]


class Sent(BaseModel):
    """What every form sends."""

    token: str = Field(default="", max_length=100)


class Signed(Sent):
    """What says who changes something: `name` counts where nobody is logged in."""

    name: Annotated[Line, Field(max_length=80)] = ""


class Noted(Signed):
    """A change with a note, for a while where it is a snooze."""

    note: Annotated[Line, Field(max_length=500)] = ""
    snooze: Snooze = Snooze.SHIFT


class Change(Noted):
    """What the forms of an incident send."""

    until: str = Field(default="", max_length=40)


class Lasting(StrEnum):
    """For how long something is intended."""

    DAY = "1d"
    WEEK = "7d"
    FORTNIGHT = "14d"
    MONTH = "30d"
    QUARTER = "90d"

    @property
    def seconds(self) -> float:
        """On the shown scale."""
        return parse_duration(self.value)

    @property
    def words(self) -> str:
        """`7 days`."""
        return "1 day" if self is Lasting.DAY else f"{self.value[:-1]} days"


class Intent(Signed):
    """What the form of what was intended sends."""

    reason: str = Field(default="", max_length=2000)
    scope: Scope = Scope.JOB
    covered: Covered = Covered.OPEN
    lasting: Lasting = Lasting.WEEK


def lastings(longest: float) -> dict[str, str]:
    """The lengths that are offered where `longest` seconds are allowed, on the shown scale."""
    return {item.value: item.words for item in Lasting if item.seconds <= longest}


def unsaid(field: str, message: str) -> RequestValidationError:
    """The error for a field that makes no sense."""
    return RequestValidationError([{"loc": ("body", field), "msg": message}])


def snooze_end(change: Change, *, now: float, zone: tzinfo | None, time_scale: float) -> float:
    """The wall time at which the snooze ends: the time that was given, in `zone`, or else after the chosen length
    (on the shown scale). Raises RequestValidationError.
    """
    if not change.until:
        return now + change.snooze.seconds / time_scale
    try:
        moment = datetime.fromisoformat(change.until)
        until = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise unsaid("until", "write the time until which it is to be quiet like 2026-01-31T08:00") from error
    if not now < until <= now + MAX_SNOOZE:
        raise unsaid("until", "the time until which it is to be quiet lies in the next twelve months")
    return until


def form_token(request: Request) -> str:
    """The token for this browser's forms: the one it has, or a new one (see `remember`)."""
    token = request.cookies.get(TOKEN_COOKIE, "")
    return token if _TOKEN.fullmatch(token) else secrets.token_urlsafe(32)


def remember(response: Response, request: Request, *, token: str | None = None, name: str | None = None) -> None:
    """Set the cookies of the forms: the token, for the session; the person's name, so that it is typed once."""
    secure = request.url.scheme == "https"
    if token is not None:
        response.set_cookie(TOKEN_COOKIE, token, httponly=True, samesite="lax", secure=secure)
    if name is not None:
        value = name.encode("utf-8", "replace").hex()
        response.set_cookie(NAME_COOKIE, value, max_age=_NAME_KEPT, httponly=True, samesite="lax", secure=secure)


def remembered_name(request: Request) -> str:
    """The name typed last time; empty where there is none."""
    try:
        return _one_line(bytes.fromhex(request.cookies.get(NAME_COOKIE, "")).decode("utf-8"))[:80]
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the site's own pages come from, beside the address that a request came to: `names` (`HOST` or `HOST:PORT`,
    as it stands in the browser's address bar), and the public address, which has one scheme alone.
    """

    names: frozenset[str] = frozenset()
    scheme: str = ""
    authority: str = ""


def check(request: Request, token: str, *, origins: Origins) -> None:
    """Both checks of a form. Raises ForgedRequestError."""
    check_origin(request.headers, origins=origins)
    check_token(request, token)


def check_origin(headers: Headers, *, origins: Origins) -> None:
    """Raise ForgedRequestError for a request that a browser sends on behalf of another origin.

    Host and port have to be those the request came to, or of the site's own: a proxy under that name may have changed
    the Host header.
    """
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise ForgedRequestError("the form was sent from another site")
    origin = headers.get("origin")
    if origin is None:
        return
    scheme, _, authority = origin.lower().partition("://")
    spelt = spellings(authority, scheme)
    own = spelt & {*spellings(headers.get("host", ""), scheme), *origins.names, origins.authority}
    if not own or (origins.authority in spelt and scheme != origins.scheme):
        raise ForgedRequestError("the form was sent from another origin")


def check_token(request: Request, token: str) -> None:
    """Raise ForgedRequestError where the form's token is not the one this browser was given."""
    known = request.cookies.get(TOKEN_COOKIE, "")
    if not _TOKEN.fullmatch(known) or not secrets.compare_digest(known.encode(), token.encode()):
        raise ForgedRequestError(
            "the form is out of date: go back, load the page again and repeat the change; "
            "if that does not help, let the browser keep cookies of this site"
        )
