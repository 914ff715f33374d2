"""The outbox of notifications, what people expect and do not want to hear, and more of what usage was like."""

import sqlalchemy as sa
from alembic import op

from dutycycle_alerter.store.types import Name, Number, Real, Words

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_DELIVERY_WAITS = sa.text("sent_at IS NULL AND failed_at IS NULL")
_NOTICE_WAITS = sa.text("delivery_id IS NULL AND dropped IS NULL")


def upgrade() -> None:

    op.create_table(
        "delivery",
        sa.Column("id", Number, nullable=False),
        sa.Column("key", Name, nullable=False),
        sa.Column("receiver", Name, nullable=False),
        sa.Column("audience", Name, nullable=False),
        sa.Column("user", Name, nullable=False),
        sa.Column("kind", Name, nullable=False),
        sa.Column("at", Real, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", Real, nullable=False),
        sa.Column("sent_at", Real),
        sa.Column("failed_at", Real),
        sa.Column("error", Words, nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_delivery"),
        sa.UniqueConstraint("key", name="uq_delivery_key"),
    )
    op.create_index(
        "ix_delivery_waiting",
        "delivery",
        ["receiver"],
        sqlite_where=_DELIVERY_WAITS,
        postgresql_where=_DELIVERY_WAITS,
    )
    op.create_index("ix_delivery_receiver_audience_user_at", "delivery", ["receiver", "audience", "user", "at"])
    op.create_index("ix_delivery_at", "delivery", ["at"])
    op.create_table(
        "notice",
        sa.Column("id", Number, nullable=False),
        sa.Column("receiver", Name, nullable=False),
        sa.Column("audience", Name, nullable=False),
        sa.Column("user", Name, nullable=False),
        sa.Column("bundle", Name, nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("news", Name, nullable=False),
        sa.Column("at", Real, nullable=False),
        sa.Column("actor", Name, nullable=False),
        sa.Column("text", Words, nullable=False),
        sa.Column("due_at", Real, nullable=False),
        sa.Column("digest", Name, nullable=False),
        sa.Column("delivery_id", Number),
        sa.Column("dropped", Name),
        sa.PrimaryKeyConstraint("id", name="pk_notice"),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"], name="fk_notice_incident_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["delivery_id"], ["delivery.id"], name="fk_notice_delivery_id", ondelete="CASCADE"),
    )
    op.create_index("ix_notice_incident_id", "notice", ["incident_id"])
    op.create_index("ix_notice_delivery_id", "notice", ["delivery_id"])
    op.create_index(
        "ix_notice_waiting",
        "notice",
        ["receiver", "due_at"],
        sqlite_where=_NOTICE_WAITS,
        postgresql_where=_NOTICE_WAITS,
    )
    op.create_table(
        "thread",
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("receiver", Name, nullable=False),
        sa.Column("audience", Name, nullable=False),
        sa.Column("user", Name, nullable=False),
        sa.Column("reference", sa.JSON(), nullable=False),
        sa.Column("told_at", Real, nullable=False),
        sa.PrimaryKeyConstraint("incident_id", "receiver", "audience", "user", name="pk_thread"),
        sa.ForeignKeyConstraint(["incident_id"], ["incident.id"], name="fk_thread_incident_id", ondelete="CASCADE"),
    )
    op.create_table(
        "expectation",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("scope", Name, nullable=False),
        sa.Column("cluster", Name, nullable=False),
        sa.Column("subject", Name, nullable=False),
        sa.Column("rules", sa.JSON(), nullable=False),
        sa.Column("reason", Words, nullable=False),
        sa.Column("actor", Name, nullable=False),
        sa.Column("at", Real, nullable=False),
        sa.Column("expires_at", Real, nullable=False),
        sa.Column("incident_id", sa.Integer()),
        sa.Column("withdrawn_at", Real),
        sa.Column("withdrawn_by", Name, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name="pk_expectation"),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incident.id"], name="fk_expectation_incident_id", ondelete="SET NULL"
        ),
    )
    op.create_index("ix_expectation_incident_id", "expectation", ["incident_id"])
    op.create_index("ix_expectation_expires_at", "expectation", ["expires_at"])
    op.create_table(
        "mute",
        sa.Column("receiver", Name, nullable=False),
        sa.Column("user", Name, nullable=False),
        sa.Column("at", Real, nullable=False),
        sa.PrimaryKeyConstraint("receiver", "user", name="pk_mute"),
    )
    op.add_column("usage_hour", sa.Column("idle", Real))
    op.add_column("usage_hour", sa.Column("spread", Real))
    op.add_column("fleet_hour", sa.Column("waited", Real))


def downgrade() -> None:

    op.drop_column("fleet_hour", "waited")
    op.drop_column("usage_hour", "spread")
    op.drop_column("usage_hour", "idle")
    for table in ("mute", "expectation", "thread", "notice", "delivery"):
        op.drop_table(table)
