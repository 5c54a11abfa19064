"""What rules and lists have in common when they change, and what a kind of items adds: its content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.store.models import ItemHead

__all__ = ["Kind", "NewRevision", "Place", "Sent"]

Head = TypeVar("Head", bound=ItemHead)
Content = TypeVar("Content")


class Place(NamedTuple):
    """The place of a record: its number in the outbox, and its offset in the rule log; None for a missing one."""

    outbox_seq: int | None = None
    log_version: int | None = None


Sent = tuple[bytes | None, Place]
"""A record and its place; None for a record of another change, or of another writer."""


@dataclass(frozen=True, slots=True)
class NewRevision(Generic[Content]):
    """The next revision of an item. `who` is the user who makes the change, `author` the user who wrote the content
    (None: `who`). `contributors` changed the content since its last approval; None stands for those of the item and the
    author. `place` is the place of the record that causes the change, if that record is already in the outbox or in the
    rule log; None lets `save` put the records of the content into the outbox.

    `at_ms` is the time of the change; None stands for the present. `action` and `detail` go into the audit row. With
    `keeps_request`, an open request stays open.
    """

    content: Content
    who: str
    action: str
    comment: str = ""
    author: str | None = None
    source: str = SOURCE
    detail: Mapping[str, Any] = field(default_factory=dict)
    contributors: frozenset[str] | None = None
    place: Place | None = None
    at_ms: int | None = None
    keeps_request: bool = False

    @property
    def content_author(self) -> str:
        """The user who wrote the content."""
        return self.author or self.who


class Kind(Protocol[Head, Content]):
    """A kind of items: the functions of a module without state."""

    def head_of(self, content: Content) -> Head:
        """The head of a new item, not yet in the session."""

    def key_of(self, head: Head) -> bytes:
        """The key of the item's records in the rule log."""

    def facts(self, head: Head) -> Mapping[str, Any]:
        """The members of an audit row about the present content."""

    def described(self, work: UnitOfWork, content: Content) -> Mapping[str, Any]:
        """The members of an audit row about the next content."""

    def inherited(self, head: Head) -> Iterable[str]:
        """The contributors that the next content keeps."""

    def requested(self, head: Head, content: Content) -> Mapping[str, Any]:
        """The columns of a request for the content: its document, what the document leaves out, and the new state."""

    def records(self, work: UnitOfWork, head: Head, new: NewRevision[Content]) -> Sequence[bytes]:
        """The records of a change for the rule log; none for a change that stays in the store."""

    def apply(
        self,
        work: UnitOfWork,
        head: Head,
        new: NewRevision[Content],
        sent: Sequence[Sent],
        facts: Mapping[str, Any],
    ) -> None:
        """Save the content and its history. The head has the revision already. `facts` are those of `described`."""
