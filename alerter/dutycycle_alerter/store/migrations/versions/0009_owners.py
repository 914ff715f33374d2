"""Whom each workload belongs to."""

import sqlalchemy as sa
from alembic import op

from dutycycle_alerter.store.types import Real

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table(
        "workload_owner",
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("cluster", "workload", "user", "account", "job", "kind")
        ),
        sa.Column("ended_at", Real, nullable=True),
        sa.PrimaryKeyConstraint("cluster", "workload", name=op.f("pk_workload_owner")),
    )


def downgrade() -> None:

    op.drop_table("workload_owner")
