"""The marker from which a rebuild continues if the topic of the markers has lost it.

Each batch writes its progress in the transaction of its marker, so the last progress record names the last written
batch. The reports in `rule-operations`, which the same transaction contains, tell which rules and warm-ups a batch has
reported.
"""

from __future__ import annotations

from collections.abc import Mapping

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointForeign
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import await_settled, settled_ends
from fraud_rules.kafka.reader import TopicReader, has_topic
from fraud_rules.logs.batch_history import WrittenBatch, last_batch
from fraud_rules.logs.detector_status import rejected_runs
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.rule_status import RuleOperation, WarmUpReport, WarmUpState, read_operations
from fraud_rules.logs.warm_up_log import WarmUpLog, WarmUpRef
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.warm_up import grouping_warmed_by, shortest_reaches_ms
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.pins import Pin

_ENDED = (WarmUpState.WARM, WarmUpState.REFUSED)


def marker_of_progress(kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema) -> Marker | None:
    """The marker of the last batch in `detector-progress`, None without a batch.

    It has no state, so a detector can continue only after a rebuild. The topics' ids, the fields, the estimated
    traffic, a lifted stop, and accepted losses that no batch has reported are unknown. Raises TransactionOpen,
    BrokerUnavailable, and CheckpointForeign if the rule log is not the one that the batch has read.
    """
    batch = last_batch(kafka, settings)
    if batch is None:
        return None
    return Marker(*batch.place, batch.end_offsets, _pin_of(batch, kafka, settings, schema))


def _pin_of(batch: WrittenBatch, kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema) -> Pin:
    """The pin of a batch, as the next batch reads it: without the reasons of rejected records."""
    names, end = settings.topics, batch.rules_end
    rejected: dict[str, list[tuple[str, str]]] = {f"{a}-{b}": [] for a, b in rejected_runs(batch.rules_rejected)}
    pin = Pin(batch.batch_id, end, rejected)
    await_settled(kafka, [names.rule_operations])
    operations = read_operations(kafka, names.rule_operations)
    with TopicReader(kafka, names.rules) as rules:
        written = settled_ends(rules)[0][1]
        if written < end:
            raise CheckpointForeign(
                f"the last batch has read the rule log to offset {end}, but {names.rules} ends at {written}: restore "
                "the topic, or give the detector another name"
            )
        log = RuleLog.of(rules, schema, settings.limits)
        timeline, digest = log.up_to(end, pin.reasons()), log.digest(end)
    warm_ups, warm_ups_end = _warm_ups(kafka, settings, timeline, operations)
    live_end = _live_end(timeline, operations)
    return Pin(batch.batch_id, end, rejected, digest, warm_ups, warm_ups_end, live_end, batch.time_zones)


def _live_end(timeline: RuleTimeline, operations: Mapping[int, RuleOperation]) -> int | None:
    """The offset of the first record after those that a batch has reported as live. None if all are reported."""
    entries = timeline.entries
    reported = (at for at in range(len(entries), 0, -1) if _is_live(operations.get(entries[at - 1].version)))
    live = next(reported, 0)
    return entries[live].version if live < len(entries) else None


def _is_live(report: RuleOperation | None) -> bool:
    return report is not None and not report.rejected


def _warm_ups(
    kafka: KafkaConnection,
    settings: DetectorSettings,
    timeline: RuleTimeline,
    operations: Mapping[int, RuleOperation],
) -> tuple[dict[str, WarmUpRef], int]:
    """The warm-ups that have ended, see `Pin.warm_ups` and `Pin.warm_ups_end`. The next pin drops those that it does
    not need."""
    topic = settings.topics.warm_ups
    if not has_topic(kafka, topic):
        return {}, 0
    results: dict[int, int] = {}
    with TopicReader(kafka, topic) as reader:
        first, end = settled_ends(reader)[0]
        for offset, result in WarmUpLog(kafka, topic, settings.detector).results(first, end, reader):
            results.setdefault(result.version, offset)
    ended = {
        version: report.warm_up
        for version, report in operations.items()
        if version < timeline.end and report.warm_up is not None and report.warm_up.state in _ENDED
    }
    groupings = {version: grouping_warmed_by(version, timeline) for version in ended}
    warmed = {version: fields for version, fields in groupings.items() if fields is not None}
    reaches = shortest_reaches_ms(timeline, timeline.position_of(min(warmed, default=0)), warmed)
    refs = {
        str(version): _ref(report, results.get(version, 0), reaches.get(version, 0))
        for version, report in ended.items()
    }
    return refs, min((offset for version, offset in results.items() if version not in ended), default=end)


def _ref(report: WarmUpReport, offset: int, reach_ms: int) -> WarmUpRef:
    """The entry of an ended warm-up in the pin of a later batch."""
    return WarmUpRef(report.batch_id or 0, offset, "", {}, report.reason, report.since, reach_ms)
