"""Evaluates a day, or a part of its key groups, through the detector's engine in order of event time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.conclusion import conclude, place_of
from fraud_rules.engine.engine import EPOCH_GRACE_MS, KeyGroupEngine, Observer, RowOrder
from fraud_rules.engine.fanout import EMPTY_BLOB, fan_out
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog, restore_image
from fraud_rules.engine.warm_up import WarmHistory
from fraud_rules.model.output import AlertRecord, KeyGroupOutput, MarkUpdate
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch


def by_event_time(settings: DetectorSettings) -> RowOrder:
    """The order of rows that are sorted by (event time, arrival).

    An epoch that ended at append time T may have rows with event times up to T plus the tolerance for fast clocks.
    """
    return RowOrder(_as_they_come, _newest_event_ms, EPOCH_GRACE_MS + settings.future_tolerance_ms)


def _as_they_come(rows: TransactionBatch) -> TransactionBatch:
    return rows


def _newest_event_ms(rows: TransactionBatch) -> int:
    return int(rows.columns[TIME_FIELD].values.max())


@dataclass(frozen=True, slots=True)
class _Group:
    engine: KeyGroupEngine
    log: MemoryStateLog


class DayRun:
    """The evaluation of some key groups, from the start state of a day to its end state."""

    def __init__(
        self,
        key_groups: Sequence[int],
        timeline: RuleTimeline,
        schema: TransactionSchema,
        settings: DetectorSettings,
        start: Mapping[int, bytes],
        observer: Observer | None = None,
    ) -> None:
        """`start` has the key groups' images of `images`. A missing key group starts without state."""
        self._timeline = timeline
        self._schema = schema
        self._key_groups = settings.key_groups
        self._groups: dict[int, _Group] = {}
        views, row_order = HeapViews(), by_event_time(settings)
        for key_group in key_groups:
            log = MemoryStateLog()
            if key_group in start:
                restore_image(log, start[key_group])
            engine = KeyGroupEngine(key_group, schema, settings, log, views, row_order, observer)
            self._groups[key_group] = _Group(engine, log)
        self._slices = 0
        self._marks: Sequence[MarkUpdate] = ()

    def process(
        self, rows: TransactionBatch, detection_ms: int, histories: Sequence[Mapping[int, WarmHistory]] = ()
    ) -> Iterator[AlertRecord]:
        """Add the histories of warm-ups, by key group. Evaluate the next rows, in the order of (event time, arrival),
        and yield their alerts. Rules that name rules are concluded among these key groups.
        """
        blobs = fan_out(rows, self._timeline, self._schema, self._key_groups, self._groups)
        outputs = list(self._outputs(blobs, detection_ms, histories))
        places = {}
        if any(output.pending for output in outputs):
            arrived = zip(rows.append_ms.tolist(), rows.partition.tolist(), rows.offset.tolist(), strict=True)
            places = {place: number for number, place in enumerate(arrived)}
        concluded, self._marks = conclude(outputs, self._timeline, lambda alert: (places[place_of(alert)],))
        for output in concluded:
            yield from output.alerts

    def _outputs(
        self,
        blobs: Mapping[int, bytes],
        detection_ms: int = 0,
        histories: Sequence[Mapping[int, WarmHistory]] = (),
    ) -> Iterator[KeyGroupOutput]:
        for key_group, group in self._groups.items():
            blob = blobs.get(key_group, EMPTY_BLOB)
            added = [each[key_group] for each in histories if key_group in each]
            yield group.engine.process([blob], self._timeline, self._slices, detection_ms, added, self._marks)
        self._slices += 1

    def images(self) -> Iterator[tuple[int, bytes]]:
        """Yield the image of each key group with state."""
        if self._marks:
            list(self._outputs({}))
            self._marks = ()
        for key_group, group in self._groups.items():
            image = group.log.image()
            if image is not None:
                yield key_group, image
