"""A fresh checkpoint from the topics: the way out of a damaged one, and to another number of key groups.

The old folder is set aside under another name. The new one begins where the outputs end, and its first batch takes the
recomputed state in. Until that batch is finished every start recomputes it; nothing of it is written anywhere else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from fraud_rules.errors import CheckpointDamaged
from fraud_rules.kafka.history import read_batches, read_history
from fraud_rules.kafka.rule_log import RuleLog
from fraud_rules.spark.checkpoint import RESUMED, claim
from fraud_rules.spark.job import DetectorJob, RebuildOrder
from fraud_rules.spark.marker import Beginning, Marker, begin, beginning_of
from fraud_rules.spark.storage import Folder

__all__ = ["begin_rebuild", "check_history", "is_carried_out", "recompute", "restored_state", "share_state"]

_FILE: Final = "fraud-state-{}"


def is_carried_out(folder: Folder, order: RebuildOrder) -> bool:
    """Whether this folder was made by the order already, finished or not."""
    try:
        beginning = beginning_of(folder)
    except CheckpointDamaged:
        return False
    return beginning is not None and beginning.rebuild == order.order


def check_history(job: DetectorJob, order: RebuildOrder) -> None:
    """Raise HistoryLost, or FraudError, when there is not what a rebuild needs."""
    read_history(job.kafka, job.settings).require(partial=order.partial)


def begin_rebuild(
    folder: Folder, order: RebuildOrder, marker: Marker | None, manifest: Mapping[str, Any]
) -> str | None:
    """Set the folder aside and begin a fresh one at the marker; where the old one is now, None if there was none."""
    resumed = folder.read(RESUMED)
    aside = folder.set_aside()
    claim(folder, manifest)
    if resumed is not None:
        folder.create(RESUMED, resumed)
    begin(folder, Beginning(marker, order.order, order.partial))
    return aside


def recompute(job: DetectorJob, beginning: Beginning) -> Mapping[int, bytes]:
    """The state at the marker, an image for each key group. Raises HistoryLost, BrokerUnavailable."""
    marker = beginning.marker
    if marker is None:
        return {}
    # Whoever does not rebuild need not load the kernel: it takes seconds.
    from fraud_rules.rebuild import rebuild_state

    # The first batch of the new checkpoint may be written already, and is still to be evaluated again.
    history = read_history(job.kafka, job.settings, (marker.query_id, marker.batch_id))
    history.require(partial=beginning.partial)
    log = RuleLog.on_kafka(job.kafka, job.settings.topics.rules, job.schema, job.settings.limits)
    refused = marker.pin.reasons()
    batches = read_batches(history, job.kafka, job.settings)
    return rebuild_state(batches, lambda end: log.up_to(end, refused), job.schema, job.settings)


def share_state(spark: SparkSession, images: Mapping[int, bytes]) -> tempfile.TemporaryDirectory[str]:
    """Let every worker have the images; the folder returned must stay while the first batch runs."""
    folder = tempfile.TemporaryDirectory(prefix="fraud-rebuild-")
    for key_group, image in images.items():
        file = Path(folder.name, _FILE.format(key_group))
        file.write_bytes(image)
        spark.sparkContext.addFile(str(file))
    return folder


def restored_state(key_group: int) -> bytes | None:
    """In a worker: the image of a key group, None where it holds nothing."""
    file = Path(SparkFiles.get(_FILE.format(key_group)))
    return file.read_bytes() if file.exists() else None
