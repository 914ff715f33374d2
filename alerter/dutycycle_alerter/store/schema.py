"""The tables. Migrations under `migrations/` build them; a test compares the two.

Times are Unix seconds; durations and energies are wall seconds and joules, as measured (the store belongs to one time
scale, kept in `meta`). JSON columns hold what is only ever read together with its row.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)

from dutycycle_alerter.history import GPU_COUNTERS, GPU_GAUGES, HOST_COUNTERS, HOST_GAUGES

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
    Column("key", String, primary_key=True),
    Column("value", JSON, nullable=False),
)

incident = Table(
    "incident",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("subject", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("rule", String, nullable=False),
    Column("severity", String, nullable=False),
    Column("state", String, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("opened_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("known_at", Float, nullable=False),
    Column("resolved_at", Float),
    Column("resolution", String),
    Column("snoozed_until", Float),
    Column("actor", String, nullable=False),
    Column("reopened", Integer, nullable=False),
    Column("wasted", Float, nullable=False),
    Column("energy", Float, nullable=False),
    Column("cluster", String, nullable=False),
    Column("scheduler", String, nullable=False),
    Column("user", String, nullable=False),
    Column("account", String, nullable=False),
    Column("partition", String, nullable=False),
    Column("namespace", String, nullable=False),
    Column("job_gpus", Integer, nullable=False),
    Column("gpus", JSON, nullable=False),
    Column("rules", JSON, nullable=False),
    Column("figures", JSON, nullable=False),
    Column("diagnosis", JSON, nullable=False),
    Column("nodes", Text, nullable=False),
    Column("causes", Text, nullable=False),
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
    Index(None, "user"),
)

event = Table(
    "incident_event",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("incident_id", ForeignKey("incident.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("actor", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("data", JSON, nullable=False),
)

usage_hour = Table(
    "usage_hour",
    metadata,
    Column("hour", Float, primary_key=True),
    Column("job", String, primary_key=True),
    Column("model", String, primary_key=True),
    Column("cluster", String, nullable=False),
    Column("scheduler", String, nullable=False),
    Column("user", String, nullable=False),
    Column("account", String, nullable=False),
    Column("allocated", Float, nullable=False),
    Column("observed", Float, nullable=False),
    Column("busy", Float, nullable=False),
    Column("energy", Float),
    Index(None, "user", "hour"),
)

fleet_hour = Table(
    "fleet_hour",
    metadata,
    Column("hour", Float, primary_key=True),
    Column("cluster", String, primary_key=True),
    Column("model", String, primary_key=True),
    *(
        Column(name, Float, nullable=False)
        for name in ("allocated", "unallocated", "drained", "down", "unknown", "pending", "held")
    ),
)

gpu_series = Table(
    "gpu_series",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("node", String, nullable=False),
    Column("gpu", String, nullable=False),
    Column("gpu_uuid", String, nullable=False),
    Column("mig", String, nullable=False),
    Column("workload", String, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("start", Float),
    Column("first_process", Float),
    Column("last_seen", Float, nullable=False),
    Index("uq_gpu_series_key", "node", "gpu_uuid", "mig", "workload", unique=True),
    Index(None, "workload"),
    Index(None, "last_seen"),
)

gpu_counter = Table(
    "gpu_counter",
    metadata,
    Column("series_id", ForeignKey("gpu_series.id", ondelete="CASCADE"), primary_key=True),
    Column("t", Float, primary_key=True),
    *(Column(name, Float) for name in (*GPU_COUNTERS, *GPU_GAUGES)),
    sqlite_with_rowid=False,
)

host_counter = Table(
    "host_counter",
    metadata,
    Column("node", String, primary_key=True),
    Column("workload", String, primary_key=True),
    Column("t", Float, primary_key=True),
    *(Column(name, Float) for name in (*HOST_COUNTERS, *HOST_GAUGES)),
    Index(None, "t"),
    sqlite_with_rowid=False,
)

gpu_now = Table(
    "gpu_now",
    metadata,
    Column("node", String, primary_key=True),
    Column("gpu_uuid", String, primary_key=True),
    Column("mig", String, primary_key=True),
    Column("gpu", String, nullable=False),
    Column("model", String, nullable=False),
    Column("scraped_at", Float, nullable=False),
    Column("reading", JSON, nullable=False),
    Column("workloads", JSON, nullable=False),
)
