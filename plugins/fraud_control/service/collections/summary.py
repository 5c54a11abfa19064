"""The summary of a list, which is the document of its head: the type and the number of the values."""

from __future__ import annotations

import msgspec
from sqlalchemy.orm import Session

from fraud_control.domain.item import ItemName
from fraud_control.store.models import ItemHead
from fraud_rules.model.value_list import ListType

__all__ = ["CollectionSummary", "summary_of", "type_of"]


class CollectionSummary(msgspec.Struct, frozen=True):
    """The type of a list's values, and their number."""

    type: ListType
    size: int

    @property
    def document(self) -> str:
        """The summary as the document of a head."""
        return msgspec.json.encode(self).decode()


def summary_of(head: ItemHead) -> CollectionSummary:
    """The summary of a list."""
    return msgspec.json.decode(head.document, type=CollectionSummary)


def type_of(session: Session, name: str) -> ListType | None:
    """The type of a list with all its changes; None for a list that does not exist."""
    head = session.get(ItemHead, ItemName.of_list(name))
    return None if head is None or head.deleted else summary_of(head).type
