"""Removes the values that have expired from their lists."""

from __future__ import annotations

from typing import Final

from fraud_control.domain.list_input import list_change
from fraud_control.domain.list_models import ListInput
from fraud_control.domain.roles import system_author
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.lists.changes import NewListChange, save_list
from fraud_control.service.lists.expiries import due_values
from fraud_control.service.lists.uses import type_of
from fraud_rules.codec.rules.lists import encode_list_records
from fraud_rules.model.value_list import ListOperation

__all__ = ["EXPIRY_AUTHOR", "MOST_VALUES", "remove_expired"]

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
    limits = work.reader.limits
    for name, values in due_values(work.session, work.now_ms, MOST_VALUES).items():
        known = type_of(work.session, name)
        assert known is not None  # a deleted list has no expiries
        change = list_change(name, ListInput(ListOperation.REMOVE, tuple(values)), known, SOURCE, limits)
        records = encode_list_records(
            name, change.operation, known, change.values(), SOURCE, limits.max_list_record_bytes
        )
        new = NewListChange(
            change, SOURCE, EXPIRY_AUTHOR, EXPIRY_AUTHOR, "list.expire", records,
            comment="the values have expired", keeps_request=True,
        )  # fmt: skip
        save_list(work, new)
        removed += len(values)
    return removed
