"""The alerter's own state, written by every pass and scrape, read by whoever shows it."""

from __future__ import annotations

from dataclasses import asdict

import sqlalchemy as sa

from dutycycle_alerter.store.database import get_meta, set_meta
from dutycycle_alerter.store.lease import load_evaluating
from dutycycle_alerter.views import NotEvaluable, Status, TargetStatus

STATUS = "status"
WATERMARK = "accounted_until"
"""Key of the instant up to which the ledger has the jobs' consumption."""
TOTAL = "accounted_total"
"""Key of what all counters that the ledger is made from said together at that instant, in seconds."""


def save_status(connection: sa.Connection, status: Status, *, stale_after: float) -> None:
    """Keep the state. `stale_after` is the age in wall seconds at which a GPU's readings are no longer shown."""
    data = asdict(status) | {"stale_after": stale_after}
    # Who reads it knows these better.
    del data["now"], data["evaluating"]
    set_meta(connection, STATUS, data)


def load_status(connection: sa.Connection, now: float) -> Status:
    """The state as last kept; before the first pass, one that says so."""
    data = get_meta(connection, STATUS) or {}
    return Status(
        now=now,
        time_scale=float(data.get("time_scale") or get_meta(connection, "time_scale") or 1.0),
        replay=bool(data.get("replay", False)),
        last_pass=data.get("last_pass"),
        first_verdict_at=data.get("first_verdict_at"),
        jobs_judged=int(data.get("jobs_judged", 0)),
        targets=tuple(TargetStatus(**target) for target in data.get("targets", ())),
        not_evaluable=tuple(NotEvaluable(**item) for item in data.get("not_evaluable", ())),
        notices=tuple(data.get("notices", ())),
        evaluating=load_evaluating(connection),
        lists_gpus=bool(data.get("lists_gpus", True)),
    )


def mark_replay(connection: sa.Connection) -> None:
    """Say that this store is filled from a replay, before the first pass can."""
    set_meta(connection, STATUS, (get_meta(connection, STATUS) or {}) | {"replay": True})
