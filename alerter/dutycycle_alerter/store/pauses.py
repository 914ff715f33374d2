"""Times in which no pass was made: the alerter was away, or its clock was set ahead."""

from __future__ import annotations

import sqlalchemy as sa

from dutycycle_alerter.incidents.unknown import Pauses
from dutycycle_alerter.store.database import get_meta, set_meta
from dutycycle_alerter.store.status import STATUS

KEY = "pauses"
"""Key of the latest pauses between passes."""

_KEPT = 100
"""Pauses that are remembered. Those before count as looked at, so that an alerter whose every pass comes late still
finds that something is lost.
"""


def noted(connection: sa.Connection, now: float, *, longest: float) -> Pauses:
    """The latest pauses of more than `longest` wall seconds between two passes, with the one before this pass.

    Runs in the pass's transaction, before its status is kept. Where the clock was set back, what of a pause lies ahead
    was none: who comes back from a long one with a clock that is ahead was away all the same.
    """
    known = get_meta(connection, KEY) or []
    pauses = [(since, min(until, now)) for since, until in known if since < now]
    last = (get_meta(connection, STATUS) or {}).get("last_pass")
    if last is not None and now - last > longest:
        pauses.append((last, now))
    pauses = pauses[-_KEPT:]
    if pauses != [tuple(one) for one in known]:
        set_meta(connection, KEY, pauses)
    return pauses
