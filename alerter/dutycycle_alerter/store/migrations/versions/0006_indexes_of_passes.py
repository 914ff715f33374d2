"""What each pass asks of incidents that ended."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_CLOSED = sa.text("resolution = 'operator'")


def upgrade() -> None:

    op.create_index("ix_incident_resolved_at", "incident", ["resolved_at"])
    op.create_index("ix_incident_closed", "incident", ["kind"], sqlite_where=_CLOSED, postgresql_where=_CLOSED)


def downgrade() -> None:

    op.drop_index("ix_incident_closed", "incident")
    op.drop_index("ix_incident_resolved_at", "incident")
