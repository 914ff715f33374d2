"""What GPM, links and throttling say of a workload's GPU; hours of the fleet."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ADDED = ("sm", "tensor", "dram", "throttle_thermal", "throttle_power", "link_bytes", "power_limit")
_FLEET = ("allocated", "unallocated", "drained", "down", "unknown", "pending", "held")


def upgrade() -> None:

    # In place: the table is the largest, and SQLite can add a column that may be empty without copying it.
    for name in _ADDED:
        op.add_column("gpu_counter", sa.Column(name, sa.Float(), nullable=True))
    op.create_table(
        "fleet_hour",
        sa.Column("hour", sa.Float(), nullable=False),
        sa.Column("cluster", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        *(sa.Column(name, sa.Float(), nullable=False) for name in _FLEET),
        sa.PrimaryKeyConstraint("hour", "cluster", "model", name=op.f("pk_fleet_hour")),
    )


def downgrade() -> None:

    op.drop_table("fleet_hour")
    for name in reversed(_ADDED):
        op.drop_column("gpu_counter", name)
