"""Copies the list records of other writers from the rule log into the store.

A record has an effect if the log before it allows the change. The store decides this from its own copy of that log:
the published changes of the list, and the rules in force. The values of a list follow from the order of the log, so a
record of another writer does not disturb our changes that wait for the log.
"""

from __future__ import annotations

from fraud_control.domain.roles import log_author
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.lists.changes import NewListChange, save_list
from fraud_control.service.lists.uses import in_force
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.list_history import change_faults
from fraud_rules.model.log_entry import LogEntry
from fraud_rules.model.value_list import ListChange, ListOperation

__all__ = ["apply_foreign_list"]

_FROM_LOG = "from the rule log"


def apply_foreign_list(work: UnitOfWork, entry: LogEntry, change: ListChange, source: str) -> None:
    """Save a change of another writer. Raises RuleRejected for a change that the rule log rejects."""
    known = work.lists.type_before(change.name, entry.version)
    users = in_force(work.session, work.reader, change, known)
    faults = change_faults(change, known, work.lists.count(), users)
    if not faults:
        faults = _length_faults(work, change)
    if faults:
        raise RuleRejected(faults, list_name=change.name)
    save_list(
        work,
        NewListChange(
            change=change,
            source=source,
            who=log_author(source),
            author=log_author(source),
            action=f"log.list_{change.operation.value.lower()}",
            log_version=entry.version,
            comment=_FROM_LOG,
            detail={"logVersion": entry.version},
            at_ms=entry.append_ms,
        ),
    )


def _length_faults(work: UnitOfWork, change: ListChange) -> list[Reason]:
    head = work.lists.head(change.name)
    if change.count_bound() + (0 if head is None else head.size) <= work.reader.limits.max_list_values:
        return []
    known = work.contents.published(work.session, change.name)
    most = work.reader.limits.max_list_values
    before = 0 if known is None or change.operation is ListOperation.SET else known.size
    if change.operation not in (ListOperation.SET, ListOperation.ADD) or before + change.count_bound() <= most:
        return []
    values = list(set(change.values()))
    listed = known.count_listed(values) if known is not None and change.operation is ListOperation.ADD else 0
    size = before + len(values) - listed
    return [Reason("values", f"the list would have {size} values, at most {most} are allowed")] if size > most else []
