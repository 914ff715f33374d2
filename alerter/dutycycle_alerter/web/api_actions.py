"""The JSON API, version 1, what it changes. A browser's request needs a header that other sites cannot send."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dutycycle_alerter import answers, wire
from dutycycle_alerter.incidents.expectations import LONGEST_REASON, SHORTEST_REASON, Covered, Scope
from dutycycle_alerter.web import api, forms
from dutycycle_alerter.web.access.visitor import Means
from dutycycle_alerter.web.describing import CONFLICT, NOT_FOUND, READING, SECURED
from dutycycle_alerter.web.pages import ExpectationId
from dutycycle_alerter.web.site import IncidentId, Site, SiteOf

DAY = 86400

Line = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]


def _no_text(value: object) -> object:
    if isinstance(value, (str, bool)):
        raise ValueError("Input should be a valid integer")  # noqa: TRY004 - pydantic wants ValueError
    return value


Whole = Annotated[int, BeforeValidator(_no_text)]
Asked = Annotated[
    str,
    Header(max_length=100, alias="X-Requested-With", description="Needed without a bearer token: `dutycycle`."),
]


class _Body(BaseModel):
    """Unknown keys are errors: a misspelt one would be left out in silence."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Note(_Body):
    """What is said beside it."""

    note: Line = ""
    name: Annotated[Line, Field(max_length=80)] = ""
    """Who acts, where nobody is logged in; else it is who is logged in."""


class Snooze(Note):
    """For how long it is to be quiet."""

    seconds: Whole = Field(ge=60, le=forms.MAX_SNOOZE)
    """On the shown scale."""


class Intended(_Body):
    """Why, of what and for how long it is intended."""

    reason: Annotated[str, Field(min_length=SHORTEST_REASON, max_length=LONGEST_REASON, pattern=r"^[^\x00-\x1f\x7f]*$")]
    scope: Scope
    covered: Covered = Covered.OPEN
    """Of which rules: those that are open in the incident, or all that judge jobs."""
    days: Whole = Field(ge=1, le=90)
    """On the shown scale; a site may allow less."""
    name: Annotated[Line, Field(max_length=80)] = ""
    """Who acts, where nobody is logged in; else it is who is logged in."""


def _from_here(request: Request, site: SiteOf, asked: Asked = "") -> None:
    """A browser sends a bearer token for nobody but us, and the header to no site that did not ask for it."""
    if site.visitor.means is Means.BEARER:
        return
    forms.check_origin(request.headers, origins=site.origins)
    if asked != "dutycycle":
        raise forms.ForgedRequestError("without a bearer token, send the header X-Requested-With: dutycycle")


router = APIRouter(
    prefix="/api/v1",
    tags=["v1"],
    responses=READING | NOT_FOUND | CONFLICT,
    dependencies=[*SECURED, Depends(_from_here)],
)


@router.post("/incidents/{incident_id:int}/acknowledge")
def acknowledge(site: SiteOf, incident_id: IncidentId, said: Note) -> wire.IncidentAnswer:
    """Somebody takes care of it."""
    site.acting(incident_id).acknowledge(incident_id, actor=_actor(site, said.name), note=said.note)
    return api.incident(site, incident_id)


@router.post("/incidents/{incident_id:int}/snooze")
def snooze(site: SiteOf, incident_id: IncidentId, said: Snooze) -> wire.IncidentAnswer:
    """Quiet for a while; then open again if it still holds."""
    until = site.clock() + said.seconds / site.reader.status().time_scale
    site.acting(incident_id).snooze(incident_id, until=until, actor=_actor(site, said.name), note=said.note)
    return api.incident(site, incident_id)


@router.post("/incidents/{incident_id:int}/resolve")
def resolve(site: SiteOf, incident_id: IncidentId, said: Note) -> wire.IncidentAnswer:
    """Closed by a person; it does not open again until the condition has cleared once."""
    site.acting(incident_id).resolve(incident_id, actor=_actor(site, said.name), note=said.note)
    return api.incident(site, incident_id)


@router.post("/incidents/{incident_id:int}/intend")
def intend(site: SiteOf, incident_id: IncidentId, said: Intended) -> wire.IncidentAnswer:
    """It was intended: it is resolved, and does not open again for a while."""
    site.intending(incident_id).intend(
        incident_id,
        actor=_actor(site, said.name),
        reason=said.reason,
        scope=said.scope,
        until=site.clock() + said.days * DAY / site.reader.status().time_scale,
        covered=said.covered,
    )
    return api.incident(site, incident_id)


@router.delete("/expectations/{expectation_id:int}")
def withdraw(site: SiteOf, expectation_id: ExpectationId) -> wire.ExpectationAnswer:
    """What was said to be intended counts no longer."""
    gone = site.withdrawing(expectation_id).withdraw(expectation_id, actor=_actor(site, ""))
    return answers.expectation_answer(gone, site.reader.status())


def _actor(site: Site, name: str) -> str:
    name = " ".join(name.split())
    return site.visitor.name or (site.typed(name) if name else "anonymous")
