"""When each model last reported for each use: what it did not report then, it no longer consumes."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision: str | None = "1"


def upgrade() -> None:
    """Add the times, as the edges have them."""
    for use in ("training", "serving"):
        op.add_column("models", sa.Column(f"last_{use}", sa.BigInteger))
        latest = f"SELECT max(last_seen) FROM edges WHERE model = models.id AND use = '{use}'"  # noqa: S608
        op.execute(f"UPDATE models SET last_{use} = ({latest})")  # noqa: S608 - words of ours
