"""The tables as they were at first: signals, versions, models, edges, vettings, notices, audit."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision: str | None = None

_Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    _signals()
    _models()
    _events()


def _signals() -> None:
    op.create_table(
        "signals",
        sa.Column("id", _Number, primary_key=True),
        sa.Column("key", sa.String(32), nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("name", "owner", "description", "made_by")),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.create_table(
        "versions",
        sa.Column("id", _Number, primary_key=True),
        sa.Column("signal", _Number, sa.ForeignKey("signals.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("replacement", _Number, sa.ForeignKey("versions.id")),
        sa.Column("by_date", sa.BigInteger),
        sa.Column("reason", sa.Text, nullable=False),
        *(sa.Column(name, sa.JSON, nullable=False) for name in ("platforms", "domains", "data")),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("signal", "number", name="versions_of_a_signal"),
    )


def _models() -> None:
    op.create_table(
        "models",
        sa.Column("id", _Number, primary_key=True),
        sa.Column("key", sa.String(32), nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("name", "team", "environment", "contact")),
        sa.Column("active", sa.Boolean, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("first_seen", "last_seen")),
    )
    op.create_table(
        "edges",
        sa.Column("version", _Number, sa.ForeignKey("versions.id"), primary_key=True),
        sa.Column("model", _Number, sa.ForeignKey("models.id"), primary_key=True),
        sa.Column("use", sa.String(8), primary_key=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("first_seen", "last_seen")),
        sa.Column("coverage", sa.Float),
        sa.Index("edges_of_a_model", "model"),
        sqlite_with_rowid=False,
    )


def _events() -> None:
    op.create_table(
        "vettings",
        sa.Column("id", _Number, primary_key=True),
        sa.Column("version", _Number, sa.ForeignKey("versions.id"), nullable=False, index=True),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("report", sa.JSON, nullable=False),
    )
    op.create_table(
        "notices",
        sa.Column("id", _Number, primary_key=True),
        sa.Column("key", sa.String(32), nullable=False, unique=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("recipient", sa.Text, nullable=False),
        sa.Column("message", sa.JSON, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("claimed", sa.BigInteger),
        sa.Column("sent", sa.BigInteger, index=True),
    )
    op.create_table(
        "audit",
        sa.Column("id", _Number, primary_key=True),
        sa.Column("key", sa.String(32), unique=True),
        sa.Column("time", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("who", "what")),
        sa.Column("signal", _Number, sa.ForeignKey("signals.id"), index=True),
        *(sa.Column(name, sa.JSON) for name in ("before", "after")),
    )
