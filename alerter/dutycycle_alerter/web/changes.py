"""The forms' targets: acknowledge, snooze, resolve. Each answers with the incident's page (303), changed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse

from dutycycle_alerter.web.forms import Change, check_origin, check_token, remember, snooze_end
from dutycycle_alerter.web.pages import Notice
from dutycycle_alerter.web.site import IncidentId, Site, SiteOf

router = APIRouter(include_in_schema=False)

Sent = Annotated[Change, Form()]


@router.post("/incidents/{incident_id:int}/acknowledge")
def acknowledge(request: Request, site: SiteOf, incident_id: IncidentId, change: Sent) -> RedirectResponse:
    """Somebody takes care of it."""
    _check(request, site, change)
    site.actions.acknowledge(incident_id, actor=change.name, note=change.note)
    return _done(request, incident_id, change, Notice.ACKNOWLEDGED)


@router.post("/incidents/{incident_id:int}/snooze")
def snooze(request: Request, site: SiteOf, incident_id: IncidentId, change: Sent) -> RedirectResponse:
    """Quiet for a while."""
    _check(request, site, change)
    scale = site.reader.status().time_scale
    try:
        until = snooze_end(change, now=site.clock(), zone=site.zone, time_scale=scale)
    except ValueError as error:
        raise RequestValidationError([{"loc": ("body", "until"), "msg": str(error)}]) from error
    site.actions.snooze(incident_id, until=until, actor=change.name, note=change.note)
    return _done(request, incident_id, change, Notice.SNOOZED)


@router.post("/incidents/{incident_id:int}/resolve")
def resolve(request: Request, site: SiteOf, incident_id: IncidentId, change: Sent) -> RedirectResponse:
    """Closed by a person."""
    _check(request, site, change)
    site.actions.resolve(incident_id, actor=change.name, note=change.note)
    return _done(request, incident_id, change, Notice.RESOLVED)


def _check(request: Request, site: Site, change: Change) -> None:
    check_origin(request.headers, names=site.names)
    check_token(request, change.token)


def _done(request: Request, incident_id: IncidentId, change: Change, notice: Notice) -> RedirectResponse:
    # 303: the browser reads the page with GET, so that a reload does not post again.
    response = RedirectResponse(f"/incidents/{incident_id}?done={notice.value}", 303)
    remember(response, request, name=change.name)
    return response
