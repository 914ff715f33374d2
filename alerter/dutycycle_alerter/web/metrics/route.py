"""`/metrics`: every family of the table, as known at the moment of the scrape, with names of people for who may see
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from dutycycle_alerter.errors import AlerterError
from dutycycle_alerter.web.access.visitor import Role
from dutycycle_alerter.web.metrics import incidents, itself, messages, owners
from dutycycle_alerter.web.metrics.building import gauge
from dutycycle_alerter.web.site import OpenSite, Site

router = APIRouter()

_SEE_ALL = (Role.OPERATOR, Role.VIEWER)


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request, site: OpenSite) -> Response:
    """In the text format, or OpenMetrics where the scraper asks for it. Open to everybody, but not all of it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(site, people=site.gate.role(request) in _SEE_ALL))
    encode, content_type = encoder(request.headers.get("accept", ""))
    return Response(encode(registry), headers={"Content-Type": content_type})


def encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """How to write the families for a request with that Accept header, and the content type of that: the text format
    where the header asks for a version that is none.
    """
    try:
        return choose_encoder(accept)
    except TypeError:
        # The client library compares a version's parts with numbers, whatever they are.
        return choose_encoder("")


class _Collector(Collector):
    """While the store does not answer it says so, and what needs no store. With `people`, incidents are named."""

    def __init__(self, site: Site, *, people: bool) -> None:
        self._site = site
        self._people = people

    def describe(self) -> list[Metric]:
        """Nothing: names are fixed, and collecting reads the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every family, also those without a series."""
        site = self._site
        # Once, and first: who waits twice for a store that says nothing waits for longer than a scraper does.
        stored: Sequence[Metric]
        try:
            stored = site.scraped.of(self._people, self._stored)
        except AlerterError:
            stored = ()
        yield from itself.of_process(site)
        yield from messages.delivered(site)
        yield from incidents.outcomes(site, store=bool(stored))
        yield from incidents.price(site)
        store = gauge("dutycycle_alerter_store_up")
        store.add_metric([], 1 if stored else 0)
        yield store
        yield from stored

    def _stored(self) -> list[Metric]:
        site = self._site
        unresolved = incidents.unresolved(site, named=self._people)
        owned = owners.owners(site, named=self._people)
        return [*itself.of_last_pass(site), *unresolved, *messages.waiting(site), *owned]
