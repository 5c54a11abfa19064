"""Builds a new checkpoint from the topics, to replace a damaged one or to change the number of key groups.

The old folder is renamed. The new checkpoint starts after the last written batch, and its first batch loads the
recomputed state. Until that batch is finished, every start recomputes the state, because no other copy exists.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fraud_rules.deploy.work import WorkPhase
from fraud_rules.errors import CheckpointDamaged
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.batch_history import read_batches, read_history
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.lost_records import LossReason
from fraud_rules.spark.storage import Folder
from fraud_rules.stream.checkpoint import RESUMED, claim
from fraud_rules.stream.driver.job import DetectorJob, RebuildOrder
from fraud_rules.stream.driver.losses import AcceptedLoss
from fraud_rules.stream.driver.marker import Beginning, Marker, begin, beginning_of
from fraud_rules.stream.work import WorkReport

__all__ = [
    "begin_rebuild",
    "check_history",
    "finish_rebuild",
    "is_executed",
    "recompute",
]

_FRESH: Final = ".fresh"


def is_executed(folder: Folder, order: RebuildOrder) -> bool:
    """Whether this order has already created the folder. The rebuild itself may be unfinished."""
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
    begin(fresh, Beginning(marker, order.order, order.partial))
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


def recompute(
    job: DetectorJob, beginning: Beginning, loss: AcceptedLoss | None, work: WorkReport
) -> Mapping[int, bytes]:
    """Recompute the state at the marker, as an image per key group. `loss` is the accepted loss of this checkpoint.

    Raises HistoryLost, BrokerUnavailable.
    """
    marker = beginning.marker
    if marker is None:
        return {}
    # Imported here, because loading the kernel takes seconds and only a rebuild needs it.
    from fraud_rules.replay.rebuild import rebuild_state

    recreated = loss is not None and any(
        each.reason is LossReason.RECREATED and each.topic == job.settings.topics.transactions for each in loss.lost
    )
    # The first batch of the new checkpoint may be written already, but the detector must still evaluate it again.
    until = (marker.query_id, marker.batch_id)
    work.begin(WorkPhase.HISTORY, "records")
    history = read_history(job.kafka, job.settings, until, work.reached, recreated=recreated)
    history.require(partial=beginning.partial)
    refused = marker.pin.reasons()
    batches = read_batches(history, job.kafka, job.settings)
    work.begin(WorkPhase.RECOMPUTE, "transactions", history.transactions)
    with TopicReader(job.kafka, job.settings.topics.rules) as rules:
        log = RuleLog.of(rules, job.schema, job.settings.limits)
        return rebuild_state(batches, lambda end: log.up_to(end, refused), job.schema, job.settings, work.reached)
