"""Read models of lists and maps, and the input of a change of one. Values are texts, so that no client rounds them."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from fraud_control.domain.read_models import Approval, EpochMs, ImportEffect, ProblemReason, ReadModel, RuleUse
from fraud_rules.model.collection_history import CollectionType
from fraud_rules.model.value_list import ListOperation, ListType
from fraud_rules.model.value_map import MapValueType


@dataclass(frozen=True, slots=True)
class CollectionInput:
    """A change of a list or map as a user enters it.

    `values` are the values of a list, or the keys that a map loses; `entries` are the keys with their values that a map
    gets. `type` is for a new list or map only. With `expires_at_ms`, they leave it at this time, in epoch ms. `lines`
    are their lines in a text, empty without a text.
    """

    operation: ListOperation
    values: tuple[str, ...] = ()
    type: CollectionType | None = None
    expires_at_ms: int | None = None
    lines: tuple[int, ...] = ()
    entries: tuple[tuple[str, str], ...] = ()


class StoredCollection(ReadModel):
    """A list or map in the store, with all its changes.

    `log_version` is its version in the rule log, None until the newest change reaches the log. `pending` is the open
    request for approval.
    """

    name: str
    size: int
    revision: int
    source: str
    updated_at_ms: EpochMs = Field(serialization_alias="updatedAt")
    updated_by: str
    published: bool = Field(description="False only while the newest change waits for the rule log.")
    rules: list[RuleUse] = Field(description="The rules that name it, drafts too.")
    expiring: int = Field(description="The number of values that expire.")
    next_expiry_ms: EpochMs | None = Field(serialization_alias="nextExpiry")
    log_version: int | None = Field(exclude=True)
    pending: Approval | None = Field(exclude=True)


class StoredList(StoredCollection):
    """A list in the store."""

    type: ListType


class StoredMap(StoredCollection):
    """A map in the store."""

    key_type: ListType
    value_type: MapValueType


class ListedValue(ReadModel):
    """A value of a list, with the time at which it leaves the list."""

    value: str
    expires_at_ms: EpochMs | None = Field(serialization_alias="expiresAt")


class MapEntry(ReadModel):
    """An entry of a map, with the time at which it leaves the map."""

    key: str
    value: str
    expires_at_ms: EpochMs | None = Field(serialization_alias="expiresAt")


class CollectionRevision(ReadModel):
    """A change of a list or map. `added` and `removed` count the values, or the entries of a map, that it added and
    removed. A key with another value counts twice: its entry before is removed, and the one after is added.

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
    """The values that a change adds and removes: their numbers, and the first of them. The values of a map are its
    entries, as `key,value` in CSV. A key with another value has its entry before and the one after.
    """

    added: int
    removed: int
    added_values: list[str]
    removed_values: list[str]


class CollectionImportItem(ReadModel):
    """The effect of one list or map of the file: the values that it gains and loses. `revision` is its revision before
    the import, 0 for a new one.
    """

    where: str
    name: str | None
    effect: ImportEffect
    revision: int
    reasons: list[ProblemReason]
    diff: CollectionDiff


class CollectionImportResult(ReadModel):
    """The result of an import, list by list or map by map. If one is rejected, or in a dry run, nothing is applied."""

    items: list[CollectionImportItem]
    applied: bool
