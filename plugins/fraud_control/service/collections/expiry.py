"""Removes the values that have expired from their lists, and the keys from their maps."""

from __future__ import annotations

from typing import Final

from fraud_control.domain.collection_input import collection_change
from fraud_control.domain.collection_models import CollectionInput
from fraud_control.domain.roles import system_author
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections import content as collections
from fraud_control.service.collections.content import CollectionContent
from fraud_control.service.collections.expiries import due_values
from fraud_control.service.collections.summary import type_of
from fraud_control.service.items.kind import NewRevision
from fraud_control.service.items.saving import save
from fraud_rules.model.value_list import ListOperation

EXPIRY_AUTHOR: Final = system_author("expiry")
"""The author of the changes that remove expired values."""

MOST_VALUES: Final = 10_000
"""The most values that one transaction removes."""


def remove_expired(work: UnitOfWork) -> int:
    """Remove the values whose time has come, at most `MOST_VALUES`; return their number.

    The transaction saves the REMOVE and forgets the expiry. So each value is removed once, whatever process dies.
    Raises Unavailable if too many records wait in the outbox.
    """
    removed = 0
    for item, values in due_values(work.session, work.now_ms, MOST_VALUES).items():
        known = type_of(work.session, item)
        assert known is not None  # a deleted list or map has no expiries
        given = CollectionInput(ListOperation.REMOVE, tuple(values))
        content = CollectionContent(collection_change(item, given, known, SOURCE, work.reader.limits))
        comment = f"the {content.change.content_member} have expired"
        new = NewRevision(content, EXPIRY_AUTHOR, f"{item.kind}.expire", comment, keeps_request=True)
        save(work, collections, work.head(item), new)
        removed += len(values)
    return removed
