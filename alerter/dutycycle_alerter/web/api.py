"""The JSON API, version 1: the same shapes as the commands' `--json`. It only reads."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from dutycycle_alerter import answers, wire
from dutycycle_alerter.errors import IncidentNotFoundError
from dutycycle_alerter.incidents.model import Severity, State
from dutycycle_alerter.scale import parse_duration
from dutycycle_alerter.views import IncidentFilter
from dutycycle_alerter.web.site import IncidentId, SiteOf

router = APIRouter(prefix="/api/v1", tags=["v1"])

Text = Annotated[str, Field(max_length=200)]


def _seconds(value: str | float) -> float:
    if isinstance(value, str):
        if len(value) > 20:
            raise ValueError("write it like 7d or 12h")
        return parse_duration(value)
    return value


LookBack = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "maxLength": 20, "examples": ["7d"]}),
    Query(gt=0, le=366 * 86400, description="how far to look back, written like 7d or 12h"),
]


class IncidentsQuery(BaseModel):
    """Which incidents to list; empty is any."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    state: list[State] = Field(default=[], max_length=len(State))
    """Any of these; none is all."""
    rule: str = Field(default="", max_length=64)
    severity: Severity | None = None
    user: Text = ""
    account: Text = ""
    scheduler: Text = ""
    node: Text = ""
    text: Text = ""
    """Looked for in subject, user, account and cause."""
    limit: int = Field(default=100, ge=1, le=1000)
    offset: int = Field(default=0, ge=0, le=10_000_000)


@router.get("/incidents")
def incidents(site: SiteOf, query: Annotated[IncidentsQuery, Query()]) -> wire.IncidentsAnswer:
    """Incidents, active ones first, newest first."""
    given = query.model_dump(exclude={"state", "limit", "offset"})
    wanted = IncidentFilter(states=frozenset(query.state), **given)
    rows, total = site.reader.incidents(wanted, limit=query.limit, offset=query.offset)
    return answers.incidents_answer(rows, total, query.offset, site.reader.status())


@router.get("/incidents/{incident_id:int}")
def incident(site: SiteOf, incident_id: IncidentId) -> wire.IncidentAnswer:
    """One incident with its history."""
    found = site.reader.incident(incident_id)
    if found is None:
        raise IncidentNotFoundError(f"incident {incident_id} does not exist")
    return answers.incident_answer(found, site.reader.events(incident_id), site.reader.status())


@router.get("/users")
def users(site: SiteOf, since: LookBack = 7 * 86400.0) -> wire.UsersAnswer:
    """Each user's use over a range until now, most wasted GPU-hours first."""
    status, until = site.reader.status(), site.clock()
    start = until - since / status.time_scale
    return answers.users_answer(site.reader.users(since=start, until=until), since=start, until=until, status=status)


@router.get("/fleet")
def fleet(site: SiteOf, since: LookBack = 7 * 86400.0) -> wire.FleetAnswer:
    """GPU-hours of the fleet over a range until now, by model: allocated, free, out of service, and waited for."""
    status, until = site.reader.status(), site.clock()
    start = until - since / status.time_scale
    return answers.fleet_answer(site.reader.fleet(since=start, until=until), since=start, until=until, status=status)


@router.get("/gpus")
def gpus(site: SiteOf) -> wire.GpusAnswer:
    """Every GPU at its last scrape."""
    return answers.gpus_answer(site.reader.gpus(), site.reader.status())


@router.get("/status")
def status(site: SiteOf) -> wire.StatusAnswer:
    """How the alerter itself is doing."""
    return answers.status_answer(site.reader.status())
