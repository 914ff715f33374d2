"""The web application, put together from its routes; it knows the store only as `Reader` and `Actions`."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles

from dutycycle_alerter import __version__
from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.incidents.tally import Tally
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.scheduler import TaskRuns
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.settings.policies import Expectations
from dutycycle_alerter.settings.web import Auth
from dutycycle_alerter.views import (
    Actions,
    DeliveryCounts,
    Listed,
    OutboxDepth,
    Reader,
    Standing,
    Status,
    WatchCounts,
    WorkloadOwner,
)
from dutycycle_alerter.web import api, api_actions, changes, errors, linked, login, metrics, pages, reports
from dutycycle_alerter.web.access.gate import Gate
from dutycycle_alerter.web.describing import describe
from dutycycle_alerter.web.forms import Origins
from dutycycle_alerter.web.guard import Guard
from dutycycle_alerter.web.seldom import Seldom
from dutycycle_alerter.web.site import OpenSite, Site
from dutycycle_alerter.web.templating import STATIC

log = logging.getLogger(__name__)
log.addFilter(Seldom())


def create_app(
    reader: Reader,
    actions: Actions,
    *,
    hosts: Iterable[str] = (),
    names: Iterable[str] = (),
    costs: Costs | None = None,
    zone: tzinfo | None = None,
    late_after: float = 300.0,
    tasks: Callable[[], Mapping[str, TaskRuns]] = dict,
    standing: Callable[[], Standing | None] = lambda: None,
    watches: Callable[[], Mapping[str, WatchCounts]] = dict,
    failures: Callable[[], Mapping[str, int]] = dict,
    outbox: Callable[[], Mapping[str, OutboxDepth]] = dict,
    deliveries: Callable[[], Mapping[str, DeliveryCounts]] = dict,
    tally: Callable[[bool], Tally] = lambda _: Tally(),
    unresolved: Callable[[int], tuple[Sequence[Listed], int]] = lambda _limit: ((), 0),
    owners: Callable[[], Sequence[WorkloadOwner]] = list,
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
    auth: Auth | None = None,
    proxies: Iterable[str] = (),
    key: bytes | None = None,
    public_url: str = "",
    limits: Expectations | None = None,
) -> FastAPI:
    """The page and the API.

    `names` are the configured names under which a proxy serves the site (`web.allowed_hosts`); `hosts` are further
    names that a request may be for, such as the one listened on. IP addresses and localhost are always answered.
    Times of day are shown in `zone` (None: the machine's). A page warns when the last pass is older than `late_after`
    wall seconds. `tasks` tells how the alerter's periodic work fares, `standing` whether it is this one that evaluates,
    `watches` what it hears of schedulers, `outbox` what waits to be told (it may raise AlerterError) and `deliveries`
    what became of messages, by receiver; `failures`, `tally`, `unresolved` and `owners` are for metrics, as
    `Site` has them. Without `auth` everybody may act; `proxies` are networks of those that say from where requests
    come; failed log-ins are counted by `monotonic`. `key` signs sessions, and has signed links (`store.keys`; without
    it, neither outlives the process). `limits` is what may be said to be intended.
    """
    public = urlsplit(public_url)
    names = [name.lower() for name in names]
    key = key or secrets.token_bytes(32)
    gate = Gate(auth or Auth(anonymous="operator"), key, clock, proxies, monotonic=monotonic)
    gate.check()
    app = FastAPI(
        title="Dutycycle",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        # It would lead to an address without the public path.
        redirect_slashes=False,
        servers=[{"url": public.path}] if public.path else None,
    )
    site = Site(
        reader,
        actions,
        clock=clock,
        zone=zone,
        costs=costs or Costs(),
        late_after=late_after,
        origins=Origins(frozenset(names), public.scheme, public.netloc.lower()),
        tasks=tasks,
        standing=standing,
        watches=watches,
        failures=failures,
        outbox=outbox,
        deliveries=deliveries,
        tally=tally,
        unresolved=unresolved,
        owners=owners,
        gate=gate,
        links=Links(public_url, key),
        base=public.path,
        limits=limits or Expectations(),
    )
    app.state.site = site
    errors.install(app, site)
    app.include_router(pages.router)
    app.include_router(changes.router)
    app.include_router(login.router)
    app.include_router(linked.router)
    app.include_router(api.router)
    app.include_router(reports.router)
    app.include_router(api_actions.router)
    app.mount("/static", _Static(directory=STATIC), name="static")
    encrypted = public.netloc.lower() if public.scheme == "https" else ""
    known = (*names, *hosts, *filter(None, [public.netloc]))
    app.add_middleware(Guard, hosts=known, base=public.path, encrypted=encrypted, peers=gate.peers)
    describe(app, gate)
    return app


def create_health_app(page: FastAPI, *, hosts: Iterable[str] = ()) -> FastAPI:
    """Return health and metrics of the page's site, for a server with a thread and an event loop of its own."""
    site: Site = page.state.site
    app = FastAPI(openapi_url=None)
    app.state.site = site
    errors.install(app, site)
    app.include_router(metrics.router)
    app.add_api_route("/-/healthy", _healthy, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/-/ready", _ready, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_middleware(Guard, hosts=hosts, peers=site.gate.peers)
    return app


class _Static(StaticFiles):
    """Files whose address changes with their content, so that a browser need not ask twice."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        """The file, to be kept."""
        response = super().file_response(*args, **options)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


async def _healthy() -> PlainTextResponse:
    """The process answers, also while every thread for pages is taken: it would be restarted for being asked much."""
    return PlainTextResponse("healthy\n")


def _ready(site: OpenSite) -> PlainTextResponse:
    """The store answers, and evaluations of this alerter do not all fail. A follower is ready, too: its page works."""
    try:
        status = site.reader.status()
    except AlerterError as error:
        # Whoever asks: what the error says of the database is for the log.
        log.warning("not ready: %s", error)
        return PlainTextResponse("not ready: the store does not answer\n", 503)
    if site.failing(status):
        return PlainTextResponse(
            f"not ready: evaluations fail, {_last_pass(site, status)}; the log has the reason\n", 503
        )
    late = _last_pass(site, status) if site.late(status) else ""
    return PlainTextResponse(
        "\n".join(filter(None, ["ready", site.role(status), late, site.left(), *site.untold()])) + "\n"
    )


def _last_pass(site: Site, status: Status) -> str:
    return "no pass yet" if status.last_pass is None else f"the last pass is {site.age(status):.0f} s old"
