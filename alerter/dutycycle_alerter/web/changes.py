"""The forms' targets: acknowledge, snooze, resolve, intended. Each answers with the incident's page (303), changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse

from dutycycle_alerter.web.forms import Change, Intent, Signed, check, remember, snooze_end, unsaid
from dutycycle_alerter.web.pages import ExpectationId, Notice
from dutycycle_alerter.web.site import IncidentId, Site, SiteOf

router = APIRouter(include_in_schema=False)


@router.post("/incidents/{incident_id:int}/acknowledge")
def acknowledge(
    request: Request, site: SiteOf, incident_id: IncidentId, sent: Annotated[Change, Form()]
) -> RedirectResponse:
    """Somebody takes care of it."""
    return _changed(
        request,
        site,
        sent,
        lambda actor: site.acting(incident_id).acknowledge(incident_id, actor=actor, note=sent.note),
        _page(incident_id, Notice.ACKNOWLEDGED),
    )


@router.post("/incidents/{incident_id:int}/snooze")
def snooze(
    request: Request, site: SiteOf, incident_id: IncidentId, sent: Annotated[Change, Form()]
) -> RedirectResponse:
    """Quiet for a while."""

    def change(actor: str) -> None:
        actions, scale = site.acting(incident_id), site.reader.status().time_scale
        until = snooze_end(sent, now=site.clock(), zone=site.zone, time_scale=scale)
        actions.snooze(incident_id, until=until, actor=actor, note=sent.note)

    return _changed(request, site, sent, change, _page(incident_id, Notice.SNOOZED))


@router.post("/incidents/{incident_id:int}/resolve")
def resolve(
    request: Request, site: SiteOf, incident_id: IncidentId, sent: Annotated[Change, Form()]
) -> RedirectResponse:
    """Closed by a person."""
    return _changed(
        request,
        site,
        sent,
        lambda actor: site.acting(incident_id).resolve(incident_id, actor=actor, note=sent.note),
        _page(incident_id, Notice.RESOLVED),
    )


@router.post("/incidents/{incident_id:int}/intended")
def intended(
    request: Request, site: SiteOf, incident_id: IncidentId, sent: Annotated[Intent, Form()]
) -> RedirectResponse:
    """It was intended: that job, or all jobs of its user, for a while."""

    def change(actor: str) -> None:
        site.intending(incident_id).intend(
            incident_id,
            actor=actor,
            reason=sent.reason,
            scope=sent.scope,
            until=site.clock() + sent.lasting.seconds / site.reader.status().time_scale,
            covered=sent.covered,
        )

    return _changed(request, site, sent, change, _page(incident_id, Notice.INTENDED))


@router.post("/expectations/{expectation_id:int}/withdraw")
def withdraw(
    request: Request, site: SiteOf, expectation_id: ExpectationId, sent: Annotated[Signed, Form()]
) -> RedirectResponse:
    """What was said to be intended counts no longer."""
    return _changed(
        request,
        site,
        sent,
        lambda actor: site.withdrawing(expectation_id).withdraw(expectation_id, actor=actor),
        "/expectations?done=withdrawn",
    )


def _page(incident_id: int, notice: Notice) -> str:
    return f"/incidents/{incident_id}?done={notice.value}"


def _changed(
    request: Request, site: Site, sent: Signed, change: Callable[[str], object], following: str
) -> RedirectResponse:
    """Make the change in the name of who is logged in, else of the name that was typed, and go on to the page that
    shows it.
    """
    check(request, sent.token, origins=site.origins)
    if not (site.visitor.name or sent.name):
        raise unsaid("name", "say who you are")
    change(site.visitor.name or site.typed(sent.name))
    # 303: the browser reads the page with GET, so that a reload does not post again.
    response = RedirectResponse(site.base + following, 303)
    if not site.visitor.name:
        remember(response, request, name=sent.name)
    return response
