"""The rows of a task, by key group and grouping, in the order in which the engine accepts them.

The key groups of a small batch have a few rows each. So the work that depends on the rows and the rules, but not on the
state, is done once for all key groups of a task: `GroupingRows` has the rows of one grouping in all key groups, and a
key group's part is a range of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fraud_rules.engine.distinct import distinct
from fraud_rules.engine.fanout import Ints, in_arrival_order, targets_of, unpack_blobs
from fraud_rules.engine.lookups import lookup_columns
from fraud_rules.engine.state.event_rows import PredicateMasks, event_rows, predicate_masks
from fraud_rules.engine.state.rule_sample import RuleSample
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.ruleset import Grouping, GroupingInForce, RuleSet, RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch


class RowVersions(NamedTuple):
    """The versions of a grouping that apply to rows: `in_force`, and for each row its position there and the number of
    log entries that apply (int64[n])."""

    in_force: list[GroupingInForce]
    positions: Ints
    entry_counts: Ints


class _CommonVersion(NamedTuple):
    """The number of log entries that apply to all rows of a batch, and the rules after them."""

    entries: int
    rules: RuleSet

    @classmethod
    def of(cls, batch: TransactionBatch, timeline: RuleTimeline) -> _CommonVersion | None:
        """None if rows of the batch have different numbers of log entries."""
        entries = timeline.common_count(batch.append_ms)
        if entries is None:
            return None
        (rule_count,) = timeline.rule_counts(np.array([entries])).tolist()
        return cls(entries, timeline.rule_set(rule_count))

    def versions(self, fields: Grouping, n: int) -> RowVersions:
        """The versions of a grouping in force that apply to n rows."""
        return RowVersions([self.rules.groupings[fields]], np.zeros(n, np.int64), np.full(n, self.entries, np.int64))


class GroupingRows:
    """The rows of one grouping, ordered by key group and then in the order of their acceptance."""

    def __init__(
        self, fields: Grouping, batch: TransactionBatch, versions: tuple[RuleTimeline, RowVersions] | None = None
    ) -> None:
        self.fields = fields
        self.batch = batch
        self._versions = versions
        self._events: tuple[TransactionSchema, Ints] | None = None
        self._masks: tuple[GroupingPlan, PredicateMasks] | None = None

    def versions(self, timeline: RuleTimeline) -> RowVersions:
        """The versions of the grouping that apply to the rows."""
        if self._versions is None or self._versions[0] is not timeline:
            entry_counts = timeline.entry_counts_of(self.batch)
            counts, positions = distinct(timeline.rule_counts(entry_counts))
            in_force = [timeline.rule_set(int(count)).groupings[self.fields] for count in counts]
            self._versions = timeline, RowVersions(in_force, positions, entry_counts)
        return self._versions[1]

    def events(self, schema: TransactionSchema) -> Ints:
        """The rows in the layout of events (see `event_rows`)."""
        if self._events is None or self._events[0] is not schema:
            self._events = schema, event_rows(self.batch, schema)
        return self._events[1]

    def masks(self, plan: GroupingPlan, timeline: RuleTimeline, sample: RuleSample | None = None) -> PredicateMasks:
        """The masks of the plan's predicates. With a sample, they are evaluated again."""
        if self._masks is None or self._masks[0] is not plan or sample is not None:
            columns, counts = self.batch.columns, self.versions(timeline).entry_counts
            looked_up = lookup_columns(plan.judged[None].lookups, timeline, columns, counts)
            self._masks = plan, predicate_masks(plan, {**columns, **looked_up}, len(self.batch), sample)
        return self._masks[1]


class RowRange(NamedTuple):
    """The rows [start, end) of a grouping: those of one key group."""

    rows: GroupingRows
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        """Whether one key group has all rows of the grouping."""
        return self.end - self.start == len(self.rows.batch)

    @property
    def batch(self) -> TransactionBatch:
        """The rows of the range."""
        if self.is_whole:
            return self.rows.batch
        indices: Any = slice(self.start, self.end)
        return self.rows.batch.take(indices)


def rows_of_blobs(
    blobs: Iterable[bytes], arrange: Callable[[TransactionBatch], TransactionBatch] = in_arrival_order
) -> list[RowRange]:
    """The rows of a key group, unpacked from its blobs. `arrange` sorts the rows of one grouping."""
    return [
        RowRange(GroupingRows(fields, batch), 0, len(batch)) for fields, batch in unpack_blobs(blobs, arrange).items()
    ]


def spread(
    batch: TransactionBatch, timeline: RuleTimeline, schema: TransactionSchema, key_groups: int
) -> dict[int, list[RowRange]]:
    """Assign the rows of a batch to key groups, without packing them. The result excludes key groups without rows."""
    found: dict[int, list[RowRange]] = {}
    ordered = in_arrival_order(batch)
    common = _CommonVersion.of(ordered, timeline)
    for fields, source, rows, targets in targets_of(ordered, timeline, schema, key_groups):
        order = np.argsort(targets.astype(np.uint16), kind="stable")
        versions = None if common is None else (timeline, common.versions(fields, len(rows)))
        shared = GroupingRows(fields, source.take(rows[order]), versions)
        ends = np.cumsum(np.bincount(targets, minlength=key_groups)).tolist()
        for key_group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if end > start:
                found.setdefault(key_group, []).append(RowRange(shared, start, end))
    return found
