"""Recomputes the state from the topics, to replace a damaged one or to change the number of key groups.

A rebuild first evaluates the history in memory. One Kafka transaction then replaces the state and the marker: the new
marker has the same batch, with the recomputed state. At last a new checkpoint that starts after this batch takes the
place of the old one, which is renamed. A start that dies before the transaction repeats the rebuild. A start that dies
after it only puts the new checkpoint in its place.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from fraud_rules.deploy.work import WorkPhase
from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.statelog import EMPTY_LOG, read_image
from fraud_rules.errors import CheckpointDamaged
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.logs.batch_history import read_batches, read_history
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.logs.state_topic import HEAD, StateTopic
from fraud_rules.runtime.compression import compress
from fraud_rules.spark.storage import Folder
from fraud_rules.stream.checkpoint import RESUMED, claim
from fraud_rules.stream.driver.job import DetectorJob, RebuildOrder
from fraud_rules.stream.driver.marker import Beginning, Marker, begin, beginning_of
from fraud_rules.stream.driver.records import state_records
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.work import WorkReport
from fraud_rules.stream.worker.state_log import StateDelta

__all__ = [
    "begin_rebuild",
    "check_history",
    "finish_rebuild",
    "is_executed",
    "replace_state",
]

_FRESH: Final = ".fresh"


def is_executed(folder: Folder, order: RebuildOrder) -> bool:
    """Whether this order has already created the folder."""
    try:
        beginning = beginning_of(folder)
    except CheckpointDamaged:
        return False
    return beginning is not None and beginning.rebuild == order.order


def check_history(job: DetectorJob, order: RebuildOrder, recreated: Collection[str] = ()) -> None:
    """Raise HistoryLost or FraudError if the topics do not hold the input of a rebuild.

    `recreated` names the topics that were created again after the last batch.
    """
    history = read_history(job.kafka, job.settings, recreated=job.settings.topics.transactions in recreated)
    history.require(partial=order.partial)


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
    job: DetectorJob, order: RebuildOrder, marker: Marker, writer: BatchWriter, work: WorkReport, *, recreated: bool
) -> Marker:
    """Recompute the state at the marker, and write it with a new marker, unless this order has done so already.

    `recreated` means that the topic of transactions was created again. Raises HistoryLost, BrokerUnavailable.
    """
    if marker.rebuild == order.order:
        return marker
    images = _recompute(job, order, marker, work, recreated=recreated)
    position = new_position(job.kafka, job.settings)
    names = job.settings.topics
    topic = StateTopic(job.kafka, names.detector_state, job.settings.detector, position.partitions)
    before = topic.read_all()
    deltas = [
        _replacement(topic, key_group, before.get(key_group, {}), images.get(key_group))
        for key_group in sorted(before.keys() | images.keys())
    ]
    topic.flush_chunks()
    versions = {delta.key_group: delta.version for delta in deltas}
    rebuilt = msgspec.structs.replace(marker, state=position.after(versions, {}), rebuild=order.order)
    marked = OutRecord(names.detector_marker, rebuilt.encode(), job.settings.detector.encode())
    writer.write([*state_records(deltas, topic), marked])
    return rebuilt


def _replacement(topic: StateTopic, key_group: int, before: Collection[str], image: bytes | None) -> StateDelta:
    """The delta that replaces all records of a key group by an image. Sends the chunks of the image to the topic."""
    if image is None:
        return StateDelta(key_group, EMPTY_LOG, [(name, None) for name in sorted(before)])
    head, chunks = read_image(image)
    topic.send_chunks(key_group, [(name, compress(blob)) for name, blob in chunks.items()])
    gone = sorted(set(before) - chunks.keys() - {HEAD})
    records: list[tuple[str, bytes | None]] = [*((name, None) for name in gone), (HEAD, compress(head))]
    return StateDelta(key_group, decode_head(head).state_version, records)


def _recompute(
    job: DetectorJob, order: RebuildOrder, marker: Marker, work: WorkReport, *, recreated: bool
) -> Mapping[int, bytes]:
    """The state at the marker, as an image per key group."""
    # Imported here, because loading the kernel takes seconds and only a rebuild needs it.
    from fraud_rules.replay.rebuild import rebuild_state

    until = (marker.query_id, marker.batch_id)
    work.begin(WorkPhase.HISTORY, "records")
    history = read_history(job.kafka, job.settings, until, work.reached, recreated=recreated)
    history.require(partial=order.partial)
    refused = marker.pin.reasons()
    batches = read_batches(history, job.kafka, job.settings)
    work.begin(WorkPhase.RECOMPUTE, "transactions", history.transactions)
    with TopicReader(job.kafka, job.settings.topics.rules) as rules:
        log = RuleLog.of(rules, job.schema, job.settings.limits)
        return rebuild_state(batches, lambda end: log.up_to(end, refused), job.schema, job.settings, work.reached)
