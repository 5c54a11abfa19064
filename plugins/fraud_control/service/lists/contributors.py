"""The contributors of the lists that a rule names. Their values decide about payments like the rule's own document."""

from __future__ import annotations

from collections.abc import Iterator

from fraud_control.service.changes import UnitOfWork
from fraud_control.service.items.contributors import contributors_of, encode_contributors
from fraud_control.store.models import ListHead

__all__ = ["contributors_of_lists", "record_approval"]


def contributors_of_lists(work: UnitOfWork, document: str) -> frozenset[str]:
    """The users who changed a list that the rule names, since the last approval of the list or of such a rule."""
    return frozenset(user for head in _named(work, document) for user in contributors_of(head))


def record_approval(work: UnitOfWork, document: str) -> None:
    """Let the approval of a rule by a second person cover the values of the lists that the rule names."""
    for head in _named(work, document):
        head.contributors = encode_contributors(())


def _named(work: UnitOfWork, document: str) -> Iterator[ListHead]:
    rule = work.reader.read_stored(document)
    for name in () if rule is None else rule.lists:
        head = work.session.get(ListHead, name)
        if head is not None:
            yield head
