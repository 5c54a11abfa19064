"""The rule set at any point of the rule log.

`RuleTimeline` is the log up to a pin, and `rule_set(n)` folds its first n entries. Callers cannot change a timeline or
a rule set. A fold starts from the nearest earlier rule set in the cache. It copies that rule set's dictionaries once,
so that each step through a log of thousands of entries costs microseconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fraud_rules.model.collection_history import (
    CollectionAdmission,
    CollectionHistory,
    Collections,
    Lists,
    Maps,
    changes_rules,
)
from fraud_rules.model.log_entry import Grouping, LogEntry, LogPrefix
from fraud_rules.model.rule_fold import GroupingInForce, RuleFold, RuleInForce, RuleSet
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.model.value_list import CollectionKind

__all__ = [
    "Grouping",
    "GroupingInForce",
    "GrowingRules",
    "LogEntry",
    "RuleInForce",
    "RuleSet",
    "RuleTimeline",
    "grouping_to_warm",
]

_CACHED_RULE_SETS = 64


class GrowingRules:
    """The rules in force while entries are added one by one to a timeline, without a rule set for each of them."""

    def __init__(self, timeline: RuleTimeline) -> None:
        self._fold = RuleFold(timeline.latest)
        self._admission = timeline.admission()

    @property
    def rules(self) -> Mapping[int, RuleInForce]:
        """The rules in force by id, after the entries so far."""
        return self._fold.rules

    def add(self, entry: LogEntry) -> None:
        """Add an entry. It changes nothing if it is rejected, or does not fit the log before it."""
        admitted = self._admission.admit(entry)
        self._fold.apply(replace(admitted, content=admitted.outcome))


class RuleTimeline:
    """The rule log up to a pin: entries by offset, and `end`, the offset after the last record read.

    A timeline is immutable. It caches a bounded number of rule sets, so that a log of any length needs little memory.
    """

    __slots__ = ("_cache", "_collections", "_rule_counts", "end", "entries")

    def __init__(self, entries: Iterable[LogEntry] = (), end: int | None = None, *, hypothetical: bool = False) -> None:
        """A log of these entries. A hypothetical log accepts rules whose lists and maps are missing."""
        history = CollectionHistory(hypothetical=hypothetical)
        admitted, self._collections = history.admit(0, _with_rule_times(None, entries), RuleSet())
        self.entries = LogPrefix[LogEntry].empty().extended(admitted)
        self._rule_counts = LogPrefix[int].empty().extended([0, *_counts_with_rules(0, admitted)])
        self.end = _end_after(self.entries, 0, end)
        self._cache: dict[int, RuleSet] = {0: RuleSet()}

    def extended(self, entries: Iterable[LogEntry], end: int | None = None) -> RuleTimeline:
        """Create a longer log that shares this log's rule sets. `end` defaults to the offset after the last entry.

        The method sets the rule times. Raises ValueError unless the versions ascend.
        """
        self.rule_set(len(self.entries))  # cache it now, so that the longer log folds only the new entries
        longer = RuleTimeline.__new__(RuleTimeline)
        timed = _with_rule_times(self.entries[-1] if self.entries else None, entries)
        timed, longer._collections = self._collections.admit(len(self.entries), timed, self.latest)
        longer.entries = self.entries.extended(timed)
        longer._rule_counts = self._rule_counts.extended(_counts_with_rules(len(self.entries), timed))
        longer.end = _end_after(longer.entries, self.end, end)
        longer._cache = dict(self._cache)
        return longer

    def admission(self) -> CollectionAdmission:
        """The admission of the entries that follow this log."""
        return self._collections.admission(len(self.entries), self.latest)

    def entry_counts_at(self, append_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each append time, the number of log entries that apply: those whose rule time is not later."""
        if len(append_ms) == 0:
            return np.zeros(0, dtype=np.int64)
        first, end = self._extreme_counts(append_ms)
        times_ms = np.array([entry.time_ms for entry in self.entries[first:end]], dtype=np.int64)
        return first + np.searchsorted(times_ms, append_ms, side="right").astype(np.int64)

    def entry_counts_of(self, rows: TransactionBatch) -> NDArray[np.int64]:
        """For each row, the number of log entries that apply to it."""
        return self.entry_counts_at(rows.append_ms)

    def common_count(self, append_ms: NDArray[np.int64]) -> int | None:
        """The number of log entries that apply to each of these append times, if it is the same for all of them."""
        if len(append_ms) == 0:
            return None
        first, end = self._extreme_counts(append_ms)
        return first if first == end else None

    def _extreme_counts(self, append_ms: NDArray[np.int64]) -> tuple[int, int]:
        """The numbers of log entries that apply to the least and to the greatest append time."""
        least, greatest = (bisect_right(self.entries, at_ms, key=_rule_time) for at_ms in _extremes(append_ms))
        return least, greatest

    def rule_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Reduce numbers of entries to those that end with a change of the rule set.

        `rule_set` gives the same rules for both, so that changes of lists and maps cause no further rule sets.
        """
        if len(counts) == 0:
            return counts
        first, end = (bisect_right(self._rule_counts, count) for count in _extremes(counts))
        found = np.array(self._rule_counts[first - 1 : end], dtype=np.int64)
        return found[np.searchsorted(found, counts, side="right") - 1]

    def collections_at(self, count: int) -> Collections:
        """The lists and maps after the first `count` entries."""
        return self._collections.at(count, self.entries)

    def position_of(self, version: int) -> int:
        """The number of entries before the offset `version`."""
        return bisect_left(self.entries, version, key=lambda entry: entry.version)

    @property
    def collections(self) -> Collections:
        """The lists and maps after all entries."""
        return self.collections_at(len(self.entries))

    @property
    def lists(self) -> Lists:
        """The lists after all entries, by name."""
        return self.collections.lists

    @property
    def maps(self) -> Maps:
        """The maps after all entries, by name."""
        return self.collections.maps

    def rules_naming(self, kind: CollectionKind) -> Mapping[str, tuple[int, ...]]:
        """The ids of the rules in force that name a list, or those that name a map, by its name."""
        found: dict[str, list[int]] = {}
        for rule_id, names in sorted(self._collections.naming.items()):
            for each, name in names:
                if each is kind:
                    found.setdefault(name, []).append(rule_id)
        return {name: tuple(ids) for name, ids in found.items()}

    def grouping_to_warm(self, fields: Grouping, version: int) -> GroupingInForce | None:
        """The grouping to which the history of the request `version` belongs. None if a clear or the end of the
        grouping has made the request void.
        """
        return grouping_to_warm(self.latest, fields, version)

    def incarnations_kept(self, since_ms: int) -> frozenset[int]:
        """The incarnations of the rules whose marks are kept: the rules in force, and those that ended at `since_ms`
        (rule time) or later, because transactions that arrived before the end of a rule can still come."""
        latest = self.latest
        ended = (incarnation for incarnation, ended_ms in latest.ended_rules_ms.items() if ended_ms >= since_ms)
        return frozenset(each.incarnation for each in latest.rules.values()).union(ended)

    def rule_set(self, count: int) -> RuleSet:
        """The rule set after the first `count` entries. Raises ValueError for a count beyond the log."""
        if not 0 <= count <= len(self.entries):
            raise ValueError(f"a rule log of {len(self.entries)} entries has no rule set {count}")
        rule_set = self._cache.get(count)
        if rule_set is None:
            rule_set = self._fold(count)
            self._add_to_cache(count, rule_set)
        return rule_set

    @property
    def latest(self) -> RuleSet:
        """The rule set after all entries."""
        return self.rule_set(len(self.entries))

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"RuleTimeline({len(self.entries)} entries, end={self.end})"

    def _fold(self, count: int) -> RuleSet:
        start = max(cached for cached in tuple(self._cache) if cached <= count)
        fold = RuleFold(self._cache[start])
        for entry in self.entries[start:count]:
            fold.apply(entry)
        return fold.rule_set()

    def _add_to_cache(self, count: int, rule_set: RuleSet) -> None:
        """Add a rule set, and remove the oldest one from a full cache. The empty rule set always stays."""
        if len(self._cache) >= _CACHED_RULE_SETS:
            oldest = next(cached for cached in self._cache if cached > 0)
            self._cache.pop(oldest, None)
        self._cache[count] = rule_set


def _counts_with_rules(known: int, entries: Iterable[LogEntry]) -> list[int]:
    """The numbers of entries that end with a change of the rule set. `entries` follow the first `known` entries."""
    return [count for count, entry in enumerate(entries, known + 1) if changes_rules(entry)]


def _extremes(values: NDArray[np.int64]) -> tuple[int, int]:
    return int(values.min()), int(values.max())


def _rule_time(entry: LogEntry) -> int:
    return entry.time_ms


def grouping_to_warm(rules: RuleSet, fields: Grouping, version: int) -> GroupingInForce | None:
    """The grouping of a rule set to which the history of the request `version` belongs; None for a void request."""
    grouping = rules.groupings.get(fields)
    return grouping if grouping is not None and grouping.epoch <= version else None


def _with_rule_times(last: LogEntry | None, entries: Iterable[LogEntry]) -> list[LogEntry]:
    """The entries after the last known entry with their rule times: the running maximum of append times.

    An entry that a pin names as rejected does not raise the maximum, so a wrong append time ends with its entry.
    """
    timed = []
    version, time_ms = (-1, 0) if last is None else (last.version, last.time_ms)
    for entry in entries:
        if entry.version <= version:
            raise ValueError(f"rule log entry {entry.version} does not come after {version}")
        version, time_ms = entry.version, time_ms if entry.rejected_in_pin else max(time_ms, entry.append_ms)
        timed.append(entry if entry.time_ms == time_ms else replace(entry, time_ms=time_ms))
    return timed


def _end_after(entries: Sequence[LogEntry], known_end: int, end: int | None) -> int:
    """The end of a log: `end`, or by default the lowest possible end. Raises ValueError if `end` is lower."""
    lowest = max(known_end, entries[-1].version + 1 if entries else 0)
    if end is None:
        return lowest
    if end < lowest:
        raise ValueError(f"a rule log that reaches offset {lowest} cannot end at {end}")
    return end
