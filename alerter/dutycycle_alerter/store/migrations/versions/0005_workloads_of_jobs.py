"""The workloads of which a job is made."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.add_column("incident", sa.Column("workloads", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:

    op.drop_column("incident", "workloads")
