"""The histories that warm-ups have added, for the evaluation of a day.

A batch adds a history: rows of that batch and later count it, earlier rows do not. An evaluation in the order of event
time adds it at one event time, that of the batch's record in `detector-progress`. Both agree for all rows except those
around that time (`is_undecided`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fraud_rules.batch.archive.files import transactions_by_group
from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.cuts import Cuts
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.fanout import in_arrival_order, rows_by_key_group
from fraud_rules.engine.role_rows import role_rows
from fraud_rules.engine.warm_up import WarmHistory, collect_history
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.day import DAY_MS
from fraud_rules.model.rule import Rule
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.model.warm_up import WarmUpRequest, request_at

Histories = Mapping[int, WarmHistory]
"""The history of each key group that has one."""


@dataclass(frozen=True, slots=True)
class AddedWarmUp:
    """A warm-up that a batch added at `at_ms`. Its job read `files`, up to the offsets in `ends`, by partition.

    `archived` is false if the archive began after a transaction that the job may have read.
    """

    request: WarmUpRequest
    at_ms: int
    ends: Mapping[int, int]
    files: tuple[FileEntry, ...]
    archived: bool = True

    def histories(
        self, key_groups: Sequence[int], archive: ArchiveStore, schema: TransactionSchema, settings: DetectorSettings
    ) -> Histories:
        """Collect the history of each of these key groups, as the job did. Raises ArchiveDamaged."""
        parts: dict[int, list[TransactionBatch]] = {}
        for rows in self._rows(archive, schema):
            keyed = rows_by_key_group(rows, self.request.fields, settings.key_groups)
            for key_group in key_groups:
                if key_group in keyed:
                    parts.setdefault(key_group, []).append(keyed[key_group])
        return {
            key_group: collect_history(
                self.request, [in_arrival_order(TransactionBatch.concat(pieces))], schema, settings
            )
            for key_group, pieces in parts.items()
        }

    def _rows(self, archive: ArchiveStore, schema: TransactionSchema) -> Iterator[TransactionBatch]:
        for entry in self.files:
            for stored in transactions_by_group(archive, entry, schema):
                rows = role_rows(stored.before(self.ends), schema.entity_of(self.request.fields))
                yield rows.take(self.request.concerns(rows))


def added_warm_ups(
    timeline: RuleTimeline, cuts: Cuts, manifest: Manifest, settings: DetectorSettings
) -> tuple[AddedWarmUp, ...]:
    """The warm-ups that batches have added, in their order."""
    topic = settings.topics.transactions
    began_ms = manifest.began_ms if any(offset > 0 for offset in manifest.starts.get(topic, {}).values()) else None
    files = manifest.of(Table.TRANSACTIONS)
    found = []
    for added in cuts.warm_ups:
        request = request_at(timeline, added.version)
        if request is not None:
            needed_ms = request.until_ms - 2 * request.reach_ms - settings.max_out_of_orderness_ms - DAY_MS
            used = tuple(each for each in files if each.last_ms >= needed_ms)
            archived = began_ms is None or began_ms <= request.until_ms - request.reach_ms
            found.append(AddedWarmUp(request, added.at_ms, added.ends, used, archived))
    return tuple(found)


def is_undecided(added: AddedWarmUp, rule: Rule, event_ms: int, append_ms: int, settings: DetectorSettings) -> bool:
    """Whether the evaluation of a day cannot judge an alert of a rule of the warm-up's grouping.

    That is an alert near the time at which the history was added, or of a transaction that arrived after that time and
    belongs before it. A cool-down or a reset extends the doubt.
    """
    if not added.archived:
        slack_ms = settings.max_out_of_orderness_ms + (rule.cooldown_ms or 0)
        return event_ms <= added.request.until_ms + added.request.reach_ms + slack_ms
    resets = rule.aggregate_function is AggregateFunction.COUNT_WITH_RESET
    after_ms = settings.max_out_of_orderness_ms + (rule.cooldown_ms or 0) + (rule.reach_ms if resets else 0)
    late = append_ms >= added.at_ms > event_ms
    return late or added.at_ms - settings.max_out_of_orderness_ms <= event_ms <= added.at_ms + after_ms


def split_at(
    slices: Iterator[TransactionBatch], added: Sequence[AddedWarmUp]
) -> Iterator[tuple[TransactionBatch, list[AddedWarmUp]]]:
    """Split rows in the order of event time at the times of these warm-ups. Yield each part with the warm-ups whose
    histories come before it; the last part may be empty.
    """
    waiting = deque(sorted(added, key=lambda each: (each.at_ms, each.request.version)))
    rows = None
    for rows in slices:
        times, start, due = rows.columns[TIME_FIELD].values, 0, list[AddedWarmUp]()
        while waiting and waiting[0].at_ms <= int(times[-1]):
            end = int(np.searchsorted(times, waiting[0].at_ms, side="left"))
            if end > start:
                yield rows.take(np.arange(start, end)), due
                start, due = end, []
            due.append(waiting.popleft())
        yield rows if start == 0 else rows.take(np.arange(start, len(rows))), due
    if waiting and rows is not None:
        yield rows.take(np.arange(0)), list(waiting)
