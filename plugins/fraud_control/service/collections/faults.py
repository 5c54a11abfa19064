"""The reasons for which the rule log rejects a change of a list."""

from __future__ import annotations

from fraud_control.domain.errors import Invalid
from fraud_control.domain.item import ItemName
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.summary import summary_of
from fraud_control.service.collections.uses import in_force
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.collection_history import change_faults
from fraud_rules.model.value_list import ListChange, ListOperation, ListType, ValueList

__all__ = ["check_change", "check_foreign_change"]


def check_change(work: UnitOfWork, change: ListChange) -> None:
    """Check a change that follows all others. Raises Invalid."""
    known = work.collections.current(change.name)
    faults = _faults(work, change, None if known is None else known.type)
    faults = faults or _length_faults(change, known, work.reader.limits.max_list_values)
    if faults:
        raise Invalid(faults, list_name=change.name)


def check_foreign_change(work: UnitOfWork, change: ListChange, version: int) -> None:
    """Check a change of another writer, at offset `version` of the rule log. Raises RuleRejected.

    The store decides from its own copy of the log before the change: the published changes of the list, and the rules
    in force.
    """
    faults = _faults(work, change, work.collections.type_before(change.name, version))
    head, most = work.head(ItemName.of_list(change.name)), work.reader.limits.max_list_values
    if not faults and change.count_bound() + (0 if head is None else summary_of(head).size) > most:
        faults = _length_faults(change, work.contents.published(work.session, change.name), most)
    if faults:
        raise RuleRejected(faults, list_name=change.name)


def _faults(work: UnitOfWork, change: ListChange, known: ListType | None) -> list[Reason]:
    return change_faults(change, known, work.collections.count(), in_force(work.session, work.reader, change, known))


def _length_faults(change: ListChange, known: ValueList | None, most: int) -> list[Reason]:
    before = None if change.operation is ListOperation.SET else known
    size = 0 if before is None else before.size
    if change.operation not in (ListOperation.SET, ListOperation.ADD) or size + change.count_bound() <= most:
        return []
    values = list(set(change.values()))
    size += len(values) - (0 if before is None else before.count_listed(values))
    return [Reason("values", f"the list would have {size} values, at most {most} are allowed")] if size > most else []
