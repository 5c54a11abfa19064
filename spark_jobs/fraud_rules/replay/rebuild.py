"""Recomputes the state of key groups from recorded batches, with the detector's fan-out and engine. Pure.

The logs, the ends of the batches and the pins determine the state, so the rebuilt state equals the original. A rebuild
evaluates many recorded batches at once, as a segment, and keeps the order in which the detector accepted their rows. It
builds alerts only if rules name rules: after each segment, `Segment.conclude` returns the marks that these rules have
changed, and the next segment sets them. Nothing else in the state depends on these marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.engine import EPOCH_GRACE_MS, KeyGroupEngine, RowOrder
from fraud_rules.engine.fanout import fan_out
from fraud_rules.engine.state.store import ViewStore
from fraud_rules.engine.statelog import StateLog
from fraud_rules.engine.warm_up import WarmHistory
from fraud_rules.model.output import KeyGroupOutput, MarkUpdate
from fraud_rules.model.rule_names import names_rules
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.replay.segments import Segment

TimelineOf = Callable[[int], RuleTimeline]
"""Returns the rule log below an offset, without the rejected records."""


class PartBlob(NamedTuple):
    """The packed rows of a key group in one part of a segment."""

    part: int
    key_group: int
    blob: bytes


class SegmentEvaluation:
    """Evaluates a segment in two steps: the fan-out of its transactions, and the key groups' engines."""

    def __init__(
        self,
        segment: Segment,
        timeline_of: TimelineOf,
        schema: TransactionSchema,
        settings: DetectorSettings,
        known_from_ms: int | None = None,
    ) -> None:
        """`known_from_ms` is the append time from which on the history has all transactions, None if it has all."""
        self._known_from_ms = known_from_ms
        self._segment = segment
        self._timeline_of = timeline_of
        self._schema = schema
        self._settings = settings
        self._order = RowOrder(self._arrange, lambda rows: int(rows.append_ms.max()), EPOCH_GRACE_MS)

    @cached_property
    def _concludes(self) -> bool:
        """Whether rules name rules in the segment or before it."""
        return names_rules(self._timeline_of(self._segment.rules_end).entries)

    def fan_out(self, rows: TransactionBatch) -> Iterator[PartBlob]:
        """Fan out transactions of the segment, part by part, under the rules that each part has read."""
        segment = self._segment
        parts = segment.part_of[segment.batch_of(rows)]
        for part in np.unique(parts).tolist():
            timeline = self._timeline_of(segment.rules_end_of(part))
            chosen = rows.take(parts == part)
            for key_group, blob in fan_out(chosen, timeline, self._schema, self._settings.key_groups).items():
                yield PartBlob(part, key_group, blob)

    def evaluate(
        self,
        key_group: int,
        parts: Mapping[int, Sequence[bytes]],
        log: StateLog,
        views: ViewStore,
        histories: Sequence[WarmHistory] = (),
        marks: Sequence[MarkUpdate] = (),
    ) -> list[KeyGroupOutput]:
        """Add the blobs of a key group to its state, part by part. `parts` has the blobs by part.

        `histories` are the results of the segment's warm-ups, and `marks` the key group's marks that the segment before
        has changed. With any, `parts` has the first part. Returns the outputs for `Segment.conclude`, without the
        others; none if no rule names rules.
        """
        engine = KeyGroupEngine(
            key_group,
            self._schema,
            self._settings,
            log,
            views,
            row_order=self._order,
            observer=None if self._concludes else _build_no_alerts,
            known_from_ms=self._known_from_ms,
        )
        found = []
        for part in sorted(parts):
            timeline = self._timeline_of(self._segment.rules_end_of(part))
            first = (histories, marks) if part == 0 else ()
            output = engine.process(parts[part], timeline, part, 0, *first)
            found.append(msgspec.structs.replace(output, alerts=[], evaluations=[], costs=[], matches=[], keys=[]))
        return found if self._concludes else []

    def _arrange(self, rows: TransactionBatch) -> TransactionBatch:
        """Sort rows by batch, and in arrival order within a batch."""
        batches = self._segment.batch_of(rows)
        return rows.take(np.lexsort((rows.offset, rows.partition, rows.append_ms, batches)))


def _build_no_alerts(*_: object) -> None:
    """An observer: the detector has already written the alerts."""
