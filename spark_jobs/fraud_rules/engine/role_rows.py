"""The rows of transactions in a grouping by an entity: one for each role whose field is not null.

The rows multiply before they are sent to key groups. Everything after that sees ordinary rows, with the entity's value
and the role as two more columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.schema import ROLE, DeclaredEntity
from fraud_rules.model.transaction import Column, TransactionBatch


def role_rows(batch: TransactionBatch, entity: DeclaredEntity | None) -> TransactionBatch:
    """The rows of n transactions, in their order; those of a transaction follow each other in the order of the roles.

    Without an entity, these are the transactions themselves.
    """
    if entity is None:
        return batch
    n, places = len(batch), np.flatnonzero(_has_roles(batch, entity))
    rows, roles = np.divmod(places, len(entity.roles))
    taken = batch.take(rows)
    values = Column.concat([batch.columns[field] for field in entity.fields]).take(roles * n + rows)
    more = {entity.name: Column(values.values, None, values.dictionary), ROLE: Column(roles, None, entity.role_names)}
    return TransactionBatch(taken.append_ms, taken.partition, taken.offset, {**taken.columns, **more})


def has_no_role(batch: TransactionBatch, entity: DeclaredEntity) -> NDArray[np.bool_]:
    """The mask of the transactions that have no row, because the fields of all roles are null."""
    return np.logical_not(np.asarray(_has_roles(batch, entity).any(axis=1)))


def _has_roles(batch: TransactionBatch, entity: DeclaredEntity) -> NDArray[np.bool_]:
    """Whether the field of a role is not null, bool[n, roles]."""
    found = np.ones((len(batch), len(entity.roles)), dtype=np.bool_)
    for role, field in enumerate(entity.fields):
        valid = batch.columns[field].valid
        if valid is not None:
            found[:, role] = valid
    return found
