"""The tables. Times are epoch milliseconds. Documents are JSON as text, so that decimals keep all digits."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    and_,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName

USER_CHARS = 256
KIND_CHARS = 8
ITEM_KEY_CHARS = 63
STATE_CHARS = 8
PROGRAM_CHARS = 63
ACCOUNT_KEY_CHARS = 64
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


class OfItem:
    """A row about a governed item, which `kind` and `item_key` name. Both are empty in a row about no item."""

    kind: Mapped[str] = mapped_column(String(KIND_CHARS))
    item_key: Mapped[str] = mapped_column(String(ITEM_KEY_CHARS))

    @classmethod
    def concerns(cls, item: ItemName) -> ColumnElement[bool]:
        """Whether a row is about this item, as a condition."""
        return and_(cls.kind == item.kind, cls.item_key == item.key)

    @property
    def item(self) -> ItemName:
        """The name of the item."""
        return ItemName(self.kind, self.item_key)

    @property
    def rule_id(self) -> int | None:
        """The id of the rule; None for a row that is not about a rule."""
        return self.item.rule_id

    @property
    def list_name(self) -> str | None:
        """The name of the list; None for a row that is not about a list."""
        return self.item.list_name

    @property
    def map_name(self) -> str | None:
        """The name of the map; None for a row that is not about a map."""
        return self.item.map_name


class ItemHead(OfItem, Base):
    """A governed item at its newest effective revision. Its text is its name: `rule 7`.

    `document` is the content as JSON, or a summary of a long content; `author` wrote it, and `search` is its text for
    searches. `number` is the key of a kind whose keys are numbers: it orders the items.

    `last_revision` is the highest number in use. It is above `revision` if a record of another writer came before ours
    in the log and so never took effect. `contributors` (a JSON array of users) changed the content since the last
    approval of it, or of a rule that names the list. `outbox_seq` is the number of the revision's last record in the
    outbox, if this store made the change; `log_version` is the record's offset in the rule log, None while it waits.
    """

    __tablename__ = "items"
    __table_args__ = (Index("ix_items_state", "kind", "state"), Index("ix_items_number", "kind", "number"))

    kind: Mapped[str] = mapped_column(String(KIND_CHARS), primary_key=True)
    item_key: Mapped[str] = mapped_column(String(ITEM_KEY_CHARS), primary_key=True)
    number: Mapped[int | None]
    state: Mapped[str] = mapped_column(String(STATE_CHARS))
    document: Mapped[str]
    search: Mapped[str]
    author: Mapped[str] = mapped_column(String(USER_CHARS))
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
    def deleted(self) -> bool:
        """Whether the item is deleted. Its head stays."""
        return self.state == StateName.DELETE.value

    def __str__(self) -> str:
        return str(self.item)


class RevisionRow(OfItem, Base):
    """A revision of an item, or one part of a revision that consists of several records. After the insert, only its
    offset in the log changes.

    `author` made the change, and `content_author` wrote its content. `document` is the content as JSON, or what a
    reader of the history sees of a long content. Such a content follows from the `payload` (values as a JSON array, or
    entries as an object), the `operation` and the `type` of all its records in the order of the rule log. A content
    that is its document has none of these.
    """

    __tablename__ = "item_revisions"
    __table_args__ = (Index("ix_item_revisions_order", "kind", "item_key", "log_version"),)

    kind: Mapped[str] = mapped_column(String(KIND_CHARS), primary_key=True)
    item_key: Mapped[str] = mapped_column(String(ITEM_KEY_CHARS), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    part: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[str] = mapped_column(String(STATE_CHARS))
    document: Mapped[str]
    operation: Mapped[str] = mapped_column(String(8))
    type: Mapped[str] = mapped_column(String(32))
    payload: Mapped[bytes | None] = mapped_column(deferred=True)
    source: Mapped[str] = mapped_column(String(32))
    author: Mapped[str] = mapped_column(String(USER_CHARS))
    content_author: Mapped[str] = mapped_column(String(USER_CHARS))
    contributors: Mapped[str]
    at_ms: Mapped[int]
    comment: Mapped[str]
    outbox_seq: Mapped[int | None] = mapped_column(index=True)
    log_version: Mapped[int | None]


class ExpiryRow(OfItem, Base):
    """A value that leaves its item at a time. `value` is the value as text."""

    __tablename__ = "item_expiries"

    kind: Mapped[str] = mapped_column(String(KIND_CHARS), primary_key=True)
    item_key: Mapped[str] = mapped_column(String(ITEM_KEY_CHARS), primary_key=True)
    value: Mapped[str] = mapped_column(primary_key=True)
    at_ms: Mapped[int] = mapped_column(index=True)


class ApprovalRow(OfItem, Base):
    """A request for approval of a change of an item. `author` wrote its document; `contributors` (a JSON
    array of users) changed it since its last approval.

    `payload` has all values of a change of a list or map as JSON. Its `document` has only the first of them. `basis`
    is a JSON object, see `basis`; None for a request of a release without it. `prediction` is a `Prediction` as JSON,
    once the what-if of the requested rule has ended.
    """

    __tablename__ = "approvals"
    __table_args__ = (
        ForeignKeyConstraint(["kind", "item_key"], ["items.kind", "items.item_key"]),
        Index("ix_approvals_item", "kind", "item_key"),
        Index(
            "ix_approvals_open", "id", sqlite_where=text("decision IS NULL"), postgresql_where=text("decision IS NULL")
        ),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    revision: Mapped[int]
    action: Mapped[str] = mapped_column(String(16))
    target: Mapped[str | None] = mapped_column(String(8))
    document: Mapped[str]
    payload: Mapped[str | None] = mapped_column(deferred=True)
    basis: Mapped[str | None]
    prediction: Mapped[str | None]
    author: Mapped[str] = mapped_column(String(USER_CHARS))
    contributors: Mapped[str]
    requested_by: Mapped[str] = mapped_column(String(USER_CHARS))
    requested_at_ms: Mapped[int]
    comment: Mapped[str]
    decision: Mapped[str | None] = mapped_column(String(16))
    decided_by: Mapped[str | None] = mapped_column(String(USER_CHARS))
    decided_at_ms: Mapped[int | None]
    decision_comment: Mapped[str | None]


class AuditEntry(OfItem, Base):
    """A row of the audit chain, about an item or about none. `program` made the change for the user
    `who`; None for a person. Triggers of the database refuse to change or delete the row.
    """

    __tablename__ = "audit"
    __table_args__ = (
        Index("ix_audit_time", "at_ms", "seq"),
        Index("ix_audit_user", "who", "seq"),
        Index("ix_audit_item", "kind", "item_key", "seq"),
        Index("ix_audit_action", "action", "seq"),
    )

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at_ms: Mapped[int]
    who: Mapped[str] = mapped_column(String(USER_CHARS))
    action: Mapped[str] = mapped_column(String(32))
    subject: Mapped[str]
    program: Mapped[str | None] = mapped_column(String(PROGRAM_CHARS))
    before: Mapped[str]
    after: Mapped[str]
    previous_hash: Mapped[str] = mapped_column(String(64))
    hash: Mapped[str] = mapped_column(String(64))


class OutboxRow(OfItem, Base):
    """A record for the rule log; `seq` is its place in the order. `wipes`: the record ends all rules. `audit` names the
    audit row of its change. `log_version` is the record's offset, once it is in the log.
    """

    __tablename__ = "outbox"
    __table_args__ = (
        Index("ix_outbox_item", "kind", "item_key"),
        Index(
            "ix_outbox_waiting",
            "seq",
            sqlite_where=text("log_version IS NULL"),
            postgresql_where=text("log_version IS NULL"),
        ),
    )

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int | None]
    key: Mapped[bytes]
    value: Mapped[bytes]
    wipes: Mapped[bool] = mapped_column(index=True)
    audit: Mapped[str] = mapped_column(String(96))
    created_ms: Mapped[int]
    log_version: Mapped[int | None]
    published_ms: Mapped[int | None]


class AccountRow(Base):
    """An account. `key` is the digest of issuer and id, `user` names its user in all tables, and `name` is its newest
    login name.
    """

    __tablename__ = "accounts"

    key: Mapped[str] = mapped_column("account_key", String(ACCOUNT_KEY_CHARS), primary_key=True)
    user: Mapped[str] = mapped_column("user_name", String(USER_CHARS), unique=True, index=True)
    name: Mapped[str] = mapped_column(String(USER_CHARS))
    at_ms: Mapped[int]


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
