"""The pages: incidents, one incident, what was intended, users, GPUs. They only read; `changes` has forms' targets."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse

from dutycycle_alerter.bill import bill
from dutycycle_alerter.choices import StateChoice
from dutycycle_alerter.fleet import count_gpus, doing, empty, incomplete, none_listed, unallocated_use
from dutycycle_alerter.incidents.model import Severity
from dutycycle_alerter.settings import Rules
from dutycycle_alerter.usage import hours_histogram, median_percent, users_histogram, users_under
from dutycycle_alerter.views import GpuNow
from dutycycle_alerter.web import charts, forms
from dutycycle_alerter.web.lists import PAGE_SIZE, ExpectationsQuery, GpusQuery, IncidentQuery, Pager, Range, UsersQuery
from dutycycle_alerter.web.site import IncidentId, SiteOf

NODES_PER_PAGE = 40

READ = ["GET", "HEAD"]

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

ExpectationId = Annotated[int, Path(ge=1, le=2**31 - 1)]
"""An expectation's number in an address."""


class Notice(StrEnum):
    """What a form just did."""

    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    RESOLVED = "resolved"
    INTENDED = "intended"


@router.api_route("/", methods=READ)
def incidents(request: Request, site: SiteOf, query: Annotated[IncidentQuery, Query()]) -> HTMLResponse:
    """The list of incidents, and the fleet in one line."""
    status = site.reader.status()
    rows, total = site.reader.incidents(query.wanted(query.state), limit=PAGE_SIZE, offset=(query.page - 1) * PAGE_SIZE)
    counts = {
        choice: total if choice is query.state else site.reader.incidents(query.wanted(choice), limit=1)[1]
        for choice in (StateChoice.ACTIVE, StateChoice.RESOLVED, StateChoice.ALL)
    }
    return site.page(
        request,
        "incidents.html",
        status,
        query=query,
        rows=rows,
        pager=Pager(query.page, total),
        counts=counts,
        choices=list(StateChoice),
        # A rule that only old incidents or old links know stays choosable.
        rules=list(dict.fromkeys((*Rules.model_fields, *filter(None, [query.rule])))),
        severities=sorted(Severity, key=lambda severity: -severity.rank),
        gpus=count_gpus(site.reader.gpus()),
        empty=empty,
        incomplete=incomplete(status),
    )


@router.api_route("/incidents/{incident_id:int}", methods=READ)
def incident(request: Request, site: SiteOf, incident_id: IncidentId, done: Notice | None = None) -> HTMLResponse:
    """One incident: what, since when, why, what to do, and the forms."""
    status, now = site.reader.status(), site.clock()
    found = site.incident(incident_id)
    events = site.reader.events(incident_id)
    return site.page(
        request,
        "incident.html",
        status,
        incident=found,
        events=events,
        bill=bill(found, site.costs, now=now, time_scale=status.time_scale),
        plot=charts.gpu_rows(
            site.reader.series(found, until=now, most=charts.MAX_ROWS),
            incident=found,
            concerned=frozenset(found.gpus),
            zone=site.zone,
        ),
        snoozes=forms.SNOOZES,
        lastings=forms.lastings(site.limits.longest),
        of_users=site.limits.of_users and bool(found.user),
        intends=site.intends and found.about == "job",
        name=forms.remembered_name(request),
        done=done,
    )


@router.api_route("/expectations", methods=READ)
def expectations(request: Request, site: SiteOf, query: Annotated[ExpectationsQuery, Query()]) -> HTMLResponse:
    """What people marked as intended, and the forms that take it back."""
    status = site.reader.status()
    found = site.reader.expectations(current=query.current)
    pager = Pager(query.page, len(found))
    return site.page(
        request,
        "expectations.html",
        status,
        query=query,
        rows=pager.cut(found),
        pager=pager,
        name=forms.remembered_name(request),
    )


@router.api_route("/users", methods=READ)
def users(request: Request, site: SiteOf, query: Annotated[UsersQuery, Query()]) -> HTMLResponse:
    """Who uses how much, and how well."""
    status, until = site.reader.status(), site.clock()
    everyone = site.reader.users(since=until - query.range.seconds / status.time_scale, until=until)
    bins = users_histogram(everyone)
    pager = Pager(query.page, len(everyone))
    return site.page(
        request,
        "users.html",
        status,
        query=query,
        ranges=list(Range),
        rows=pager.cut(everyone),
        pager=pager,
        measured=sum(bins),
        low=users_under(everyone),
        median=median_percent(everyone),
        allocated=sum(user.allocated for user in everyone),
        observed=sum(user.observed for user in everyone),
        busy=sum(user.busy for user in everyone),
        wasted=sum(user.wasted for user in everyone),
        histogram=charts.users_histogram(bins),
        empty=empty,
        weighted=charts.hours_histogram(hours_histogram(everyone)),
    )


@router.api_route("/gpus", methods=READ)
def gpus(request: Request, site: SiteOf, query: Annotated[GpusQuery, Query()]) -> HTMLResponse:
    """Every GPU at its last scrape, by node."""
    status, everything = site.reader.status(), site.reader.gpus()
    nodes: dict[str, list[GpuNow]] = {}
    for gpu in everything:
        nodes.setdefault(gpu.gpu.node, []).append(gpu)
    pager = Pager(query.page, len(nodes), NODES_PER_PAGE)
    return site.page(
        request,
        "gpus.html",
        status,
        query=query,
        counts=count_gpus(everything),
        nodes=[(node, nodes[node]) for node in pager.cut(list(nodes))],
        pager=pager,
        none_listed=none_listed(status),
        doing=doing,
        unallocated_use=unallocated_use,
        cells=charts.gpu_cells,
    )
