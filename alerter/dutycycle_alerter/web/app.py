"""The web application, put together from its routes; it knows the store only as `Reader` and `Actions`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import tzinfo
from typing import Any

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles

from dutycycle_alerter import __version__
from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.scheduler import TaskRuns
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.views import Actions, Reader, Standing, WatchCounts
from dutycycle_alerter.web import api, changes, errors, metrics, pages
from dutycycle_alerter.web.guard import Guard
from dutycycle_alerter.web.site import Site, SiteOf
from dutycycle_alerter.web.templating import STATIC


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
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """The page and the API.

    `names` are the configured names under which a proxy serves the site (`web.allowed_hosts`); `hosts` are further
    names that a request may be for, such as the one listened on. IP addresses and localhost are always answered.
    Times of day are shown in `zone` (None: the machine's). A page warns when the last pass is older than `late_after`
    wall seconds. `tasks` tells how the alerter's periodic work fares, `standing` whether it is this one that evaluates,
    `watches` what it hears of schedulers.
    """
    names = frozenset(name.lower() for name in names)
    app = FastAPI(
        title="Dutycycle",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    site = Site(
        reader,
        actions,
        clock=clock,
        zone=zone,
        costs=costs or Costs(),
        late_after=late_after,
        names=names,
        tasks=tasks,
        standing=standing,
        watches=watches,
    )
    app.state.site = site
    errors.install(app, site)
    app.include_router(pages.router)
    app.include_router(changes.router)
    app.include_router(api.router)
    app.include_router(metrics.router)
    app.add_api_route("/-/healthy", _healthy, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/-/ready", _ready, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/static", _Static(directory=STATIC), name="static")
    app.add_middleware(Guard, hosts=(*names, *hosts))
    return app


class _Static(StaticFiles):
    """Files whose address changes with their content, so that a browser need not ask twice."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        """The file, to be kept."""
        response = super().file_response(*args, **options)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def _healthy() -> PlainTextResponse:
    """The process answers."""
    return PlainTextResponse("healthy\n")


def _ready(site: SiteOf) -> PlainTextResponse:
    """The store answers too. Who does not evaluate is ready all the same: it shows what there is, and says so."""
    try:
        status = site.reader.status()
    except AlerterError as error:
        return PlainTextResponse(f"not ready: {error}\n", 503)
    late = ""
    if site.late(status):
        late = "no pass yet" if status.last_pass is None else f"the last pass is {site.age(status):.0f} s old"
    return PlainTextResponse("\n".join(filter(None, ["ready", site.role(status), late, site.left()])) + "\n")
