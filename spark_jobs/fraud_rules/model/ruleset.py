"""The rule set at any point of the rule log.

`RuleTimeline` is the log up to a pin; `rule_set(n)` folds its first n entries. Both are immutable to callers. A fold
starts from the nearest cached rule set and copies one dictionary, so that reading a log of thousands of entries,
forwards or with repeats, costs microseconds per step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fraud_rules.errors import Reason
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Control, ControlType, Rule, RuleChange, RuleDeletion
from fraud_rules.model.transaction import TransactionBatch

__all__ = ["GroupingInForce", "LogEntry", "RuleInForce", "RuleLimits", "RuleSet", "RuleTimeline"]

Grouping = tuple[str, ...]

_CACHED_RULE_SETS = 64


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """A rule with its `version` (its record's offset) and its `incarnation`: the offset of the record that added the
    rule or moved it to this grouping. An edit that keeps the grouping keeps the incarnation, and therefore also resets
    and cool-downs."""

    rule: Rule
    version: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class GroupingInForce:
    """The rules that share one grouping's state.

    `incarnation` is the offset of the record that started the grouping. `epoch` is the offset of the last boundary (the
    start, or a later clear) and `epoch_ms` is the boundary's rule time. Windows exclude transactions that arrived
    before it. `rules` is sorted by rule id and includes all states. Paused and shadow rules also
    count for the widest window.
    """

    fields: Grouping
    incarnation: int
    epoch: int
    epoch_ms: int
    rules: tuple[RuleInForce, ...]
    widest_window_ms: int


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules in force by id, and their groupings. `stopped_at` is the offset of the last CLEAR_STATE_ALL_STOP."""

    rules: Mapping[int, RuleInForce] = field(default_factory=dict)
    groupings: Mapping[Grouping, GroupingInForce] = field(default_factory=dict)
    stopped_at: int | None = None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One record of the rule log.

    `time_ms` is its rule time, the running maximum of append times by offset. A rejected record has reasons and no
    change, but its version stays used. `rejected_id` is the rule id in a rejected record, if the record has one.
    """

    version: int
    append_ms: int
    time_ms: int
    change: RuleChange | None
    reasons: tuple[Reason, ...] = ()
    rejected_id: int | None = None

    @classmethod
    def accepted(cls, version: int, append_ms: int, change: RuleChange) -> LogEntry:
        """Create an entry for an accepted change. `RuleTimeline.extended` sets its rule time."""
        return cls(version, append_ms, append_ms, change)

    @classmethod
    def rejected(cls, version: int, append_ms: int, reasons: Iterable[Reason], rule_id: int | None = None) -> LogEntry:
        """Create an entry for a record that is no valid change. `RuleTimeline.extended` sets its rule time."""
        return cls(version, append_ms, append_ms, None, tuple(reasons), rule_id)

    def refused(self, reasons: Iterable[Reason]) -> LogEntry:
        """The same record, refused after parsing because its state would exceed the budget."""
        return replace(self, change=None, reasons=(*self.reasons, *reasons), rejected_id=self.rule_id)

    @property
    def rule_id(self) -> int | None:
        """The rule id in the record; None for a control, and for a rejected record without id."""
        change = self.change
        return change.rule_id if isinstance(change, Rule | RuleDeletion) else self.rejected_id


class _Fold:
    """A mutable rule set. It copies the dictionaries of `base` once, and rebuilds changed groupings at the end."""

    def __init__(self, base: RuleSet) -> None:
        self._rules = dict(base.rules)
        self._groupings = dict(base.groupings)
        self._members: dict[Grouping, dict[int, RuleInForce]] = {}
        self._stopped_at = base.stopped_at

    def apply(self, entry: LogEntry) -> None:
        """Apply one entry. A rejected entry changes nothing."""
        match entry.change:
            case Rule() as rule:
                self._put(rule, entry)
            case RuleDeletion(rule_id):
                self._remove(rule_id)
            case Control(ControlType.DELETE_RULES_ALL):
                self._rules, self._groupings, self._members = {}, {}, {}
            case Control(control) if control.clears_state:
                self._clear(entry)
                if control is ControlType.CLEAR_STATE_ALL_STOP:
                    self._stopped_at = entry.version

    def rule_set(self) -> RuleSet:
        """Return the resulting rule set. The fold must not be used afterwards."""
        for fields, members in self._members.items():
            rules = tuple(members[rule_id] for rule_id in sorted(members))
            widest = max(in_force.rule.window_ms for in_force in rules)
            self._groupings[fields] = replace(self._groupings[fields], rules=rules, widest_window_ms=widest)
        return RuleSet(self._rules, self._groupings, self._stopped_at)

    def _put(self, rule: Rule, entry: LogEntry) -> None:
        known = self._rules.get(rule.rule_id)
        stays = known is not None and known.rule.grouping == rule.grouping
        if not stays:
            self._remove(rule.rule_id)
        incarnation = known.incarnation if known is not None and stays else entry.version
        in_force = RuleInForce(rule, entry.version, incarnation)
        self._rules[rule.rule_id] = in_force
        self._members_of(rule.grouping, entry)[rule.rule_id] = in_force

    def _remove(self, rule_id: int) -> None:
        known = self._rules.pop(rule_id, None)
        if known is None:
            return
        fields = known.rule.grouping
        members = self._opened(fields)
        del members[rule_id]
        if not members:
            del self._groupings[fields], self._members[fields]

    def _clear(self, entry: LogEntry) -> None:
        self._groupings = {
            fields: replace(grouping, epoch=entry.version, epoch_ms=entry.time_ms)
            for fields, grouping in self._groupings.items()
        }

    def _members_of(self, fields: Grouping, entry: LogEntry) -> dict[int, RuleInForce]:
        """The mutable rules of a grouping. A grouping without rules is started."""
        if fields not in self._groupings:
            self._groupings[fields] = GroupingInForce(fields, entry.version, entry.version, entry.time_ms, (), 0)
        return self._opened(fields)

    def _opened(self, fields: Grouping) -> dict[int, RuleInForce]:
        members = self._members.get(fields)
        if members is None:
            members = {in_force.rule.rule_id: in_force for in_force in self._groupings[fields].rules}
            self._members[fields] = members
        return members


class RuleTimeline:
    """The rule log up to a pin: entries by offset, and `end`, the offset after the last record read.

    Immutable. Only the newest rule sets are cached, so that memory stays bounded for a log of any length.
    """

    __slots__ = ("_cache", "_times_ms", "end", "entries")

    def __init__(self, entries: Iterable[LogEntry] = (), end: int | None = None) -> None:
        self.entries: tuple[LogEntry, ...] = _with_rule_times((), entries)
        self._times_ms = np.array([entry.time_ms for entry in self.entries], dtype=np.int64)
        self.end = _end_after(self.entries, 0, end)
        self._cache: dict[int, RuleSet] = {0: RuleSet()}

    def extended(self, entries: Iterable[LogEntry], end: int | None = None) -> RuleTimeline:
        """Create a longer log that shares this log's rule sets. `end` defaults to the offset after the last entry.

        The method sets the rule times. Raises ValueError unless the versions ascend.
        """
        self.rule_set(len(self.entries))  # cache it now, so that the longer log folds only the new entries
        longer = RuleTimeline.__new__(RuleTimeline)
        longer.entries = _with_rule_times(self.entries, entries)
        added = [entry.time_ms for entry in longer.entries[len(self.entries) :]]
        longer._times_ms = np.concatenate([self._times_ms, np.array(added, dtype=np.int64)])
        longer.end = _end_after(longer.entries, self.end, end)
        longer._cache = dict(self._cache)
        return longer

    def versions_at(self, append_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each append time, the number of entries in force: those whose rule time is not later."""
        return np.searchsorted(self._times_ms, append_ms, side="right").astype(np.int64)

    def versions_of(self, rows: TransactionBatch) -> NDArray[np.int64]:
        """For each row, the number of entries in force at its append time."""
        return self.versions_at(rows.append_ms)

    def incarnations_kept(self) -> frozenset[int]:
        """The incarnations of the rules in force. Only their marks can still count."""
        return frozenset(each.incarnation for each in self.latest.rules.values())

    def rule_set(self, count: int) -> RuleSet:
        """The rule set after the first `count` entries. Raises ValueError for a count beyond the log."""
        if not 0 <= count <= len(self.entries):
            raise ValueError(f"a rule log of {len(self.entries)} entries has no rule set {count}")
        made = self._cache.get(count)
        if made is None:
            made = self._fold(count)
            self._remember(count, made)
        return made

    @property
    def latest(self) -> RuleSet:
        """The rule set after all entries."""
        return self.rule_set(len(self.entries))

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"RuleTimeline({len(self.entries)} entries, end={self.end})"

    def _fold(self, count: int) -> RuleSet:
        start = max(known for known in tuple(self._cache) if known <= count)
        fold = _Fold(self._cache[start])
        for entry in self.entries[start:count]:
            fold.apply(entry)
        return fold.rule_set()

    def _remember(self, count: int, made: RuleSet) -> None:
        if len(self._cache) >= _CACHED_RULE_SETS:
            oldest = next(known for known in self._cache if known)
            self._cache.pop(oldest, None)
        self._cache[count] = made


def _with_rule_times(known: tuple[LogEntry, ...], entries: Iterable[LogEntry]) -> tuple[LogEntry, ...]:
    """Append entries to the log, each with its rule time: the running maximum of append times."""
    placed = list(known)
    version, time_ms = (known[-1].version, known[-1].time_ms) if known else (-1, 0)
    for entry in entries:
        if entry.version <= version:
            raise ValueError(f"rule log entry {entry.version} does not come after {version}")
        version, time_ms = entry.version, max(time_ms, entry.append_ms)
        placed.append(entry if entry.time_ms == time_ms else replace(entry, time_ms=time_ms))
    return tuple(placed)


def _end_after(entries: tuple[LogEntry, ...], known_end: int, end: int | None) -> int:
    least = max(known_end, entries[-1].version + 1 if entries else 0)
    if end is None:
        return least
    if end < least:
        raise ValueError(f"a rule log that reaches offset {least} cannot end at {end}")
    return end
