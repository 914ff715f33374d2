"""More events than a number of four bytes counts."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _to("BIGINT")


def downgrade() -> None:
    _to("INTEGER")


def _to(kind: str) -> None:
    # SQLite's numbers are eight bytes wide whatever they are called.
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.text(f"ALTER TABLE incident_event ALTER COLUMN id TYPE {kind}"))
        op.execute(sa.text(f"ALTER SEQUENCE incident_event_id_seq AS {kind}"))
