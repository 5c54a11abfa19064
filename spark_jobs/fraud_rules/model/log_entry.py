"""The entries of the rule log: decoded records, and records whose content nothing has needed yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar, overload

from fraud_rules.errors import Reason
from fraud_rules.model.rule import LogChange, Rule, RuleDeletion
from fraud_rules.model.value_list import ListChange
from fraud_rules.model.value_map import MapChange

T = TypeVar("T")

Grouping = tuple[str, ...]
"""The sorted names of the fields by which rules group transactions."""

Rejections = Mapping[int, Iterable[Reason]]
"""The reasons for the records that a pin rejects, by version."""


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """The outcome of a record's validation: its change, or the reasons for its rejection.

    `rejected_id` is the rule id in a rejected record, `rejected_list` the name of the list, and `rejected_map` that of
    the map, if the record has one.
    """

    change: LogChange | None
    reasons: tuple[Reason, ...] = ()
    rejected_id: int | None = None
    rejected_list: str | None = None
    rejected_map: str | None = None

    @property
    def rule_id(self) -> int | None:
        """The rule id in the record; None for a control, a list or a map, and for a rejected record without id."""
        return self.change.rule_id if isinstance(self.change, Rule | RuleDeletion) else self.rejected_id

    @property
    def list_name(self) -> str | None:
        """The name of the list in a list record; None for every other record."""
        return self.change.name if isinstance(self.change, ListChange) else self.rejected_list

    @property
    def map_name(self) -> str | None:
        """The name of the map in a map record; None for every other record."""
        return self.change.name if isinstance(self.change, MapChange) else self.rejected_map


@dataclass(frozen=True, slots=True)
class UndecodedRule:
    """The content of a record that is a rule with this id and grouping, or invalid. `decode` finds out.

    A rule without `may_name` names no list, no map and no rule, and one without `may_be_long` has no long window.
    """

    rule_id: int
    grouping: Grouping
    value: bytes
    decode: Callable[[bytes], RecordOutcome] = field(repr=False, compare=False)
    may_name: bool = True
    may_be_long: bool = True

    @property
    def outcome(self) -> RecordOutcome:
        """The outcome of the validation."""
        return self.decode(self.value)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One record of the rule log. `version` is the record's offset, and `time_ms` is its rule time.

    `rejected_in_pin`: a pin names the record as rejected. Then its append time is in no rule time.
    """

    version: int
    append_ms: int
    time_ms: int
    content: RecordOutcome | UndecodedRule
    rejected_in_pin: bool = False

    @classmethod
    def accepted(cls, version: int, append_ms: int, change: LogChange) -> LogEntry:
        """Create an entry for an accepted change. `RuleTimeline.extended` sets its rule time."""
        return cls(version, append_ms, append_ms, RecordOutcome(change))

    @classmethod
    def rejected(cls, version: int, append_ms: int, reasons: Iterable[Reason], rule_id: int | None = None) -> LogEntry:
        """Create an entry for an invalid record. `RuleTimeline.extended` sets its rule time."""
        return cls(version, append_ms, append_ms, RecordOutcome(None, tuple(reasons), rule_id))

    def as_rejected(self, reasons: Iterable[Reason]) -> LogEntry:
        """The entry of the same record, rejected because of the log before it."""
        why = tuple(dict.fromkeys((*self.reasons, *reasons)))
        return replace(self, content=RecordOutcome(None, why, self.rule_id, self.list_name, self.map_name))

    def rejected_by_pin(self, reasons: Iterable[Reason]) -> LogEntry:
        """The entry of the same record, which a pin names as rejected."""
        return replace(self.as_rejected(reasons), rejected_in_pin=True)

    @property
    def outcome(self) -> RecordOutcome:
        """The outcome of the record's validation. Decodes the record if necessary."""
        return self.content if isinstance(self.content, RecordOutcome) else self.content.outcome

    @property
    def change(self) -> LogChange | None:
        """The change of an accepted record; None for a rejected record."""
        return self.outcome.change

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons for a rejection; empty for an accepted record."""
        return self.outcome.reasons

    @property
    def rejected_id(self) -> int | None:
        """The rule id in a rejected record, if the record has one."""
        return self.outcome.rejected_id

    @property
    def rule_id(self) -> int | None:
        """The rule id in the record, see `RecordOutcome`."""
        return self.outcome.rule_id

    @property
    def grouping(self) -> Grouping | None:
        """The grouping of the rule in the record, which may be invalid. None for every other record."""
        content = self.content
        if isinstance(content, UndecodedRule):
            return content.grouping
        return content.change.grouping if isinstance(content.change, Rule) else None

    @property
    def list_name(self) -> str | None:
        """The name of the list in a list record; None for every other record."""
        return self.outcome.list_name

    @property
    def map_name(self) -> str | None:
        """The name of the map in a map record; None for every other record."""
        return self.outcome.map_name


def with_rejections(entries: Iterable[LogEntry], rejections: Rejections) -> list[LogEntry]:
    """The entries, without the changes that a pin rejects."""
    return [each.rejected_by_pin(rejections[each.version]) if each.version in rejections else each for each in entries]


class LogPrefix(Sequence[T]):
    """The first items of a list that only grows. Logs of different lengths share the list, so that a log of any length
    is extended without a copy."""

    __slots__ = ("_count", "_lock", "_shared")

    def __init__(self, shared: list[T], lock: threading.Lock) -> None:
        self._shared, self._lock, self._count = shared, lock, len(shared)

    @classmethod
    def empty(cls) -> LogPrefix[T]:
        """A prefix without items."""
        return cls([], threading.Lock())

    def extended(self, items: Sequence[T]) -> LogPrefix[T]:
        """This prefix and these items. Copies the list only if another prefix has extended it before."""
        with self._lock:
            if len(self._shared) == self._count:
                self._shared.extend(items)
                return LogPrefix(self._shared, self._lock)
        return LogPrefix(self._shared[: self._count] + list(items), threading.Lock())  # copied at once: logs are long

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self._shared[i] for i in range(self._count)[index]]
        return self._shared[range(self._count)[index]]

    def __iter__(self) -> Iterator[T]:
        return islice(self._shared, self._count)

    def __len__(self) -> int:
        return self._count
