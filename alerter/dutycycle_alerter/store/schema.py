"""The tables. Migrations under `migrations/` build them; a test compares the two.

Times are Unix seconds; durations and energies are wall seconds and joules, as measured (the store belongs to one time
scale, kept in `meta`). JSON columns hold what is only ever read together with its row.
"""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, Index, Integer, MetaData, Table, text

from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES, HOST_COUNTERS, HOST_GAUGES
from dutycycle_alerter.store.types import Name, Number, Real, Words

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

meta = Table(
    "meta",
    metadata,
    Column("key", Name, primary_key=True),
    Column("value", JSON, nullable=False),
)

incident = Table(
    "incident",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("subject", Name, nullable=False),
    Column("kind", Name, nullable=False),
    Column("rule", Name, nullable=False),
    Column("severity", Name, nullable=False),
    Column("state", Name, nullable=False),
    Column("started_at", Real, nullable=False),
    Column("opened_at", Real, nullable=False),
    Column("updated_at", Real, nullable=False),
    Column("known_at", Real, nullable=False),
    Column("resolved_at", Real),
    Column("resolution", Name),
    Column("snoozed_until", Real),
    Column("actor", Name, nullable=False),
    Column("reopened", Integer, nullable=False),
    Column("wasted", Real, nullable=False),
    Column("energy", Real, nullable=False),
    Column("waste_by_gpu", JSON),
    Column("job_wasted", Real),
    Column("cluster", Name, nullable=False),
    Column("scheduler", Name, nullable=False),
    Column("user", Name, nullable=False),
    Column("account", Name, nullable=False),
    Column("partition", Name, nullable=False),
    Column("namespace", Name, nullable=False),
    Column("job_gpus", Integer, nullable=False),
    Column("gpus", JSON, nullable=False),
    Column("workloads", JSON, nullable=False, server_default="[]"),
    Column("rules", JSON, nullable=False),
    Column("figures", JSON, nullable=False),
    Column("diagnosis", JSON, nullable=False),
    Column("nodes", Words, nullable=False),
    Column("causes", Words, nullable=False),
    # One active incident per subject and class, whatever the code above does.
    Index(
        "uq_incident_active",
        "subject",
        "kind",
        unique=True,
        sqlite_where=text("state != 'resolved'"),
        postgresql_where=text("state != 'resolved'"),
    ),
    Index(None, "subject", "kind", "opened_at"),
    Index(None, "opened_at"),
    Index(None, "resolved_at"),
    Index(
        "ix_incident_closed",
        "kind",
        sqlite_where=text("resolution = 'operator'"),
        postgresql_where=text("resolution = 'operator'"),
    ),
    Index(None, "user"),
)

event = Table(
    "incident_event",
    metadata,
    Column("id", Number, primary_key=True),
    Column("incident_id", ForeignKey("incident.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("at", Real, nullable=False),
    Column("kind", Name, nullable=False),
    Column("actor", Name, nullable=False),
    Column("text", Words, nullable=False),
    Column("data", JSON, nullable=False),
)

usage_hour = Table(
    "usage_hour",
    metadata,
    Column("hour", Real, primary_key=True),
    Column("job", Name, primary_key=True),
    Column("model", Name, primary_key=True),
    Column("cluster", Name, nullable=False),
    Column("scheduler", Name, nullable=False),
    Column("user", Name, nullable=False),
    Column("account", Name, nullable=False),
    Column("allocated", Real, nullable=False),
    Column("observed", Real, nullable=False),
    Column("busy", Real, nullable=False),
    Column("energy", Real),
    Column("idle", Real),
    Column("spread", Real),
    Index(None, "user", "hour"),
)

fleet_hour = Table(
    "fleet_hour",
    metadata,
    Column("hour", Real, primary_key=True),
    Column("cluster", Name, primary_key=True),
    Column("model", Name, primary_key=True),
    *(
        Column(name, Real, nullable=False)
        for name in ("allocated", "unallocated", "drained", "down", "unknown", "pending", "held")
    ),
    Column("waited", Real),
)

delivery = Table(
    "delivery",
    metadata,
    Column("id", Number, primary_key=True),
    Column("key", Name, nullable=False, unique=True),
    Column("receiver", Name, nullable=False),
    Column("audience", Name, nullable=False),
    Column("user", Name, nullable=False),
    Column("kind", Name, nullable=False),
    Column("at", Real, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_at", Real, nullable=False),
    Column("sent_at", Real),
    Column("failed_at", Real),
    Column("error", Words, nullable=False),
    Column("content", JSON, nullable=False),
    Index(
        "ix_delivery_waiting",
        "receiver",
        sqlite_where=text("sent_at IS NULL AND failed_at IS NULL"),
        postgresql_where=text("sent_at IS NULL AND failed_at IS NULL"),
    ),
    Index(None, "receiver", "audience", "user", "at"),
    Index(None, "at"),
)

notice = Table(
    "notice",
    metadata,
    Column("id", Number, primary_key=True),
    Column("receiver", Name, nullable=False),
    Column("audience", Name, nullable=False),
    Column("user", Name, nullable=False),
    Column("bundle", Name, nullable=False),
    Column("incident_id", ForeignKey("incident.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("news", Name, nullable=False),
    Column("at", Real, nullable=False),
    Column("actor", Name, nullable=False),
    Column("text", Words, nullable=False),
    Column("due_at", Real, nullable=False),
    Column("digest", Name, nullable=False),
    Column("delivery_id", ForeignKey("delivery.id", ondelete="CASCADE"), index=True),
    Column("dropped", Name),
    Index(
        "ix_notice_waiting",
        "receiver",
        "due_at",
        sqlite_where=text("delivery_id IS NULL AND dropped IS NULL"),
        postgresql_where=text("delivery_id IS NULL AND dropped IS NULL"),
    ),
)

thread = Table(
    "thread",
    metadata,
    Column("incident_id", ForeignKey("incident.id", ondelete="CASCADE"), primary_key=True),
    Column("receiver", Name, primary_key=True),
    Column("audience", Name, primary_key=True),
    Column("user", Name, primary_key=True),
    Column("reference", JSON, nullable=False),
    Column("told_at", Real, nullable=False),
)

expectation = Table(
    "expectation",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("scope", Name, nullable=False),
    Column("cluster", Name, nullable=False),
    Column("subject", Name, nullable=False),
    Column("rules", JSON, nullable=False),
    Column("reason", Words, nullable=False),
    Column("actor", Name, nullable=False),
    Column("at", Real, nullable=False),
    Column("expires_at", Real, nullable=False),
    Column("incident_id", ForeignKey("incident.id", ondelete="SET NULL"), index=True),
    Column("withdrawn_at", Real),
    Column("withdrawn_by", Name, nullable=False, server_default=""),
    Index(None, "expires_at"),
)

mute = Table(
    "mute",
    metadata,
    Column("receiver", Name, primary_key=True),
    Column("user", Name, primary_key=True),
    Column("at", Real, nullable=False),
)

lease = Table(
    "lease",
    metadata,
    Column("name", Name, primary_key=True),
    Column("holder", Name, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("length", Real, nullable=False),
    Column("expires_at", Real, nullable=False),
)

gpu_series = Table(
    "gpu_series",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("node", Name, nullable=False),
    Column("gpu", Name, nullable=False),
    Column("gpu_uuid", Name, nullable=False),
    Column("mig", Name, nullable=False),
    Column("workload", Name, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("start", Real),
    Column("first_process", Real),
    Column("last_seen", Real, nullable=False),
    Index("uq_gpu_series_key", "node", "gpu_uuid", "mig", "workload", unique=True),
    Index(None, "workload"),
    Index(None, "last_seen"),
)

gpu_counter = Table(
    "gpu_counter",
    metadata,
    Column("series_id", ForeignKey("gpu_series.id", ondelete="CASCADE"), primary_key=True),
    Column("t", Real, primary_key=True),
    *(Column(name, Real) for name in (*GPU_COUNTERS, *GPU_GAUGES)),
    # Nobody fills it any more. It stays, since upgrades only add: an older alerter may run beside this one.
    Column("throttle_power", Real),
    sqlite_with_rowid=False,
)

host_counter = Table(
    "host_counter",
    metadata,
    Column("node", Name, primary_key=True),
    Column("workload", Name, primary_key=True),
    Column("t", Real, primary_key=True),
    *(Column(name, Real) for name in (*HOST_COUNTERS, *HOST_GAUGES)),
    Index(None, "t"),
    sqlite_with_rowid=False,
)

gpu_now = Table(
    "gpu_now",
    metadata,
    Column("node", Name, primary_key=True),
    Column("gpu_uuid", Name, primary_key=True),
    Column("mig", Name, primary_key=True),
    Column("gpu", Name, nullable=False),
    Column("model", Name, nullable=False),
    Column("scraped_at", Real, nullable=False),
    Column("reading", JSON, nullable=False),
    Column("workloads", JSON, nullable=False),
)

workload_owner = Table(
    "workload_owner",
    metadata,
    Column("cluster", Name, primary_key=True),
    Column("workload", Name, primary_key=True),
    Column("user", Name, nullable=False),
    Column("account", Name, nullable=False),
    Column("job", Name, nullable=False),
    Column("kind", Name, nullable=False),
    Column("ended_at", Real),
)
