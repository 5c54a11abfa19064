"""A fresh checkpoint from the topics: the way out of a damaged one, and to another number of key groups.

The old folder is set aside under another name. The new one begins where the outputs end, and its first batch takes the
recomputed state in. Until that batch is finished every start recomputes it; nothing of it is written anywhere else.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fraud_rules.deploy.work import WorkPhase
from fraud_rules.errors import CheckpointDamaged
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.judged_batches import read_batches, read_history
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
    "is_carried_out",
    "recompute",
]

_FRESH: Final = ".fresh"


def is_carried_out(folder: Folder, order: RebuildOrder) -> bool:
    """Whether this folder was made by the order already, finished or not."""
    try:
        beginning = beginning_of(folder)
    except CheckpointDamaged:
        return False
    return beginning is not None and beginning.rebuild == order.order


def check_history(job: DetectorJob, order: RebuildOrder, recreated: Collection[str] = ()) -> None:
    """Raise HistoryLost, or FraudError, when there is not what a rebuild needs.

    `recreated` names topics that were created again since the last batch.
    """
    history = read_history(job.kafka, job.settings, recreated=job.settings.topics.transactions in recreated)
    history.require(partial=order.partial)


def begin_rebuild(
    folder: Folder, order: RebuildOrder, marker: Marker | None, manifest: Mapping[str, Any]
) -> str | None:
    """Begin a fresh folder at the marker, in the place of the old one, which is set aside; where that is, if there was
    one. The fresh one is whole before the old one goes, see `finish_rebuild`."""
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
    """Put a fresh folder in its place, where whoever began it died after the old one was set aside."""
    fresh = folder.beside(_FRESH)
    if not any(not name.startswith(".") for name in folder.names()) and beginning_of(fresh) is not None:
        folder.remove()
        fresh.move(folder.root)


def recompute(
    job: DetectorJob, beginning: Beginning, loss: AcceptedLoss | None, work: WorkReport
) -> Mapping[int, bytes]:
    """The state at the marker, an image for each key group. `loss` is what this checkpoint goes on without.

    Raises HistoryLost, BrokerUnavailable.
    """
    marker = beginning.marker
    if marker is None:
        return {}
    # Whoever does not rebuild need not load the kernel: it takes seconds.
    from fraud_rules.replay.rebuild import rebuild_state

    # The first batch of the new checkpoint may be written already, and is still to be evaluated again.
    recreated = loss is not None and any(
        each.reason is LossReason.RECREATED and each.topic == job.settings.topics.transactions for each in loss.lost
    )
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
