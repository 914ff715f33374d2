"""Reports of the ledger in the JSON API: the same shapes as `dutycycle report --format json`.

Who may see only what is theirs has reports on themselves.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from dutycycle_alerter.reports import shapes
from dutycycle_alerter.reports.model import Asked, Kind
from dutycycle_alerter.views import Status
from dutycycle_alerter.web.api import LookBack, Text
from dutycycle_alerter.web.describing import READING, SECURED
from dutycycle_alerter.web.site import Site, SiteOf

router = APIRouter(prefix="/api/v1/reports", tags=["v1"], responses=READING, dependencies=SECURED)

_MONTH = 30 * 86400.0


Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]
Cluster = Annotated[Text, Query(description="empty is all")]


@router.get("/waste")
def waste(site: SiteOf, since: LookBack = _MONTH, cluster: Cluster = "") -> shapes.WasteAnswer:
    """Where GPU-hours went over a range until now."""
    status = site.reader.status()
    found = site.reader.waste_report(_asked(site, status, Kind.WASTE, since, cluster))
    return shapes.waste_answer(found, site.costs, replay=status.replay)


@router.get("/rules")
def rules(
    site: SiteOf, since: LookBack = _MONTH, cluster: Cluster = "", limit: Limit = 100, offset: Offset = 0
) -> shapes.RulesAnswer:
    """How often rules were right over a range until now."""
    status = site.reader.status()
    found = site.reader.rules_report(_asked(site, status, Kind.RULES, since, cluster))
    return shapes.rules_answer(found, site.costs, replay=status.replay, limit=limit, offset=offset)


@router.get("/{kind}")
def usage(
    site: SiteOf,
    kind: Literal["users", "accounts", "models"],
    since: LookBack = _MONTH,
    cluster: Cluster = "",
    limit: Limit = 100,
    offset: Offset = 0,
) -> shapes.UsageAnswer:
    """Use by user, account or model over a range until now, most wasted GPU-hours first."""
    status = site.reader.status()
    found = site.reader.usage_report(_asked(site, status, Kind(kind), since, cluster))
    return shapes.usage_answer(found, site.costs, replay=status.replay, limit=limit, offset=offset)


def _asked(site: Site, status: Status, kind: Kind, since: float, cluster: str) -> Asked:
    until = site.clock()
    return Asked(kind, until - since / status.time_scale, until, cluster or None)
