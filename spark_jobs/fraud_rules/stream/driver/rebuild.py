"""Recomputes the state from the topics, to replace a damaged one or to change the number of key groups.

A rebuild first evaluates the history in Spark tasks, by key group (see `recompute`). One Kafka transaction then
replaces the heads of the key groups and the marker: the new marker has the same batch, with the recomputed state and
the id of the order. A start that dies before the transaction repeats the rebuild.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec
from pyspark.sql import SparkSession

from fraud_rules.deploy.code import code_digest
from fraud_rules.deploy.work import WorkPhase
from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.statelog import EMPTY_LOG
from fraud_rules.errors import StateDamaged
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.logs.batch_history import newest_watermark_ms, read_history
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.state_topic import HEAD
from fraud_rules.replay.need import HistoryNeed, history_need
from fraud_rules.runtime.compression import compress
from fraud_rules.stream.checkpoint.mark_parts import part_records
from fraud_rules.stream.checkpoint.marker import Marker, marker_record
from fraud_rules.stream.driver.batch_jobs import task_count
from fraud_rules.stream.driver.job import DetectorJob, RebuildOrder
from fraud_rules.stream.driver.recompute import recompute
from fraud_rules.stream.driver.records import state_records
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.state_position import StatePosition
from fraud_rules.stream.work import WorkReport
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.state_log import StateDelta


@dataclass(frozen=True, slots=True)
class RebuildParts:
    """The objects that a rebuild uses. `session` returns Spark's session."""

    session: Callable[[], SparkSession]
    writer: BatchWriter
    work: WorkReport


def is_executed(marker: Marker, order: RebuildOrder) -> bool:
    """Whether this order has already recomputed the state. The last order counts."""
    return marker.rebuild == order.order


def check_rebuild(job: DetectorJob, order: RebuildOrder, marker: Marker, *, recreated: bool) -> None:
    """Raise HistoryLost or FraudError if the topics do not hold the input of a rebuild of the state at the marker.

    `recreated` means that the topic of transactions was created again after the last batch.
    """
    if not marker.has_batch:
        return
    history = read_history(job.kafka, job.settings, recreated=recreated, need=_need(job, marker))
    history.require(partial=order.partial)


def _need(job: DetectorJob, marker: Marker) -> HistoryNeed | None:
    """The history that the state at the marker needs. None if all of it may be needed."""
    watermark_ms = newest_watermark_ms(job.kafka, job.settings, marker.place)
    if watermark_ms is None:
        return None
    with TopicReader(job.kafka, job.settings.topics.rules) as rules:
        log = RuleLog.of(rules, job.schema, job.settings.limits)
        in_force = log.up_to(marker.pin.rules_end, marker.pin.reasons()).latest
    return history_need(in_force, job.settings, watermark_ms)


def replace_state(
    job: DetectorJob,
    order: RebuildOrder,
    marker: Marker,
    parts: RebuildParts,
    *,
    recreated: bool,
) -> Marker:
    """Recompute the state at the marker, and write it with a new marker.

    `recreated` means that the topic of transactions was created again. Raises HistoryLost, BrokerUnavailable.
    """
    position = new_position(job.kafka, job.settings)
    code = "" if job.spark.is_local else code_digest()
    context = WorkerContext(job.schema, job.settings, job.kafka, position.partitions, marker.query_id, code=code)
    heads: dict[int, bytes] = {}
    if marker.has_batch:
        heads = _recompute(job, order, marker, parts, context, position, recreated=recreated)
    topic = context.state_topic
    before = topic.names()
    deltas = [
        _replacement(key_group, before.get(key_group, set()), heads.get(key_group))
        for key_group in sorted(before.keys() | heads.keys())
    ]
    versions = {delta.key_group: delta.version for delta in deltas}
    # The first batch looks for orphans after these ends, so it does not read the recomputed chunks again.
    state = new_position(job.kafka, job.settings).after(versions, {})
    rebuilt = msgspec.structs.replace(marker, state=state, rebuild=order.order, mark_parts=0)
    stale = [OutRecord(topic.topic, None, key, partition=partition) for partition, key in topic.stale_keys()]
    gone = part_records([], marker.mark_parts, job.settings)  # the state has the marks
    parts.writer.write([*stale, *state_records(deltas, topic), *gone, marker_record(rebuilt, job.settings)])
    return rebuilt


def _replacement(key_group: int, before: Collection[str], head: bytes | None) -> StateDelta:
    """The delta that replaces the head of a key group, and deletes all chunks that the new head does not name.

    `before` has the names of all records. Raises StateDamaged if a chunk of the new head is not among them.
    """
    if head is None:
        return StateDelta(key_group, EMPTY_LOG, [(name, None) for name in sorted(before)])
    decoded = decode_head(head)
    named = {info.name for info in decoded.chunks}
    if missing := named - set(before):
        raise StateDamaged(
            f"the state topic lacks the recomputed chunk {min(missing)} of key group {key_group}: repeat the rebuild"
        )
    gone = sorted(set(before) - named - {HEAD})
    return StateDelta(key_group, decoded.state_version, [*((name, None) for name in gone), (HEAD, compress(head))])


def _recompute(
    job: DetectorJob,
    order: RebuildOrder,
    marker: Marker,
    parts: RebuildParts,
    context: WorkerContext,
    position: StatePosition,
    *,
    recreated: bool,
) -> dict[int, bytes]:
    """The heads of the state at the marker. The topic of the state has their chunks."""
    until, work = marker.place, parts.work
    work.begin(WorkPhase.HISTORY, "records")
    need = _need(job, marker)
    history = read_history(job.kafka, job.settings, until, work.reached, recreated=recreated, need=need)
    history.require(partial=order.partial)
    spark = parts.session()
    work.begin(WorkPhase.RECOMPUTE, "transactions", history.transactions)
    tasks = task_count(job.spark.tasks, job.settings, spark)
    return recompute(spark, context, tasks, history, marker.pin, position.ends, work)
