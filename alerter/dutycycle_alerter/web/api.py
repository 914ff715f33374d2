"""The JSON API, version 1, what it reads: the same shapes as the commands' `--json`. `api_actions` is what changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from dutycycle_alerter import answers, wire, wire_present
from dutycycle_alerter.incidents.model import Severity, State
from dutycycle_alerter.scale import parse_duration
from dutycycle_alerter.views import IncidentFilter
from dutycycle_alerter.web.describing import NOT_FOUND, READING, SECURED
from dutycycle_alerter.web.site import IncidentId, SiteOf

router = APIRouter(prefix="/api/v1", tags=["v1"], responses=READING, dependencies=SECURED)

Text = Annotated[str, Field(max_length=200)]


def _seconds(value: str | float) -> float:
    if isinstance(value, str):
        if len(value) > 20:
            raise ValueError("write it like 7d or 12h")
        return parse_duration(value)
    return value


_LOOK_BACK = (
    r"^([1-9][0-9]{0,4}[sm]|[1-9][0-9]{0,2}h"
    r"|([1-9][0-9]?|[12][0-9]{2}|3[0-5][0-9]|36[0-6])d|([1-9]|[1-4][0-9]|5[0-2])w)$"
)
LookBack = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "pattern": _LOOK_BACK, "examples": ["7d"]}),
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
    since: LookBack | None = None
    """Those that are active, and those that were resolved within this time, written like 7d or 12h; without it, all."""
    limit: int = Field(default=100, ge=1, le=1000)
    offset: int = Field(default=0, ge=0, le=10_000_000)


@router.get("/incidents")
def incidents(site: SiteOf, query: Annotated[IncidentsQuery, Query()]) -> wire.IncidentsAnswer:
    """Incidents, active ones first, newest first."""
    status = site.reader.status()
    given = query.model_dump(exclude={"state", "since", "limit", "offset"})
    after = None if query.since is None else site.clock() - query.since / status.time_scale
    wanted = IncidentFilter(states=frozenset(query.state), resolved_after=after, **given)
    rows, total = site.reader.incidents(wanted, limit=query.limit, offset=query.offset)
    return answers.incidents_answer(rows, total, query.offset, status)


@router.get("/incidents/{incident_id:int}", responses=NOT_FOUND)
def incident(site: SiteOf, incident_id: IncidentId) -> wire.IncidentAnswer:
    """One incident with its history."""
    return answers.incident_answer(site.incident(incident_id), site.reader.events(incident_id), site.reader.status())


class ExpectationsQuery(BaseModel):
    """Which expectations to list."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    current: bool = True
    """Those that count now, ending first; else all that are remembered, newest first."""
    limit: int = Field(default=100, ge=1, le=1000)
    offset: int = Field(default=0, ge=0, le=10_000_000)


@router.get("/expectations")
def expectations(site: SiteOf, query: Annotated[ExpectationsQuery, Query()]) -> wire.ExpectationsAnswer:
    """What people marked as intended."""
    found = site.reader.expectations(current=query.current)
    rows = found[query.offset : query.offset + query.limit]
    return answers.expectations_answer(rows, len(found), query.offset, site.reader.status())


Limit = Annotated[int, Query(ge=1, le=10_000, description="how many to list at most")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="how many to leave out at the beginning")]


@router.get("/users")
def users(
    site: SiteOf, since: LookBack = 7 * 86400.0, limit: Limit = 1000, offset: Offset = 0
) -> wire_present.UsersAnswer:
    """Each user's use over a range until now, most wasted GPU-hours first."""
    status, until = site.reader.status(), site.clock()
    start = until - since / status.time_scale
    found = site.reader.users(since=start, until=until)
    part = slice(offset, offset + limit)
    return answers.users_answer(found, since=start, until=until, status=status, part=part)


@router.get("/fleet")
def fleet(
    site: SiteOf, since: LookBack = 7 * 86400.0, limit: Limit = 1000, offset: Offset = 0
) -> wire_present.FleetAnswer:
    """GPU-hours of the fleet over a range until now, by cluster and model: allocated, free (and how much of that while
    others waited), out of service, and waited for.
    """
    status, until = site.reader.status(), site.clock()
    start = until - since / status.time_scale
    found = site.reader.fleet(since=start, until=until)
    part = slice(offset, offset + limit)
    return answers.fleet_answer(found, since=start, until=until, status=status, part=part)


@router.get("/gpus")
def gpus(site: SiteOf, limit: Limit = 1000, offset: Offset = 0) -> wire_present.GpusAnswer:
    """GPUs at their last scrape, by node and index."""
    return answers.gpus_answer(site.reader.gpus(), site.reader.status(), slice(offset, offset + limit))


@router.get("/status")
def status(site: SiteOf) -> wire_present.StatusAnswer:
    """How the alerter itself is doing."""
    return answers.status_answer(site.reader.status())
