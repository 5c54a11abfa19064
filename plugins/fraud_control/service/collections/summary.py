"""The summary of a list or map, which is the document of its head: its type and size."""

from __future__ import annotations

import msgspec
from sqlalchemy.orm import Session

from fraud_control.domain.collection_types import type_of_text
from fraud_control.domain.item import ItemName
from fraud_control.store.models import ItemHead
from fraud_rules.model.collection_history import Collection, CollectionType
from fraud_rules.model.value_map import ValueMap


class CollectionSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The type as text, the number of values or entries, and the bytes of a map's entries."""

    type: str
    size: int
    entry_bytes: int = 0

    @classmethod
    def of(cls, of_type: CollectionType, known: Collection | None) -> CollectionSummary:
        """The summary of a list or map of this type; of an empty one if it is missing."""
        if known is None:
            return cls(str(of_type), 0)
        return cls(str(known.type), known.size, known.entry_bytes if isinstance(known, ValueMap) else 0)

    @property
    def document(self) -> str:
        """The summary as the document of a head."""
        return msgspec.json.encode(self).decode()


def summary_of(head: ItemHead) -> CollectionSummary:
    """The summary of a list or map."""
    return msgspec.json.decode(head.document, type=CollectionSummary)


def type_of_head(head: ItemHead) -> CollectionType:
    """The type of a list or map."""
    return type_of_text(head.item.collection_kind, summary_of(head).type)


def type_of(session: Session, item: ItemName) -> CollectionType | None:
    """The type of a list or map with all its changes; None for a missing one."""
    head = session.get(ItemHead, item)
    return None if head is None or head.deleted else type_of_head(head)
