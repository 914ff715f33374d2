"""What each GPU of an incident wasted, and what all GPUs of its job did."""

import sqlalchemy as sa
from alembic import op

from dutycycle_alerter.store.types import Real

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:

    # In place, as in 0002.
    op.add_column("incident", sa.Column("waste_by_gpu", sa.JSON(), nullable=True))
    op.add_column("incident", sa.Column("job_wasted", Real, nullable=True))


def downgrade() -> None:

    op.drop_column("incident", "job_wasted")
    op.drop_column("incident", "waste_by_gpu")
