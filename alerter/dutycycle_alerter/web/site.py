"""What the routes share: the store's two faces, the clock, and how a page is rendered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from math import inf
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.scheduler import TaskRuns
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.views import Actions, Reader, Standing, Status, WatchCounts
from dutycycle_alerter.web.templating import Show, environment


@dataclass(frozen=True)
class Site:
    """One application's surroundings; `zone` None is the machine's own. `late_after` is how old, in wall seconds, the
    last pass may be before a page warns. `names` are the configured names of the site, as in the browser's address.
    `tasks` tells how the alerter's periodic work fares, by its name, `standing` whether it evaluates, and `watches`
    what it hears of schedulers.
    """

    reader: Reader
    actions: Actions
    clock: Callable[[], float] = time.time
    zone: tzinfo | None = None
    costs: Costs = field(default_factory=Costs)
    late_after: float = 300.0
    names: frozenset[str] = frozenset()
    tasks: Callable[[], Mapping[str, TaskRuns]] = dict
    standing: Callable[[], Standing | None] = lambda: None
    watches: Callable[[], Mapping[str, WatchCounts]] = dict
    templates: Environment = field(default_factory=environment)

    def page(
        self, request: Request, template: str, status: Status | None, *, status_code: int = 200, **values: Any
    ) -> HTMLResponse:
        """Render a page. Without `status` (the store does not answer) the page has no status strip."""
        now = self.clock()
        text = self.templates.get_template(template).render(
            path=request.url.path,
            status=status,
            show=Show(now, self.zone, status.time_scale if status else 1.0),
            now=now,
            late_after=self.late_after,
            late=status is not None and self.late(status),
            role=self.role(status) if status is not None else "",
            **values,
        )
        return HTMLResponse(text, status_code=status_code)

    def age(self, status: Status) -> float:
        """Wall seconds since the last pass; endless before the first."""
        return inf if status.last_pass is None else self.clock() - status.last_pass

    def late(self, status: Status) -> bool:
        """Whether what is shown may be out of date."""
        return self.age(status) > self.late_after

    def role(self, status: Status) -> str:
        """Who of several alerters evaluates, and which this is; empty where there can be only one."""
        own, other = self.standing(), status.evaluating
        if own is None or not own.shared:
            return ""
        # What was read is newer than what is known here, where its epoch is.
        if own.leads and (other is None or own.epoch is None or other.epoch <= own.epoch):
            return f"{own.replica}, which serves this, evaluates"
        if other is None or other.expires_at <= status.now:
            return f"No alerter evaluates; {own.replica} serves this"
        return f"{other.replica} evaluates; {own.replica} serves this"

    def left(self) -> str:
        """What hangs in this alerter; empty where nothing does."""
        own = self.standing()
        if own is None or not own.left:
            return ""
        return f"what evaluated in {own.left} former terms of {own.replica} has not ended: restart it"

    def error_page(self, request: Request, status_code: int, title: str, text: str, **values: Any) -> HTMLResponse:
        """A page in the same look that says what went wrong and what to do; needs no store."""
        try:
            status = self.reader.status()
        except AlerterError:
            status = None
        return self.page(
            request, "error.html", status, status_code=status_code, title=title, text=text, code=status_code, **values
        )


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


SiteOf = Annotated[Site, Depends(_site)]
"""The site, as a parameter of a route."""

IncidentId = Annotated[int, Path(ge=1, le=2**53)]
"""An incident's number in an address: what JSON and the store can both hold."""
