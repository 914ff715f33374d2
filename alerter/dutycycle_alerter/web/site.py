"""What the routes share: the store as the visitor may see and change it, the clock, and how a page is rendered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from math import inf
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from dutycycle_alerter.errors import AlerterError, ExpectationNotFoundError, IncidentNotFoundError
from dutycycle_alerter.incidents.model import Incident
from dutycycle_alerter.incidents.tally import Tally
from dutycycle_alerter.notify.links import Links
from dutycycle_alerter.scale import format_duration
from dutycycle_alerter.scheduler import TaskRuns
from dutycycle_alerter.settings import Costs
from dutycycle_alerter.settings.policies import Expectations
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
from dutycycle_alerter.web import forms
from dutycycle_alerter.web.access.gate import Gate
from dutycycle_alerter.web.access.seen import OwnReader
from dutycycle_alerter.web.access.visitor import ForbiddenError, Means, Role, Visitor
from dutycycle_alerter.web.shared import Shared
from dutycycle_alerter.web.templating import Show, environment

NOBODY = Visitor(Role.NONE)
"""Who has not been looked at."""


@dataclass(frozen=True)
class Site:
    """One application's surroundings; `zone` None is the machine's own. `late_after` is how old, in wall seconds, the
    last pass may be before a page warns. `origins` are those of the site's own pages.
    `tasks` tells how the alerter's periodic work fares, by its name, `standing` whether it evaluates, `watches` what
    it hears of schedulers, `failures` what failed of single subjects, by step; `outbox` what waits to be told,
    `deliveries` what became of messages, both by receiver; `tally` what became of incidents, given whether the store
    answers, `unresolved` the newest that are not resolved and how many there are in all (`outbox` and `unresolved` may
    raise AlerterError). `owners` returns the owner of each workload (it may raise AlerterError).
    `scraped` is what scrapes share.
    `base` is the path of the site's public address, before every path of its own; `limits`
    is what may be said to be intended. `visitor` is who asks; `reader` shows what they may see, `unchecked` does what
    anybody may: routes come to it by `acting` and its like.
    """

    reader: Reader
    unchecked: Actions
    gate: Gate
    links: Links
    visitor: Visitor = NOBODY
    base: str = ""
    limits: Expectations = field(default_factory=Expectations)
    clock: Callable[[], float] = time.time
    zone: tzinfo | None = None
    costs: Costs = field(default_factory=Costs)
    late_after: float = 300.0
    origins: forms.Origins = field(default_factory=forms.Origins)
    tasks: Callable[[], Mapping[str, TaskRuns]] = dict
    standing: Callable[[], Standing | None] = lambda: None
    watches: Callable[[], Mapping[str, WatchCounts]] = dict
    failures: Callable[[], Mapping[str, int]] = dict
    outbox: Callable[[], Mapping[str, OutboxDepth]] = dict
    deliveries: Callable[[], Mapping[str, DeliveryCounts]] = dict
    tally: Callable[[bool], Tally] = lambda _: Tally()
    unresolved: Callable[[int], tuple[Sequence[Listed], int]] = lambda _limit: ((), 0)
    owners: Callable[[], Sequence[WorkloadOwner]] = list
    scraped: Shared = field(default_factory=Shared)
    templates: Environment = field(default_factory=environment)

    def seen_by(self, visitor: Visitor) -> Site:
        """The site as this visitor may see it."""
        reader: Reader = OwnReader(self.reader, visitor.name) if visitor.role is Role.OWN else self.reader
        return replace(self, visitor=visitor, reader=reader)

    def incident(self, incident_id: int) -> Incident:
        """One that the visitor may see. Raises IncidentNotFoundError."""
        found = self.reader.incident(incident_id)
        if found is None:
            raise IncidentNotFoundError(incident_id)
        return found

    def acting(self, incident_id: int) -> Actions:
        """What the visitor may do to an incident. Raises ForbiddenError; IncidentNotFoundError for another's."""
        if not self.visitor.acts:
            raise ForbiddenError("you may look, but not change anything")
        if self.visitor.role is Role.OWN:
            self.incident(incident_id)
        return self.unchecked

    @property
    def intends(self) -> bool:
        """Whether the visitor may say what was intended."""
        return self.visitor.role is Role.OPERATOR or (self.visitor.role is Role.OWN and self.limits.owners)

    def intending(self, incident_id: int) -> Actions:
        """As `acting`, to say that it was intended."""
        actions = self.acting(incident_id)
        if not self.intends:
            raise ForbiddenError("at this site, only operators mark incidents as intended: ask one")
        return actions

    def typed(self, name: str, how: str = "not logged in") -> str:
        """The actor that a typed name makes: where people log in, it is not passed off as one of them."""
        return f"{name} ({how})" if self.gate.knows_people else name

    def withdrawing(self, expectation_id: int) -> Actions:
        """As `acting`, of an expectation. Raises ForbiddenError; ExpectationNotFoundError for another's."""
        if not self.visitor.acts:
            raise ForbiddenError("you may look, but not change anything")
        if self.visitor.role is Role.OWN and expectation_id not in {one.id for one in self.reader.expectations()}:
            raise ExpectationNotFoundError(f"there is no expectation {expectation_id}")
        return self.unchecked

    def page(
        self, request: Request, template: str, status: Status | None, *, status_code: int = 200, **values: Any
    ) -> HTMLResponse:
        """Render a page. Without `status` (the store does not answer, or not to this visitor) the page has no status
        strip. Every form in it carries `token`.
        """
        now, token = self.clock(), forms.form_token(request)
        text = self.templates.get_template(template).render(
            path=request.url.path,
            base=self.base,
            visitor=self.visitor,
            logs_in=self.gate.logs_in,
            in_session=self.visitor.means is Means.SESSION,
            token=token,
            status=status,
            show=Show(now, self.zone, status.time_scale if status else 1.0),
            now=now,
            late_after=self.late_after,
            late=status is not None and self.late(status),
            role=self.role(status) if status is not None else "",
            untold=self.untold(),
            **values,
        )
        response = HTMLResponse(text, status_code=status_code)
        if f'value="{token}"' in text:
            forms.remember(response, request, token=token)
        return response

    def age(self, status: Status) -> float:
        """Wall seconds since the last pass; endless before the first."""
        return inf if status.last_pass is None else self.clock() - status.last_pass

    def late(self, status: Status) -> bool:
        """Whether what is shown may be out of date."""
        return self.age(status) > self.late_after

    def failing(self, status: Status) -> bool:
        """Whether this alerter evaluates and every evaluation has failed since the page is out of date."""
        own, runs = self.standing(), self.tasks().get("pass")
        if own is None or not own.leads or runs is None or not runs.failures or not self.late(status):
            return False
        return runs.last_success is None or self.clock() - runs.last_success > self.late_after

    def role(self, status: Status) -> str:
        """Who of several alerters evaluates, and which this is; empty where there can be only one."""
        own, other = self.standing(), status.evaluating
        # To who sees their own jobs only it is no matter which machines the site has.
        if own is None or not own.shared or self.visitor.role is Role.OWN:
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

    def untold(self) -> list[str]:
        """The receivers that have taken nothing for a while, each in a sentence; without what they say."""
        now = self.clock()
        return [
            f"{name} has failed for {format_duration(now - counts.failing_since)}"
            for name, counts in sorted(self.deliveries().items())
            if counts.failing_since is not None and now - counts.failing_since > self.late_after
        ]

    def error_page(self, request: Request, status_code: int, title: str, text: str, **values: Any) -> HTMLResponse:
        """A page in the same look that says what went wrong and what to do; needs no store."""
        try:
            status = None if self.visitor.role is Role.NONE else self.reader.status()
        except AlerterError:
            status = None
        return self.page(
            request, "error.html", status, status_code=status_code, title=title, text=text, code=status_code, **values
        )


def _open(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def _site(request: Request) -> Site:
    site = _open(request)
    # For the page of an error that comes later.
    request.state.visitor = visitor = site.gate.visitor(request)
    return site.seen_by(visitor)


SiteOf = Annotated[Site, Depends(_site)]
"""The site as who asks may see it, as a parameter of a route. Whoever has to log in first is refused."""

OpenSite = Annotated[Site, Depends(_open)]
"""The site without a visitor, for what is open to everybody."""

IncidentId = Annotated[int, Path(ge=1, le=2**53)]
"""An incident's number in an address: what JSON and the store can both hold."""
