"""How long a workload's GPU was at a low duty cycle."""

import sqlalchemy as sa
from alembic import op

from dutycycle_alerter.store.types import Real

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:

    # In place, as in 0002.
    op.add_column("gpu_counter", sa.Column("low", Real, nullable=True))


def downgrade() -> None:

    op.drop_column("gpu_counter", "low")
