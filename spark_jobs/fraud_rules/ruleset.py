"""The rule set as of any point of the rule log.

`RuleTimeline` is the log up to a pin; `rule_set(n)` folds its first n entries. Both are immutable to callers. Folding
starts from the nearest rule set already made and copies one dictionary, so that walking a log of thousands of entries,
forwards or with repeats, costs microseconds a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fraud_rules.errors import Reason
from fraud_rules.limits import RuleLimits
from fraud_rules.rule import Control, ControlType, Rule, RuleChange, RuleDeletion
from fraud_rules.transaction import TransactionBatch

__all__ = ["GroupingInForce", "LogEntry", "RuleInForce", "RuleLimits", "RuleSet", "RuleTimeline"]

Grouping = tuple[str, ...]

_CACHED_RULE_SETS = 64


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """A rule with its `version` (its record's offset) and `incarnation`: the offset of the record that added it, or
    moved it to this grouping. An edit that keeps the grouping keeps the incarnation, and so resets and cool-downs."""

    rule: Rule
    version: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class GroupingInForce:
    """The rules that share one grouping's state.

    `incarnation` is the offset of the record that began it. `epoch` is the offset of the last boundary (its start, or a
    later clear) and `epoch_ms` that boundary's rule time: what arrived before it is in no window. `rules` is sorted by
    rule id and has all states; the widest window counts paused and shadow rules too.
    """

    fields: Grouping
    incarnation: int
    epoch: int
    epoch_ms: int
    rules: tuple[RuleInForce, ...]
    widest_window_ms: int


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules in force, by id, and their groupings; `stopped_at` is the offset of the last CLEAR_STATE_ALL_STOP."""

    rules: Mapping[int, RuleInForce] = field(default_factory=dict)
    groupings: Mapping[Grouping, GroupingInForce] = field(default_factory=dict)
    stopped_at: int | None = None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One record of the rule log.

    `time_ms` is its rule time, the running maximum of append times by offset. A rejected record has reasons and no
    change, but has used its version; `rejected_id` is the rule it was about, where it said so.
    """

    version: int
    append_ms: int
    time_ms: int
    change: RuleChange | None
    reasons: tuple[Reason, ...] = ()
    rejected_id: int | None = None

    @classmethod
    def accepted(cls, version: int, append_ms: int, change: RuleChange) -> LogEntry:
        """An entry not yet placed in a log: `RuleTimeline.extended` sets its rule time."""
        return cls(version, append_ms, append_ms, change)

    @classmethod
    def rejected(cls, version: int, append_ms: int, reasons: Iterable[Reason], rule_id: int | None = None) -> LogEntry:
        """Likewise, for a record that is no valid change."""
        return cls(version, append_ms, append_ms, None, tuple(reasons), rule_id)

    def refused(self, reasons: Iterable[Reason]) -> LogEntry:
        """The same record turned down after parsing (its state would exceed the budget)."""
        return replace(self, change=None, reasons=(*self.reasons, *reasons), rejected_id=self.rule_id)

    @property
    def rule_id(self) -> int | None:
        """The rule the record is about; None for a control, or where a rejected record does not say."""
        change = self.change
        return change.rule_id if isinstance(change, Rule | RuleDeletion) else self.rejected_id


class _Fold:
    """A rule set being changed. Dictionaries are copied from `base` once; groupings are rebuilt once, at the end."""

    def __init__(self, base: RuleSet) -> None:
        self._rules = dict(base.rules)
        self._groupings = dict(base.groupings)
        self._members: dict[Grouping, dict[int, RuleInForce]] = {}
        self._stopped_at = base.stopped_at

    def apply(self, entry: LogEntry) -> None:
        """Take one entry in; a rejected one changes nothing."""
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
        """The result; the fold must not be used after."""
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
        """The rules of a grouping, to be changed; begins the grouping where it has none."""
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
    """The rule log up to a pin: entries by offset, and `end`, the offset after the last record looked at.

    Immutable; only the most recently made rule sets are cached, so that memory stays bounded however long the log.
    """

    __slots__ = ("_cache", "_times_ms", "end", "entries")

    def __init__(self, entries: Iterable[LogEntry] = (), end: int | None = None) -> None:
        self.entries: tuple[LogEntry, ...] = _with_rule_times((), entries)
        self._times_ms = np.array([entry.time_ms for entry in self.entries], dtype=np.int64)
        self.end = _end_after(self.entries, 0, end)
        self._cache: dict[int, RuleSet] = {0: RuleSet()}

    def extended(self, entries: Iterable[LogEntry], end: int | None = None) -> RuleTimeline:
        """A longer log that shares this one's rule sets. `end` defaults to the offset after the last entry.

        Rule times are set here; entries must come with ascending versions. Raises ValueError otherwise.
        """
        self.rule_set(len(self.entries))  # made now, so that the longer log folds only what is new
        longer = RuleTimeline.__new__(RuleTimeline)
        longer.entries = _with_rule_times(self.entries, entries)
        added = [entry.time_ms for entry in longer.entries[len(self.entries) :]]
        longer._times_ms = np.concatenate([self._times_ms, np.array(added, dtype=np.int64)])
        longer.end = _end_after(longer.entries, self.end, end)
        longer._cache = dict(self._cache)
        return longer

    def versions_at(self, append_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each append time, how many entries are in force: those whose rule time is not after it."""
        return np.searchsorted(self._times_ms, append_ms, side="right").astype(np.int64)

    def versions_of(self, rows: TransactionBatch) -> NDArray[np.int64]:
        """For each row, how many entries are in force for it."""
        return self.versions_at(rows.append_ms)

    def incarnations_kept(self) -> frozenset[int]:
        """The incarnations of rules whose marks can still count: of those in force."""
        return frozenset(each.incarnation for each in self.latest.rules.values())

    def rule_set(self, count: int) -> RuleSet:
        """The rule set after the first `count` entries. Raises ValueError for a count that is not in the log."""
        if not 0 <= count <= len(self.entries):
            raise ValueError(f"a rule log of {len(self.entries)} entries has no rule set {count}")
        made = self._cache.get(count)
        if made is None:
            made = self._fold(count)
            self._remember(count, made)
        return made

    @property
    def latest(self) -> RuleSet:
        """The rule set after every entry."""
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
    """The log continued, each entry at its rule time: the running maximum of append times."""
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
