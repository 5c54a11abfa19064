"""Runs a batch on the driver: pin, evaluate, merge, write.

Any error ends the process, and the next start repeats the batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import msgspec

from fraud_rules.codec.transactions.codec import UNTIMED
from fraud_rules.engine.admission.budget import RetainedState
from fraud_rules.engine.conclusion import conclude
from fraud_rules.engine.decision import alerts_in_order
from fraud_rules.errors import DetectorFailed, TransactionExpired
from fraud_rules.kafka.suitable import check_inputs
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.logs.data_health import hour_record
from fraud_rules.logs.detector_status import BatchLatency, BatchProgress, TrafficCounts, encode_progress
from fraud_rules.model.output import KeyGroupOutput, MarkUpdate
from fraud_rules.runtime import clock
from fraud_rules.stream.batch_loop import PlannedBatch
from fraud_rules.stream.batch_order import BatchOrder, pack_marks
from fraud_rules.stream.checkpoint.mark_parts import encode_parts, part_records
from fraud_rules.stream.checkpoint.marker import Marker, check_holder, marker_record, read_marker
from fraud_rules.stream.data_health import HealthMeter
from fraud_rules.stream.driver.batch_jobs import BatchJobs
from fraud_rules.stream.driver.channel_server import ChannelServer
from fraud_rules.stream.driver.lag_meter import LagMeter
from fraud_rules.stream.driver.latency_meter import LatencyMeter
from fraud_rules.stream.driver.metrics import DetectorMetrics
from fraud_rules.stream.driver.progress import BatchOutputs, RulesInForce, RunTotals, batch_progress
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
    traces_of,
    warm_up_records,
)
from fraud_rules.stream.driver.rule_pinning import BatchRules, RulePinner
from fraud_rules.stream.rule_costs import RuleCosts
from fraud_rules.stream.state_position import StatePosition
from fraud_rules.stream.work import BatchWatch
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.state_log import StateDelta
from fraud_rules.stream.worker.wire import SIDE_OUTPUT, OutputRow, SideOutput, unpack

_RULES_PARTITION: Final = "0"
"""The rule log has this partition only."""

MAX_QUARANTINED_BYTES = 8_000_000
"""A longer record is cut, so that it and its headers are below `MAX_RECORD_BYTES`."""


@dataclass(slots=True)
class BatchRunner:
    """Runs the batches of one start of the detector.

    `meter` measures the average latency, and `health` the health of the payments and rules; each is None if its topic
    does not exist. `marker` is the newest marker, `state` the state at it, and `marks` are its marks, which the next
    batch sets. `attempt` is the id of the attempt, None without an agent. `stopped_at` is the offset of a
    stop that a batch has read and that is in force, if any.
    """

    jobs: BatchJobs
    context: WorkerContext
    pinner: RulePinner
    writer: BatchWriter
    lag: LagMeter
    watch: BatchWatch
    channel: ChannelServer
    metrics: DetectorMetrics
    meter: LatencyMeter | None
    health: HealthMeter | None
    marker: Marker
    state: StatePosition
    marks: Sequence[MarkUpdate] = ()
    attempt: str | None = None
    stopped_at: int | None = field(init=False, default=None)
    _totals: RunTotals = field(init=False, default_factory=lambda: RunTotals(TrafficCounts(clock.now_ms(), 0, 0, 0)))
    _costs: RuleCosts = field(init=False, default_factory=RuleCosts)
    _previous_timings: BatchLatency | None = field(init=False, default=None)
    _with_orphans: set[int] = field(init=False)
    """The key groups whose orphans no batch of this start has deleted."""

    def __post_init__(self) -> None:
        self._with_orphans = set(range(len(self.state.versions)))

    def run(self, batch: PlannedBatch) -> bool:
        """Run a batch. Return whether another may follow it."""
        self.watch.batch_started(batch.batch_id)
        started = time.monotonic()
        topics = self.context.settings.topics
        rules_end = batch.ends.get(topics.rules, {}).get(_RULES_PARTITION, 0)
        rules = self.pinner.rules_of(batch.batch_id, rules_end, batch.starts.get(topics.transactions, {}))
        pinned = time.monotonic()
        state = self.state.after({}, self._state_ends())
        marks = pack_marks(self.marks)
        order = BatchOrder(rules.pin, state.versions, state.ends, sorted(self._with_orphans), marks=marks)
        outputs = _decode(self.jobs.run(order, batch), self.channel)
        groups, changed_marks = conclude(outputs.groups, rules.timeline)
        outputs = replace(outputs, groups=groups)
        self._require_append_times(outputs)
        evaluated = time.monotonic()
        self._totals.add(outputs)
        self._costs.add(outputs.groups)
        totals = self._totals
        retained = RetainedState(totals.retained_events, totals.retained_marks, totals.string_bytes)
        self.pinner.record_batch(outputs.rows, outputs.event_span_ms, retained)
        self._write(batch, rules, outputs, changed_marks)
        self.watch.batch_ended()
        self.channel.batch_ended()
        written = time.monotonic()
        if self.meter is not None:
            self.meter.add(outputs.rows, outputs.append_total_ms, clock.now_ms())
        self._previous_timings = _timings(batch.batch_id, outputs, (started, pinned, evaluated, written))
        return self._may_continue(rules)

    def _require_append_times(self, outputs: BatchOutputs) -> None:
        """Raise TopicUnsuitable if a record has no append time and the topic still has the producers' timestamps.

        After the setting is restored, the records without an append time go to quarantine.
        """
        if any(record.reason == UNTIMED for each in outputs.side_outputs for record in each.rejected):
            check_inputs(self.context.kafka, self.context.settings.topics)

    def _write(self, batch: PlannedBatch, rules: BatchRules, outputs: BatchOutputs, marks: list[MarkUpdate]) -> None:
        before = self.marker
        parts = encode_parts(before.query_id, batch.batch_id, marks)
        changed = {delta.key_group: delta.version for delta in outputs.states}
        self.state = self.state.after(changed, self._state_ends())
        marker = msgspec.structs.replace(
            before,
            batch_id=batch.batch_id,
            end_offsets=batch.ends,
            pin=rules.pin,
            rate=self.pinner.rate,
            state=self.state,
            lost=[],
            starts=0,
            mark_parts=len(parts),
        )
        progress = self._progress(marker, rules, outputs)
        try:
            self.writer.write(self._records(marker, rules, outputs, progress, parts))
        except TransactionExpired:
            check_holder(read_marker(self.context.kafka, self.context.settings), before)
            raise
        self.marker, self.marks = marker, marks
        self._with_orphans -= changed.keys()
        self.metrics.add_batch(progress)

    def _state_ends(self) -> dict[int, int]:
        """The known ends of the topic of the state, by partition."""
        return self.writer.ends.get(self.context.settings.topics.detector_state, {})

    def _progress(self, marker: Marker, rules: BatchRules, outputs: BatchOutputs) -> BatchProgress:
        lag = self.lag.lag(marker.end_offsets.get(self.context.settings.topics.transactions, {}))
        costs = self._costs.due_report(rules.live, clock.steady_ms())
        in_force = RulesInForce(len(rules.live.rules), self.pinner.cpu_ns(rules.live), costs)
        return batch_progress(
            marker,
            outputs,
            self._totals,
            in_force,
            attempt=self.attempt,
            lost=self.marker.lost,
            lag=lag,
            previous=self._previous_timings,
            mode=self.jobs.mode,
        )

    def _records(
        self, marker: Marker, rules: BatchRules, outputs: BatchOutputs, progress: BatchProgress, parts: Sequence[bytes]
    ) -> Iterator[OutRecord]:
        """Yield all records of a batch in order, the marker last. `self.marker` is still the one before."""
        topics = self.context.settings.topics
        at = BatchTime(marker.batch_id, clock.now_ms())
        alerts = alerts_in_order(outputs.groups)
        traces = traces_of(outputs.side_outputs)
        yield from alert_records(alerts, topics, traces)
        yield from decision_records(alerts, self.context.settings, at, traces)
        yield from late_records(outputs.groups, topics)
        quarantined = [record for each in outputs.side_outputs for record in each.rejected]
        yield from quarantine_records(quarantined, topics, MAX_QUARANTINED_BYTES)
        if self.context.settings.evaluations:
            for group in outputs.groups:
                yield from (OutRecord(topics.evaluations, evaluation) for evaluation in group.evaluations)
        yield from rule_operation_records(rules.decided, rules.timeline, rules.pin, at, topics)
        yield from warm_up_records(rules.warm_ups, rules.timeline, at, topics)
        yield from export_records(rules.decided, rules.timeline, topics)
        if self.meter is not None:
            yield from latency_records(self.meter.due_average(), topics)
        if self.health is not None:
            groups = self._totals.groups.values()
            hours = self.health.add(outputs, groups, rules.live, marker, at.time_ms, clock.steady_ms())
            yield from (hour_record(each, self.context.settings) for each in hours)
        yield from state_records(outputs.states, self.context.state_topic)
        yield OutRecord(topics.detector_progress, encode_progress(progress), self.context.settings.detector.encode())
        yield from part_records(parts, self.marker.mark_parts, self.context.settings)
        yield marker_record(marker, self.context.settings)

    def _may_continue(self, rules: BatchRules) -> bool:
        stopped_at, resumed_at = rules.live.stopped_at, self.marker.resumed_at
        if stopped_at is not None and (resumed_at is None or stopped_at > resumed_at):
            self.stopped_at = stopped_at
            return False
        return True


def _decode(rows: Sequence[OutputRow], channel: ChannelServer) -> BatchOutputs:
    """The outputs of a batch."""
    groups: list[KeyGroupOutput] = []
    side_outputs: list[SideOutput] = []
    states: list[StateDelta] = []
    for key_group, blob, state in rows:
        if key_group == SIDE_OUTPUT:
            side_outputs.append(SideOutput.decode(blob))
        else:
            groups.append(KeyGroupOutput.decode(unpack(blob, channel.output)))
            if state is not None:
                states.append(StateDelta.decode(state))
    if len({group.key_group for group in groups}) != len(groups):
        raise DetectorFailed("a key group was evaluated twice in one batch: this is a defect, please report it")
    groups.sort(key=lambda group: group.key_group)
    return BatchOutputs(groups, side_outputs, states)


def _timings(batch_id: int, outputs: BatchOutputs, at: tuple[float, float, float, float]) -> BatchLatency:
    now_ms = clock.now_ms()

    def latency_ms(q: float) -> int | None:
        append_ms = outputs.append_ms(q)
        return None if append_ms is None else now_ms - append_ms

    pin_ms, evaluate_ms, write_ms = (round((b - a) * clock.MS_PER_S) for a, b in pairwise(at))
    return BatchLatency(
        batch_id,
        outputs.rows,
        pin_ms,
        evaluate_ms,
        write_ms,
        p50_ms=latency_ms(0.5),
        p99_ms=latency_ms(0.01),
        max_ms=latency_ms(0.0),
    )
