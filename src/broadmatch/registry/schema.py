"""The tables of the signal index. Times are microseconds since 1970 in UTC; texts are found by hashes of them."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()
Number = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up by itself only what is INTEGER

signals = Table(
    "signals",
    metadata,
    Column("id", Number, primary_key=True),
    Column("key", String(32), nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("revision", Integer, nullable=False),
)
versions = Table(
    "versions",
    metadata,
    Column("id", Number, primary_key=True),
    Column("signal", Number, ForeignKey("signals.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("settings", JSON, nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("replacement", Number, ForeignKey("versions.id")),
    Column("by_date", BigInteger),
    Column("reason", Text, nullable=False),
    Column("platforms", JSON, nullable=False),
    Column("domains", JSON, nullable=False),
    Column("data", JSON, nullable=False),
    Column("created", BigInteger, nullable=False),
    UniqueConstraint("signal", "number", name="versions_of_a_signal"),
)
models = Table(
    "models",
    metadata,
    Column("id", Number, primary_key=True),
    Column("key", String(32), nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("contact", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("first_seen", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Column("last_training", BigInteger),
    Column("last_serving", BigInteger),
)
edges = Table(
    "edges",
    metadata,
    Column("version", Number, ForeignKey("versions.id"), primary_key=True),
    Column("model", Number, ForeignKey("models.id"), primary_key=True),
    Column("use", String(8), primary_key=True),
    Column("first_seen", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Column("coverage", Float),
    Index("edges_of_a_model", "model"),
    sqlite_with_rowid=False,
)
vettings = Table(
    "vettings",
    metadata,
    Column("id", Number, primary_key=True),
    Column("version", Number, ForeignKey("versions.id"), nullable=False, index=True),
    Column("time", BigInteger, nullable=False),
    Column("passed", Boolean, nullable=False),
    Column("report", JSON, nullable=False),
)
notices = Table(
    "notices",
    metadata,
    Column("id", Number, primary_key=True),
    Column("key", String(32), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("recipient", Text, nullable=False),
    Column("message", JSON, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("claimed", BigInteger),
    Column("sent", BigInteger, index=True),
)
audit = Table(
    "audit",
    metadata,
    Column("id", Number, primary_key=True),
    Column("key", String(32), unique=True),
    Column("time", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("signal", Number, ForeignKey("signals.id"), index=True),
    Column("before", JSON),
    Column("after", JSON),
)
