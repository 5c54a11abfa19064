"""The tables. Times are epoch milliseconds. Documents are JSON as text, so that decimals keep all digits."""

from __future__ import annotations

from typing import ClassVar, TypedDict

from sqlalchemy import BigInteger, ForeignKeyConstraint, Index, Integer, LargeBinary, MetaData, String, Text, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, synonym

__all__ = [
    "ApprovalRow", "AuditEntry", "Base", "BindingRow", "Fact", "ItemHead", "ItemName", "ListChangeRow",
    "ListExpiry", "ListHead", "OutboxRow", "PositionRow", "RevisionRow", "RuleHead",
]  # fmt: skip

USER_CHARS = 256
LIST_NAME_CHARS = 63
PROGRAM_CHARS = 63
_NAMES = {
    "pk": "pk_%(table_name)s",
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(referred_table_name)s",
}


class Base(DeclarativeBase):
    """All tables of the control plane."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map = {int: BigInteger, str: Text, bytes: LargeBinary}  # noqa: RUF012 -- SQLAlchemy reads a dict


class Fact(Base):
    """A fact about the store as a whole. The fact `store` is the store's id."""

    __tablename__ = "facts"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str]


class ItemName(TypedDict):
    """The name of a governed item, in the columns of the tables that concern items of all kinds. One of them is set."""

    rule_id: int | None
    list_name: str | None


class ItemHead(Base):
    """A governed item at its newest effective revision: a rule or a list. Its text is its name: `rule 7`.

    `last_revision` is the highest number in use. It is above `revision` if a record of another writer came before ours
    in the log and so never took effect. `contributors` (a JSON array of users) changed the content since the last
    approval of it, or of a rule that names the list. `outbox_seq` is the number of the revision's last record in the
    outbox, if this store made the change; `log_version` is the record's offset in the rule log, None while it waits.
    """

    __abstract__ = True

    noun: ClassVar[str]

    revision: Mapped[int]
    last_revision: Mapped[int]
    source: Mapped[str] = mapped_column(String(32))
    contributors: Mapped[str]
    updated_at_ms: Mapped[int]
    updated_by: Mapped[str] = mapped_column(String(USER_CHARS))
    outbox_seq: Mapped[int | None] = mapped_column(index=True)
    log_version: Mapped[int | None]
    approval_id: Mapped[int | None] = mapped_column(Integer)

    @property
    def item(self) -> ItemName:
        """The name of the item."""
        raise NotImplementedError


class RuleHead(ItemHead):
    """A rule. `author` wrote the document."""

    __tablename__ = "rules"
    noun = "rule"

    rule_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[str] = mapped_column(String(8), index=True)
    document: Mapped[str]
    search: Mapped[str]
    author: Mapped[str] = mapped_column(String(USER_CHARS))

    @property
    def item(self) -> ItemName:
        """The id of the rule."""
        return {"rule_id": self.rule_id, "list_name": None}

    def __str__(self) -> str:
        return f"rule {self.rule_id}"


class RevisionRow(Base):
    """A revision of a rule. After the insert, only its offset in the log changes."""

    __tablename__ = "revisions"

    rule_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[str] = mapped_column(String(8))
    document: Mapped[str]
    source: Mapped[str] = mapped_column(String(32))
    author: Mapped[str] = mapped_column(String(USER_CHARS))
    content_author: Mapped[str] = mapped_column(String(USER_CHARS))
    contributors: Mapped[str]
    at_ms: Mapped[int]
    comment: Mapped[str]
    outbox_seq: Mapped[int | None] = mapped_column(index=True)
    log_version: Mapped[int | None]


class ListHead(ItemHead):
    """A list of values. `size` is the number of its values."""

    __tablename__ = "lists"
    noun = "list"

    name: Mapped[str] = mapped_column(String(LIST_NAME_CHARS), primary_key=True)
    last_revision: Mapped[int] = synonym("revision")
    type: Mapped[str] = mapped_column(String(8))
    deleted: Mapped[bool]
    size: Mapped[int]

    @property
    def item(self) -> ItemName:
        """The name of the list."""
        return {"rule_id": None, "list_name": self.name}

    def __str__(self) -> str:
        return f"list {self.name}"


class ListChangeRow(Base):
    """One record of a change of a list; a long change consists of several parts. The values of a list follow from the
    records in the order of the rule log. After the insert, only the offset in the log changes.

    `record_operation` is the operation of the record, `operation` that of the whole change. `encoded` has the record's
    values as a JSON array. `added` and `removed` count the values that the whole change adds and removes; only part 0
    has them. `author` made the change, and `content_author` wrote its values.
    """

    __tablename__ = "list_changes"
    __table_args__ = (Index("ix_list_changes_order", "name", "log_version"),)

    name: Mapped[str] = mapped_column(String(LIST_NAME_CHARS), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    part: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    operation: Mapped[str] = mapped_column(String(8))
    record_operation: Mapped[str] = mapped_column(String(8))
    type: Mapped[str] = mapped_column(String(8))
    encoded: Mapped[bytes] = mapped_column(deferred=True)
    added: Mapped[int]
    removed: Mapped[int]
    expires_at_ms: Mapped[int | None]
    source: Mapped[str] = mapped_column(String(32))
    author: Mapped[str] = mapped_column(String(USER_CHARS))
    content_author: Mapped[str] = mapped_column(String(USER_CHARS))
    at_ms: Mapped[int]
    comment: Mapped[str]
    outbox_seq: Mapped[int | None] = mapped_column(index=True)
    log_version: Mapped[int | None]


class ListExpiry(Base):
    """A value that leaves its list at a time. `value` is the value as text."""

    __tablename__ = "list_expiries"

    name: Mapped[str] = mapped_column(String(LIST_NAME_CHARS), primary_key=True)
    value: Mapped[str] = mapped_column(primary_key=True)
    at_ms: Mapped[int] = mapped_column(index=True)


class ApprovalRow(Base):
    """A request for approval of a change of a rule or of a list. `author` wrote its document; `contributors` (a JSON
    array of users) changed it since its last approval.

    `payload` has all values of a change of a list as a JSON array. Its `document` has only the first of them. `basis`
    is a JSON object, see `basis`; None for a request of a release without it.
    """

    __tablename__ = "approvals"
    __table_args__ = (
        ForeignKeyConstraint(["rule_id"], ["rules.rule_id"]),
        Index(
            "ix_approvals_open", "id", sqlite_where=text("decision IS NULL"), postgresql_where=text("decision IS NULL")
        ),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    rule_id: Mapped[int | None] = mapped_column(index=True)
    list_name: Mapped[str | None] = mapped_column(String(LIST_NAME_CHARS))
    revision: Mapped[int]
    action: Mapped[str] = mapped_column(String(16))
    target: Mapped[str | None] = mapped_column(String(8))
    document: Mapped[str]
    payload: Mapped[str | None] = mapped_column(deferred=True)
    basis: Mapped[str | None]
    author: Mapped[str] = mapped_column(String(USER_CHARS))
    contributors: Mapped[str]
    requested_by: Mapped[str] = mapped_column(String(USER_CHARS))
    requested_at_ms: Mapped[int]
    comment: Mapped[str]
    decision: Mapped[str | None] = mapped_column(String(16))
    decided_by: Mapped[str | None] = mapped_column(String(USER_CHARS))
    decided_at_ms: Mapped[int | None]
    decision_comment: Mapped[str | None]


class AuditEntry(Base):
    """A row of the audit chain, about a rule, about a list, or about neither. `program` made the change for the user
    `who`; None for a person. Triggers of the database refuse to change or delete the row.
    """

    __tablename__ = "audit"
    __table_args__ = (
        Index("ix_audit_time", "at_ms", "seq"),
        Index("ix_audit_user", "who", "seq"),
        Index("ix_audit_rule", "rule_id", "seq"),
        Index("ix_audit_list", "list_name", "seq"),
        Index("ix_audit_action", "action", "seq"),
    )

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at_ms: Mapped[int]
    who: Mapped[str] = mapped_column(String(USER_CHARS))
    action: Mapped[str] = mapped_column(String(32))
    subject: Mapped[str]
    rule_id: Mapped[int | None]
    list_name: Mapped[str | None] = mapped_column(String(LIST_NAME_CHARS))
    program: Mapped[str | None] = mapped_column(String(PROGRAM_CHARS))
    before: Mapped[str]
    after: Mapped[str]
    previous_hash: Mapped[str] = mapped_column(String(64))
    hash: Mapped[str] = mapped_column(String(64))


class OutboxRow(Base):
    """A record for the rule log; `seq` is its place in the order. `wipes`: the record ends all rules. `audit` names the
    audit row of its change. `log_version` is the record's offset, once it is in the log.
    """

    __tablename__ = "outbox"
    __table_args__ = (
        Index(
            "ix_outbox_waiting",
            "seq",
            sqlite_where=text("log_version IS NULL"),
            postgresql_where=text("log_version IS NULL"),
        ),
    )

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    rule_id: Mapped[int | None] = mapped_column(index=True)
    list_name: Mapped[str | None] = mapped_column(String(LIST_NAME_CHARS))
    revision: Mapped[int | None]
    key: Mapped[bytes]
    value: Mapped[bytes]
    wipes: Mapped[bool] = mapped_column(index=True)
    audit: Mapped[str] = mapped_column(String(96))
    created_ms: Mapped[int]
    log_version: Mapped[int | None]
    published_ms: Mapped[int | None]


class BindingRow(Base):
    """A user's role. A row without a role removes the role that the settings give."""

    __tablename__ = "bindings"

    user: Mapped[str] = mapped_column("user_name", String(USER_CHARS), primary_key=True)
    role: Mapped[str | None] = mapped_column(String(16))
    by: Mapped[str] = mapped_column("bound_by", String(USER_CHARS))
    at_ms: Mapped[int]


class PositionRow(Base):
    """The position of a reader: it has processed all records below `offset` of the topic with Kafka's id `topic_id`."""

    __tablename__ = "positions"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    offset: Mapped[int] = mapped_column("next_offset")
    topic_id: Mapped[str | None] = mapped_column(String(64))
