"""Recomputes the state from the topics, to replace a damaged one or to change the number of key groups.

A rebuild first evaluates the history in Spark tasks, by key group (see `recompute`). One Kafka transaction then
replaces the heads of the key groups and the marker: the new marker has the same batch, with the recomputed state. At
last a new checkpoint that starts after this batch takes the place of the old one, which is renamed. A start that dies
before the transaction repeats the rebuild. A start that dies after it only puts the new checkpoint in its place.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from fraud_rules.deploy.work import WorkPhase
from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.statelog import EMPTY_LOG
from fraud_rules.errors import CheckpointDamaged, StateDamaged
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.logs.batch_history import newest_watermark_ms, read_history
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.state_topic import HEAD
from fraud_rules.replay.need import HistoryNeed, history_need
from fraud_rules.runtime.compression import compress
from fraud_rules.spark.storage import Folder
from fraud_rules.stream.checkpoint import RESUMED, claim
from fraud_rules.stream.driver.job import DetectorJob, RebuildOrder
from fraud_rules.stream.driver.marker import Beginning, Marker, begin, beginning_of
from fraud_rules.stream.driver.recompute import recompute
from fraud_rules.stream.driver.records import state_records
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.state_position import StatePosition
from fraud_rules.stream.work import WorkReport
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.state_log import StateDelta

__all__ = [
    "RebuildParts",
    "begin_rebuild",
    "check_history",
    "finish_rebuild",
    "is_executed",
    "replace_state",
]

_FRESH: Final = ".fresh"


@dataclass(frozen=True, slots=True)
class RebuildParts:
    """The objects that a rebuild uses. `session` returns Spark's session. The views belong to `checkpoint`."""

    session: Callable[[], SparkSession]
    checkpoint: str
    writer: BatchWriter
    work: WorkReport


def is_executed(folder: Folder, order: RebuildOrder) -> bool:
    """Whether this order has already created the folder."""
    try:
        beginning = beginning_of(folder)
    except CheckpointDamaged:
        return False
    return beginning is not None and beginning.rebuild == order.order


def check_history(job: DetectorJob, order: RebuildOrder, marker: Marker, recreated: Collection[str] = ()) -> None:
    """Raise HistoryLost or FraudError if the topics do not hold the input of a rebuild of the state at the marker.

    `recreated` names the topics that were created again after the last batch.
    """
    is_recreated = job.settings.topics.transactions in recreated
    history = read_history(job.kafka, job.settings, recreated=is_recreated, need=_need(job, marker))
    history.require(partial=order.partial)


def _need(job: DetectorJob, marker: Marker) -> HistoryNeed | None:
    """The history that the state at the marker needs. None if all of it may be needed."""
    watermark_ms = newest_watermark_ms(job.kafka, job.settings, (marker.query_id, marker.batch_id))
    if watermark_ms is None:
        return None
    with TopicReader(job.kafka, job.settings.topics.rules) as rules:
        log = RuleLog.of(rules, job.schema, job.settings.limits)
        in_force = log.up_to(marker.pin.rules_end, marker.pin.reasons()).latest
    return history_need(in_force, job.settings, watermark_ms)


def begin_rebuild(
    folder: Folder, order: RebuildOrder, marker: Marker | None, manifest: Mapping[str, Any]
) -> str | None:
    """Create a new folder that starts at the marker, set the old one aside, and put the new one in its place.

    Returns the new path of the old folder, None if there was none. The new folder is complete before the old one is
    moved. If the process dies between the two moves, `finish_rebuild` makes the second one.
    """
    fresh = folder.beside(_FRESH)
    fresh.remove()
    claim(fresh, manifest)
    resumed = folder.read(RESUMED)
    if resumed is not None:
        fresh.create(RESUMED, resumed)
    begin(fresh, Beginning(marker, order.order))
    aside = f"{folder.root}.aside-{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:4]}"
    moved = folder.move(aside)
    fresh.move(folder.root)
    return aside if moved else None


def finish_rebuild(folder: Folder) -> None:
    """Put a new folder in its place, if an earlier start died after it had set the old one aside."""
    fresh = folder.beside(_FRESH)
    if not any(not name.startswith(".") for name in folder.names()) and beginning_of(fresh) is not None:
        folder.remove()
        fresh.move(folder.root)


def replace_state(
    job: DetectorJob,
    order: RebuildOrder,
    marker: Marker,
    parts: RebuildParts,
    *,
    recreated: bool,
) -> Marker:
    """Recompute the state at the marker, and write it with a new marker, unless this order has done so already.

    `recreated` means that the topic of transactions was created again. Raises HistoryLost, BrokerUnavailable.
    """
    if marker.rebuild == order.order:
        return marker
    position = new_position(job.kafka, job.settings)
    context = WorkerContext(job.schema, job.settings, job.kafka, parts.checkpoint, job.spark.tasks, position.partitions)
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
    rebuilt = msgspec.structs.replace(marker, state=state, rebuild=order.order)
    names = job.settings.topics
    marked = OutRecord(names.detector_marker, rebuilt.encode(), job.settings.detector.encode())
    stale = [OutRecord(topic.topic, None, key, partition=partition) for partition, key in topic.stale_keys()]
    parts.writer.write([*stale, *state_records(deltas, topic), marked])
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
    until, work = (marker.query_id, marker.batch_id), parts.work
    work.begin(WorkPhase.HISTORY, "records")
    need = _need(job, marker)
    history = read_history(job.kafka, job.settings, until, work.reached, recreated=recreated, need=need)
    history.require(partial=order.partial)
    spark = parts.session()
    work.begin(WorkPhase.RECOMPUTE, "transactions", history.transactions)
    return recompute(spark, context, history, marker.pin, position.ends, work)
