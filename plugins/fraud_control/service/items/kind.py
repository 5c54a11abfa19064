"""What rules, lists and maps have in common when they change, and what a kind of items adds: its content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sqlalchemy.orm import Session

from fraud_control.domain.item import ItemName
from fraud_control.domain.read_models import DriftedCollection, DriftSide
from fraud_control.domain.rule_input import SOURCE
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.collections.values import CollectionContents
from fraud_control.store.models import ApprovalRow, ItemHead
from fraud_rules.model.ruleset import LogEntry, RuleTimeline

Content = TypeVar("Content")


class Place(NamedTuple):
    """The place of a record: its number in the outbox, and its offset in the rule log; None for a missing one."""

    outbox_seq: int | None = None
    log_version: int | None = None


class Side(NamedTuple):
    """An item in force by the store or by the rule log: the offset of its record in the log, and its content."""

    version: int | None
    content: Any


Sent = tuple[bytes | None, Place]
"""A record and its place; None for a record of another change, or of another writer."""


class Foreign(NamedTuple):
    """A change of another writer: the content, the action for the audit row, and the user who wrote the content (None:
    this writer).
    """

    content: Any
    action: str
    author: str | None = None


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


class Kind(Protocol[Content]):
    """A kind of items: the functions of a module without state. Kinds that share a module differ by `kind`."""

    def name_of(self, content: Content) -> ItemName:
        """The name of the item."""

    def log_key(self, head: ItemHead) -> bytes:
        """The key of the item's records in the rule log."""

    def facts(self, head: ItemHead) -> Mapping[str, Any]:
        """The members of an audit row about the present content."""

    def described(self, work: UnitOfWork, content: Content) -> Mapping[str, Any]:
        """The members of an audit row about the next content."""

    def inherited(self, head: ItemHead) -> Iterable[str]:
        """The contributors that the next content keeps."""

    def requested(self, head: ItemHead, content: Content) -> Mapping[str, Any]:
        """The columns of a request for the content: its document, what the document leaves out, and the new state."""

    def approved(self, work: UnitOfWork, request: ApprovalRow, head: ItemHead) -> Content | None:
        """The content of a request, validated again; None for a change without effect. Its member `is_whole` says
        whether an approval covers all that the item has then. Raises RequestRefused, Invalid.
        """

    def records(self, work: UnitOfWork, head: ItemHead, new: NewRevision[Content]) -> Sequence[bytes]:
        """The records of a change for the rule log; none for a change that stays in the store."""

    def apply(
        self,
        work: UnitOfWork,
        head: ItemHead,
        new: NewRevision[Content],
        sent: Sequence[Sent],
        facts: Mapping[str, Any],
    ) -> None:
        """Save the content and its history. The head has the revision already. `facts` are those of `described`."""

    def foreign(self, work: UnitOfWork, entry: LogEntry) -> Foreign | None:
        """The change of another writer in a valid record; None for a change without effect. Raises RuleRejected if the
        rule log rejects the record.
        """

    def in_store(self, session: Session, contents: CollectionContents, kind: str) -> Mapping[str, Side]:
        """The items in force by the store after all their records in the rule log, by key."""

    def in_log(self, timeline: RuleTimeline, kind: str) -> Mapping[str, Side]:
        """The items in force by the rule log, by key."""

    def equal(self, contents: CollectionContents, stored: Any, logged: Any) -> bool:
        """Whether the contents of two sides are equal."""

    def shown(self, side: Side) -> DriftSide | DriftedCollection:
        """A side for users."""
