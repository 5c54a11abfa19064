"""Who may do what, and what was done."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from fraud_ops.control_plane.domain.roles import Permission, Role
from fraud_ops.control_plane.web.schemas.base import Document, EpochMs, Request, Shape

__all__ = [
    "AuditRow", "AuditVerdict", "Audits", "Binding", "BindingRequest", "Bindings", "Drift", "DriftDifference",
    "DriftSide", "FieldShown", "Me", "SchemaShown",
]  # fmt: skip


class Me(Shape):
    """Who asks. Without a role nothing else here may be read: an admin has to bind one."""

    user: str
    role: Role | None
    four_eyes: bool
    demo: bool
    can: list[Permission]


class FieldShown(Shape):
    """A field of transactions."""

    name: str
    type: str
    nullable: bool
    aliases: list[str]


class SchemaShown(Shape):
    """What rules may be made of; `limits` by name, inclusive."""

    fields: list[FieldShown]
    aggregators: list[str]
    operators: list[str]
    actions: list[str]
    states: list[str]
    members: list[str]
    limits: dict[str, int]


class Binding(Shape):
    """A user's role, and who gave it; null for one that the installation's file gives."""

    user: str
    role: Role
    by: str | None
    at: EpochMs | None


class Bindings(Shape):
    """By user."""

    items: list[Binding]


class BindingRequest(Request):
    """The role a user is to have."""

    role: Role


class AuditRow(Shape):
    """One row of the audit log, chained to the one before by its hash."""

    seq: int
    at: EpochMs
    who: str
    action: str
    subject: str
    before: Any
    after: Any
    previous_hash: str
    hash: str


class Audits(Shape):
    """Newest first; `next` goes into `before`."""

    items: list[AuditRow]
    next: str | None


class AuditVerdict(Shape):
    """Whether the chain is whole."""

    whole: bool
    rows: int
    broken_at: int | None
    head: str = Field(description="The hash of the last row.")


class DriftSide(Shape):
    """A rule as one of the two has it; `version` is its place in the rule log."""

    version: int | None
    document: Document


class DriftDifference(Shape):
    """A rule that the store and the rule log do not agree on, as each has it."""

    rule_id: int
    store: DriftSide | None
    log: DriftSide | None


class Drift(Shape):
    """Whether the store has taken in the whole rule log, and agrees with it."""

    in_step: bool
    settled: bool = Field(description="False while a change of all rules is on its way: then nothing is compared.")
    log_end: int
    store_position: int
    differences: list[DriftDifference]
    outbox_pending: int
    oldest_pending_ms: int | None = Field(description="How long the oldest change has waited, in ms.")
    behind: int = Field(description="Records of others in the rule log that the store has not taken in.")
    behind_since: EpochMs | None = Field(description="The append time of the first of them.")
