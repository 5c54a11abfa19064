"""Read models of lists, and the input of a change of a list. Values are texts, so that no client rounds a long."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import Approval, EpochMs, ImportEffect, ProblemReason, ReadModel
from fraud_rules.model.value_list import ListOperation, ListType

__all__ = [
    "CollectionDiff",
    "CollectionImportItem",
    "CollectionImportResult",
    "CollectionInput",
    "CollectionRevision",
    "CollectionUse",
    "ListedValue",
    "StoredList",
]


@dataclass(frozen=True, slots=True)
class CollectionInput:
    """A change of a list as a user enters it.

    `type` is for a new list only. With `expires_at_ms`, the values leave the list at this time, in epoch ms.
    `lines` are the lines of the values in a text, empty for values without a text.
    """

    operation: ListOperation
    values: tuple[str, ...] = ()
    type: ListType | None = None
    expires_at_ms: int | None = None
    lines: tuple[int, ...] = ()


class CollectionUse(ReadModel):
    """A rule that names a list."""

    rule_id: int
    name: str | None
    state: StateName


class StoredList(ReadModel):
    """A list in the store, with all its changes.

    `log_version` is the list's version in the rule log, None until the newest change reaches the log. `pending` is the
    open request for approval.
    """

    name: str
    type: ListType
    size: int
    revision: int
    source: str
    updated_at_ms: EpochMs = Field(serialization_alias="updatedAt")
    updated_by: str
    published: bool = Field(description="False only while the newest change waits for the rule log.")
    rules: list[CollectionUse] = Field(description="The rules that name the list, drafts too.")
    expiring: int = Field(description="The number of values that expire.")
    next_expiry_ms: EpochMs | None = Field(serialization_alias="nextExpiry")
    log_version: int | None = Field(exclude=True)
    pending: Approval | None = Field(exclude=True)


class ListedValue(ReadModel):
    """A value of a list, with the time at which it leaves the list."""

    value: str
    expires_at_ms: EpochMs | None = Field(serialization_alias="expiresAt")


class CollectionRevision(ReadModel):
    """A change of a list. `added` and `removed` count the values that it added and removed.

    `log_version` is the offset of its last record in the rule log, None before the record arrives.
    """

    revision: int
    operation: ListOperation
    added: int
    removed: int
    expires_at_ms: EpochMs | None = Field(serialization_alias="expiresAt")
    author: str
    at_ms: EpochMs = Field(serialization_alias="at")
    comment: str
    source: str
    log_version: int | None


class CollectionDiff(ReadModel):
    """The values that a change adds and removes: their numbers, and the first of them."""

    added: int
    removed: int
    added_values: list[str]
    removed_values: list[str]


class CollectionImportItem(ReadModel):
    """The effect of one list of the file: the values that the list gains and loses. `revision` is the revision of the
    list before the import, 0 for a new list.
    """

    where: str
    name: str | None
    effect: ImportEffect
    revision: int
    reasons: list[ProblemReason]
    diff: CollectionDiff


class CollectionImportResult(ReadModel):
    """The result of an import, list by list. If one list is rejected, or in a dry run, nothing is applied."""

    items: list[CollectionImportItem]
    applied: bool
