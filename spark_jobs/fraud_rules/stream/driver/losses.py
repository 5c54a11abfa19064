"""Losses that a person has accepted: moves the checkpoint and the marker past the lost records.

One file holds all changes durably before the first change, so that the next start can complete a start that died. The
first batch after that reports the loss in its progress record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointDamaged
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.model.lost_records import LostRecords, move_offsets
from fraud_rules.spark.storage import Folder
from fraud_rules.stream import checkpoint
from fraud_rules.stream.driver.marker import Marker

__all__ = ["AcceptedLoss", "accept", "accepted_loss", "complete"]

ACCEPTED: Final = "accepted-loss"
"""A file in the checkpoint's folder: the last accepted loss."""


class AcceptedLoss(msgspec.Struct, frozen=True, rename="camel"):
    """An accepted loss. `batch_id` is the first batch without the `lost` records; it reports them.

    `topics` are Kafka's ids of the topics at that time. `files` and `marker` are the new contents of the checkpoint's
    files and of the marker. `done` means that these are written.
    """

    batch_id: int
    lost: list[LostRecords]
    topics: dict[str, str]
    files: dict[str, str]
    marker: Marker | None
    done: bool = False


_decode = msgspec.json.Decoder(AcceptedLoss).decode


def accepted_loss(folder: Folder) -> AcceptedLoss | None:
    """The last accepted loss of this checkpoint. Raises CheckpointDamaged if its file cannot be read."""
    text = folder.read(ACCEPTED)
    try:
        return None if text is None else _decode(text)
    except msgspec.DecodeError as error:
        raise CheckpointDamaged(f"{folder.root}/{ACCEPTED} cannot be read ({error}): restore the checkpoint") from error


def accept(
    folder: Folder,
    progress: checkpoint.CheckpointProgress,
    marker: Marker | None,
    lost: Sequence[LostRecords],
    topics: Mapping[str, str],
) -> AcceptedLoss:
    """Record durably that this checkpoint continues without the lost records. `complete` then makes the changes.

    `marker` is None if no output of this checkpoint is written yet.
    """
    batch_id = 1 + max(-1 if progress.committed is None else progress.committed, marker.batch_id if marker else -1)
    before = accepted_loss(folder)
    unreported = before.lost if before is not None and before.batch_id >= batch_id else []
    files = {checkpoint.MANIFEST: json.dumps({**checkpoint.read_manifest(folder), "topics": dict(topics)}, indent=1)}
    for name in checkpoint.offset_files(folder, progress.committed):
        files[name] = _moved_file(folder, name, lost)
    if marker is not None:
        marker = msgspec.structs.replace(
            marker, end_offsets=move_offsets(marker.end_offsets, lost), topics=dict(topics)
        )
    loss = AcceptedLoss(batch_id, [*unreported, *lost], dict(topics), files, marker)
    folder.create(ACCEPTED, msgspec.json.encode(loss), replace=True)
    return loss


def complete(folder: Folder, writer: BatchWriter, settings: DetectorSettings) -> None:
    """Make the changes of an accepted loss, unless they are made already."""
    loss = accepted_loss(folder)
    if loss is None or loss.done:
        return
    for name, text in loss.files.items():
        folder.delete(checkpoint.checksum_of(name))
        folder.create(name, text.encode(), replace=True)
    if loss.marker is not None:
        writer.write([OutRecord(settings.topics.detector_marker, loss.marker.encode(), settings.detector.encode())])
    folder.create(ACCEPTED, msgspec.json.encode(msgspec.structs.replace(loss, done=True)), replace=True)


def _moved_file(folder: Folder, name: str, lost: Sequence[LostRecords]) -> str:
    """The text of a file of the plan with moved offsets. The offsets are its last line."""
    text = (folder.read(name) or b"").decode()
    *head, last = text.rstrip("\n").split("\n")
    return "\n".join([*head, json.dumps(move_offsets(json.loads(last), lost), separators=(",", ":"))])
