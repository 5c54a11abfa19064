"""Runs a batch on the driver: pin, evaluate, merge, write.

Runs in Spark's callback thread, one batch at a time. Any error ends the query and the process, and the next start
repeats the batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.decision import alerts_in_order
from fraud_rules.errors import CheckpointDamaged
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.logs.detector_status import TrafficCounts, decode_progress
from fraud_rules.model.lost_records import LostRecords, Offsets
from fraud_rules.model.output import KeyGroupOutput
from fraud_rules.runtime import clock
from fraud_rules.spark.storage import Folder
from fraud_rules.stream.checkpoint import end_offsets, initial_offsets, is_committed, query_id
from fraud_rules.stream.driver.latency_meter import LatencyMeter
from fraud_rules.stream.driver.losses import AcceptedLoss
from fraud_rules.stream.driver.marker import Marker
from fraud_rules.stream.driver.metrics import DetectorMetrics
from fraud_rules.stream.driver.progress import BatchOutputs, BatchPosition, BatchTimings, RunTotals, progress_record
from fraud_rules.stream.driver.query import BatchJobs
from fraud_rules.stream.driver.records import (
    BatchTime,
    alert_records,
    decision_records,
    export_records,
    late_records,
    latency_records,
    quarantine_records,
    rule_operation_records,
    state_records,
    warm_up_records,
)
from fraud_rules.stream.driver.rule_pinning import BatchRules, RulePinner
from fraud_rules.stream.driver.ticker import Ticker
from fraud_rules.stream.state_position import StatePosition, tell
from fraud_rules.stream.work import BatchWatch
from fraud_rules.stream.worker.context import PIN_PROPERTY, STATE_PROPERTY, WorkerContext
from fraud_rules.stream.worker.spill import Spill, is_file
from fraud_rules.stream.worker.state_log import StateDelta
from fraud_rules.stream.worker.wire import SIDE_OUTPUT, OutputRow, SideOutput

MAX_QUARANTINED_BYTES = 10_485_760


class Draining(Exception):
    """Raised instead of starting another batch."""


@dataclass(frozen=True, slots=True)
class BatchParts:
    """The objects that a batch runner uses."""

    spark: SparkSession
    context: WorkerContext
    settings: DetectorSettings
    folder: Folder
    pinner: RulePinner
    writer: BatchWriter
    ticker: Ticker
    watch: BatchWatch
    spill: Spill
    metrics: DetectorMetrics
    meter: LatencyMeter | None
    """Measures the average latency. None if its topic does not exist."""


@dataclass(frozen=True, slots=True)
class BatchOrigin:
    """Facts about a start. Its batches write them to the progress records and markers.

    `rebuilt` means that the state includes the batches of earlier queries (`--adopt`, rebuild). `attempt` is the id of
    the attempt, None without an agent. `topics` are Kafka's ids of the input topics, by name. `loss` is the last
    accepted loss; one batch reports it.
    """

    rebuilt: bool = False
    attempt: str | None = None
    topics: Mapping[str, str] = field(default_factory=dict)
    loss: AcceptedLoss | None = None

    def lost_before(self, batch_id: int) -> Sequence[LostRecords]:
        """The lost records that this batch reports, because it is the first batch after them."""
        return self.loss.lost if self.loss is not None and self.loss.batch_id == batch_id else ()


class BatchRunner:
    """Runs the batches of one start of the detector."""

    def __init__(
        self,
        parts: BatchParts,
        marker: Marker | None,
        state: StatePosition,
        resumed_at: int | None,
        origin: BatchOrigin,
    ) -> None:
        """`state` is the state at the marker. `resumed_at` is the offset of the last lifted stop in the rule log.

        `draining` makes the runner refuse further batches. `stopped_at` is the offset of the stop that set
        `draining`, if any. `failure` is the error of a failed batch.
        """
        self._parts = parts
        self._jobs = BatchJobs(parts.spark, parts.context)
        self._marker = marker
        self._state = state
        # The key groups whose orphans no batch of this start has deleted.
        self._unswept = set(range(len(state.versions)))
        self._resumed_at = resumed_at
        self._origin = origin
        self._totals = RunTotals(TrafficCounts(clock.now_ms(), 0, 0, 0))
        self._previous_timings: BatchTimings | None = None
        self._query_id: str | None = None
        self._busy = False
        self.draining = threading.Event()
        self._last_batch = -1
        self._ends_of: tuple[int, Offsets] | None = None
        self.stopped_at: int | None = None
        self.failure: Exception | None = None

    def run(self, _: DataFrame, batch_id: int) -> None:
        """Run one batch. Spark calls this method with the frame of the query's own plan, see `query`."""
        if self.draining.is_set():
            self._parts.spark.sparkContext.setLogLevel("OFF")  # otherwise Spark logs the next exception as an error
            raise Draining
        self._busy = True
        self._parts.watch.batch_started(batch_id)
        try:
            self._run(batch_id)
        except Exception as error:
            self.failure = error
            raise
        finally:
            self._busy = False

    def is_settled(self) -> bool:
        """Whether no batch runs and Spark has committed the last one."""
        return not self._busy and (self._last_batch < 0 or is_committed(self._parts.folder, self._last_batch))

    def _run(self, batch_id: int) -> None:
        """Run a batch, unless its outputs and its state are written already."""
        started = time.monotonic()
        starts = self._starts(batch_id)
        rules = self._parts.pinner.rules_of(batch_id, starts.get(self._parts.settings.topics.transactions, {}))
        if self._marker is not None and self._marker.covers(batch_id):
            self._parts.watch.batch_ended()
            self._last_batch = batch_id
            self._check_stop(rules)
            return
        pinned = time.monotonic()
        spark = self._parts.spark.sparkContext
        spark.setLocalProperty(PIN_PROPERTY, rules.pin.encode().decode())
        spark.setLocalProperty(STATE_PROPERTY, tell(self._state.after({}, self._state_ends()), self._unswept))
        ends = end_offsets(self._parts.folder, batch_id)
        outputs, spilled = _decode(self._jobs.run(starts, ends), self._parts.spill)
        evaluated = time.monotonic()
        self._totals.add(outputs)
        totals = self._totals
        self._parts.pinner.record_batch(
            outputs.rows, outputs.event_span_ms, totals.retained_events, totals.retained_marks
        )
        self._write(batch_id, ends, rules, outputs)
        if self._parts.watch.batch_ended() or spilled:
            self._parts.spill.clean()
        written = time.monotonic()
        if self._parts.meter is not None:
            self._parts.meter.add(outputs.rows, outputs.append_total_ms, clock.now_ms())
        self._previous_timings = _timings(batch_id, outputs, (started, pinned, evaluated, written))
        self._parts.ticker.record_batch()
        self._last_batch, self._ends_of = batch_id, (batch_id, ends)
        self._check_stop(rules)

    def _starts(self, batch_id: int) -> Offsets:
        """The end offsets of the batch before. Only the first batch of a start reads them from the checkpoint."""
        if self._ends_of is not None and self._ends_of[0] == batch_id - 1:
            return self._ends_of[1]
        folder = self._parts.folder
        return end_offsets(folder, batch_id - 1) if batch_id else initial_offsets(folder) or {}

    def _write(self, batch_id: int, ends: dict[str, dict[str, int]], rules: BatchRules, outputs: BatchOutputs) -> None:
        if self._query_id is None:
            self._query_id = query_id(self._parts.folder)
        origin = self._origin
        lost = origin.lost_before(batch_id)
        position = BatchPosition(self._query_id, batch_id, ends, rules.pin, origin.rebuilt, origin.attempt, lost)
        changed = {delta.key_group: delta.version for delta in outputs.states}
        self._state = self._state.after(changed, self._state_ends())
        marker = Marker(
            position.query_id, batch_id, ends, rules.pin, self._parts.pinner.rate, dict(origin.topics), self._state
        )
        progress = self._progress(position, rules, outputs)
        self._parts.writer.write(self._records(position, rules, outputs, progress, marker))
        self._marker = marker
        self._unswept -= changed.keys()
        self._parts.metrics.add_batch(decode_progress(progress))

    def _state_ends(self) -> dict[int, int]:
        """The known ends of the topic of the state, by partition."""
        return self._parts.writer.ends.get(self._parts.settings.topics.detector_state, {})

    def _progress(self, position: BatchPosition, rules: BatchRules, outputs: BatchOutputs) -> bytes:
        lag = self._parts.ticker.lag(position.end_offsets.get(self._parts.settings.topics.transactions, {}))
        in_force = len(rules.timeline.latest.rules)
        return progress_record(position, outputs, self._totals, in_force, lag, self._previous_timings)

    def _records(
        self, position: BatchPosition, rules: BatchRules, outputs: BatchOutputs, progress: bytes, marker: Marker
    ) -> Iterator[OutRecord]:
        """Yield all records of a batch in order, the marker last."""
        topics = self._parts.settings.topics
        at = BatchTime(position.batch_id, clock.now_ms())
        alerts = alerts_in_order(outputs.groups)
        yield from alert_records(alerts, topics)
        yield from decision_records(alerts, self._parts.settings, at)
        yield from late_records(outputs.groups, topics)
        quarantined = [record for each in outputs.side_outputs for record in each.refused]
        yield from quarantine_records(quarantined, topics, MAX_QUARANTINED_BYTES)
        if self._parts.settings.evaluations:
            for group in outputs.groups:
                yield from (OutRecord(topics.evaluations, evaluation) for evaluation in group.evaluations)
        yield from rule_operation_records(rules.new, rules.timeline, rules.pin, at, topics)
        yield from warm_up_records(rules.warm_ups, rules.timeline, at, topics)
        yield from export_records(rules.new, rules.timeline, topics)
        if self._parts.meter is not None:
            yield from latency_records(self._parts.meter.due_average(at.time_ms), topics)
        yield from state_records(outputs.states, self._parts.context.state_topic)
        detector = self._parts.settings.detector.encode()
        yield OutRecord(topics.detector_progress, progress, detector)
        yield OutRecord(topics.detector_marker, marker.encode(), detector)

    def _check_stop(self, rules: BatchRules) -> None:
        stopped_at = rules.timeline.latest.stopped_at
        if stopped_at is not None and (self._resumed_at is None or stopped_at > self._resumed_at):
            self.stopped_at = stopped_at
            self.draining.set()


def _decode(rows: Sequence[OutputRow], spill: Spill) -> tuple[BatchOutputs, bool]:
    """The outputs of a batch, and whether any of them was spilled."""
    groups: list[KeyGroupOutput] = []
    side_outputs: list[SideOutput] = []
    states: list[StateDelta] = []
    spilled = False
    for key_group, blob, state in rows:
        if key_group == SIDE_OUTPUT:
            side_outputs.append(SideOutput.decode(blob))
        else:
            spilled |= is_file(blob)
            groups.append(KeyGroupOutput.decode(spill.unpack(blob)))
            if state is not None:
                states.append(StateDelta.decode(state))
    if len({group.key_group for group in groups}) != len(groups):
        raise CheckpointDamaged("a key group was evaluated twice in one batch: this is a defect, please report it")
    groups.sort(key=lambda group: group.key_group)
    return BatchOutputs(groups, side_outputs, states), spilled


def _timings(batch_id: int, outputs: BatchOutputs, at: tuple[float, float, float, float]) -> BatchTimings:
    now_ms = clock.now_ms()

    def latency_ms(q: float) -> int | None:
        append_ms = outputs.append_ms(q)
        return None if append_ms is None else now_ms - append_ms

    pin_ms, evaluate_ms, write_ms = (round((b - a) * clock.MS_PER_S) for a, b in pairwise(at))
    return BatchTimings(
        batch_id,
        outputs.rows,
        pin_ms,
        evaluate_ms,
        write_ms,
        p50_ms=latency_ms(0.5),
        p99_ms=latency_ms(0.01),
        max_ms=latency_ms(0.0),
    )
