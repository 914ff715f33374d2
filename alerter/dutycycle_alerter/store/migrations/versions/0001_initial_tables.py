"""Initial tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "gpu_now",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("gpu_uuid", sa.String(), nullable=False),
        sa.Column("mig", sa.String(), nullable=False),
        sa.Column("gpu", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("scraped_at", sa.Float(), nullable=False),
        sa.Column("reading", sa.JSON(), nullable=False),
        sa.Column("workloads", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("node", "gpu_uuid", "mig", name=op.f("pk_gpu_now")),
    )
    op.create_table(
        "gpu_series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("gpu", sa.String(), nullable=False),
        sa.Column("gpu_uuid", sa.String(), nullable=False),
        sa.Column("mig", sa.String(), nullable=False),
        sa.Column("workload", sa.String(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("start", sa.Float(), nullable=True),
        sa.Column("first_process", sa.Float(), nullable=True),
        sa.Column("last_seen", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gpu_series")),
    )
    with op.batch_alter_table("gpu_series", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_gpu_series_last_seen"), ["last_seen"], unique=False)
        batch_op.create_index(batch_op.f("ix_gpu_series_workload"), ["workload"], unique=False)
        batch_op.create_index("uq_gpu_series_key", ["node", "gpu_uuid", "mig", "workload"], unique=True)

    op.create_table(
        "host_counter",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("workload", sa.String(), nullable=False),
        sa.Column("t", sa.Float(), nullable=False),
        sa.Column("cpu_seconds", sa.Float(), nullable=True),
        sa.Column("io_pressure", sa.Float(), nullable=True),
        sa.Column("cpu_pressure", sa.Float(), nullable=True),
        sa.Column("cpu_limit", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("node", "workload", "t", name=op.f("pk_host_counter")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("host_counter", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_host_counter_t"), ["t"], unique=False)

    op.create_table(
        "incident",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("opened_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("known_at", sa.Float(), nullable=False),
        sa.Column("resolved_at", sa.Float(), nullable=True),
        sa.Column("resolution", sa.String(), nullable=True),
        sa.Column("snoozed_until", sa.Float(), nullable=True),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("reopened", sa.Integer(), nullable=False),
        sa.Column("wasted", sa.Float(), nullable=False),
        sa.Column("energy", sa.Float(), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("scheduler", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("partition", sa.String(), nullable=False),
        sa.Column("namespace", sa.String(), nullable=False),
        sa.Column("job_gpus", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.JSON(), nullable=False),
        sa.Column("rules", sa.JSON(), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.Column("diagnosis", sa.JSON(), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("causes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident")),
    )
    with op.batch_alter_table("incident", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_incident_opened_at"), ["opened_at"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_incident_subject_kind_opened_at"), ["subject", "kind", "opened_at"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_incident_user"), ["user"], unique=False)
        batch_op.create_index(
            "uq_incident_active",
            ["subject", "kind"],
            unique=True,
            sqlite_where=sa.text("state != 'resolved'"),
            postgresql_where=sa.text("state != 'resolved'"),
        )

    op.create_table(
        "meta",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "usage_hour",
        sa.Column("hour", sa.Float(), nullable=False),
        sa.Column("job", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("scheduler", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("allocated", sa.Float(), nullable=False),
        sa.Column("observed", sa.Float(), nullable=False),
        sa.Column("busy", sa.Float(), nullable=False),
        sa.Column("energy", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("hour", "job", "model", name=op.f("pk_usage_hour")),
    )
    with op.batch_alter_table("usage_hour", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_usage_hour_user_hour"), ["user", "hour"], unique=False)

    op.create_table(
        "gpu_counter",
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("t", sa.Float(), nullable=False),
        sa.Column("allocated", sa.Float(), nullable=True),
        sa.Column("observed", sa.Float(), nullable=True),
        sa.Column("busy", sa.Float(), nullable=True),
        sa.Column("gap_lt2", sa.Float(), nullable=True),
        sa.Column("gap_2to30", sa.Float(), nullable=True),
        sa.Column("gap_30to600", sa.Float(), nullable=True),
        sa.Column("gap_ge600", sa.Float(), nullable=True),
        sa.Column("energy", sa.Float(), nullable=True),
        sa.Column("share", sa.Float(), nullable=True),
        sa.Column("memory_used", sa.Float(), nullable=True),
        sa.Column("memory_total", sa.Float(), nullable=True),
        sa.Column("processes", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["series_id"], ["gpu_series.id"], name=op.f("fk_gpu_counter_series_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("series_id", "t", name=op.f("pk_gpu_counter")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "incident_event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incident.id"], name=op.f("fk_incident_event_incident_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident_event")),
    )
    with op.batch_alter_table("incident_event", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_incident_event_incident_id"), ["incident_id"], unique=False)


def downgrade() -> None:

    with op.batch_alter_table("incident_event", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_incident_event_incident_id"))

    op.drop_table("incident_event")
    op.drop_table("gpu_counter")
    with op.batch_alter_table("usage_hour", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_usage_hour_user_hour"))

    op.drop_table("usage_hour")
    op.drop_table("meta")
    with op.batch_alter_table("incident", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_incident_active",
            sqlite_where=sa.text("state != 'resolved'"),
            postgresql_where=sa.text("state != 'resolved'"),
        )
        batch_op.drop_index(batch_op.f("ix_incident_user"))
        batch_op.drop_index(batch_op.f("ix_incident_subject_kind_opened_at"))
        batch_op.drop_index(batch_op.f("ix_incident_opened_at"))

    op.drop_table("incident")
    with op.batch_alter_table("host_counter", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_host_counter_t"))

    op.drop_table("host_counter")
    with op.batch_alter_table("gpu_series", schema=None) as batch_op:
        batch_op.drop_index("uq_gpu_series_key")
        batch_op.drop_index(batch_op.f("ix_gpu_series_workload"))
        batch_op.drop_index(batch_op.f("ix_gpu_series_last_seen"))

    op.drop_table("gpu_series")
    op.drop_table("gpu_now")
