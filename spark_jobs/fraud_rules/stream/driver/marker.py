"""The marker: which batch's outputs Kafka holds, written in the transaction of these outputs.

Together with the checkpoint it says what the next start has to do. One that does not fit the checkpoint means that one
of the two is not what it was: then nothing may be written.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fraud_rules.engine.event_rate import EventRate
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign
from fraud_rules.spark.storage import Folder
from fraud_rules.stream.checkpoint import Progress
from fraud_rules.stream.pins import NO_PIN, Pin, PinStore


class Marker(msgspec.Struct, frozen=True, rename="camel"):
    """The last batch whose outputs are written. `end_offsets` by topic and partition (as text); `rate` is the traffic
    up to that batch, from which the next start goes on to estimate what rules cost; `topics` are Kafka's ids of the
    topics that the offsets are of, by name, empty where an earlier version wrote the marker."""

    query_id: str
    batch_id: int
    end_offsets: dict[str, dict[str, int]]
    pin: Pin
    rate: EventRate | None = None
    topics: dict[str, str] = {}

    def encode(self) -> bytes:
        """The marker as JSON; `decode` gives it back."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(text: bytes) -> Marker:
        """What `encode` made. Raises CheckpointForeign for anything else."""
        try:
            return _decode(text)
        except msgspec.DecodeError as error:
            raise CheckpointForeign(f"the marker in Kafka is not one of this version's: {error}") from error

    def covers(self, batch_id: int) -> bool:
        """Whether the outputs of a batch of the same query are written."""
        return batch_id <= self.batch_id


_decode = msgspec.json.Decoder(Marker).decode


BEGINNING: Final = "beginning"
"""A file beside the checkpoint: where it was begun, if not at the beginning of the topics."""


class Beginning(msgspec.Struct, frozen=True, rename="camel"):
    """Where outputs went on when this checkpoint was begun, and with which state.

    `marker` is None where nothing was written yet. `rebuild` is the order by which the state before was to be
    recomputed, None where it was begun anew; `partial` accepts that retention has removed some of what it came from.
    """

    marker: Marker | None
    rebuild: str | None = None
    partial: bool = False


_decode_beginning = msgspec.json.Decoder(Beginning).decode


def adopt(folder: Folder, marker: Marker | None, checkpoint: Progress, *, wanted: bool) -> Beginning | None:
    """Where this checkpoint begins, when it does not begin at the beginning.

    `wanted` makes that so for an empty checkpoint: state is begun anew, outputs go on where they are.
    """
    known = beginning_of(folder)
    if known is not None:
        return known
    if not wanted or marker is None or checkpoint.query_id is not None:
        return None
    return begin(folder, Beginning(marker))


def begin(folder: Folder, beginning: Beginning) -> Beginning:
    """Make an empty checkpoint begin there, durably."""
    if beginning.marker is not None:
        PinStore(folder).create(msgspec.structs.replace(beginning.marker.pin, batch_id=NO_PIN.batch_id))
    folder.create(BEGINNING, msgspec.json.encode(beginning))
    return beginning


def beginning_of(folder: Folder) -> Beginning | None:
    """Where this checkpoint was begun, if not at the beginning. Raises CheckpointDamaged when that cannot be read."""
    known = folder.read(BEGINNING)
    try:
        return None if known is None else _decode_beginning(known)
    except msgspec.DecodeError as error:
        raise CheckpointDamaged(
            f"{folder.root}/{BEGINNING} cannot be read ({error}): restore the checkpoint"
        ) from error


def check_fits(marker: Marker | None, checkpoint: Progress, where: str) -> None:
    """Raise unless the marker and the checkpoint belong together.

    `where` names the checkpoint. Raises CheckpointForeign, or CheckpointDamaged when one of them is older than it was.
    """
    if marker is None:
        if checkpoint.committed is not None:
            raise CheckpointForeign(
                f"{where} has finished batch {checkpoint.committed}, but this Kafka holds no marker of this detector: "
                "connect it to the Kafka it wrote to, or give the detector another name and an empty checkpoint"
            )
        return
    check_query(marker, checkpoint.query_id, where)
    _check_batch(marker, checkpoint, where)


def check_query(marker: Marker, query_id: str | None, where: str) -> None:
    """Raise CheckpointForeign unless the checkpoint's query is the one that has written.

    This much can be said while another detector still works on the same checkpoint.
    """
    if query_id is None:
        raise CheckpointForeign(
            f"{where} is empty, but batch {marker.batch_id} of this detector is written: restore its checkpoint "
            f"(query {marker.query_id}), recompute it from the topics (fraud rebuild), or begin with no state at all "
            "where the outputs end (--adopt)"
        )
    if marker.query_id != query_id:
        raise CheckpointForeign(
            f"{where} is of query {query_id}, but what is written comes from query {marker.query_id}: "
            "point this detector at its own checkpoint"
        )


def _check_batch(marker: Marker, checkpoint: Progress, where: str) -> None:
    committed = -1 if checkpoint.committed is None else checkpoint.committed
    if marker.batch_id < committed:
        raise CheckpointForeign(
            f"{where} has finished batch {committed}, but Kafka's marker is of batch {marker.batch_id}: the outputs "
            "after it are lost; restore the topics and the checkpoint of one time"
        )
    if marker.batch_id > committed + 1 or marker.batch_id not in checkpoint.planned:
        raise CheckpointDamaged(
            f"{where} ends at batch {committed}, but batch {marker.batch_id} is written already: it is "
            "older than it was; restore the newest copy"
        )
    if checkpoint.planned[marker.batch_id] != marker.end_offsets:
        raise CheckpointForeign(
            f"{where} ends batch {marker.batch_id} at other offsets than the marker in Kafka says: "
            "restore the checkpoint"
        )
    if checkpoint.pins.get(marker.batch_id) != marker.pin:
        raise CheckpointForeign(
            f"{where} has another pin for batch {marker.batch_id} than the marker in Kafka: restore the checkpoint"
        )
