"""The marker names the last batch whose outputs are in Kafka. The Kafka transaction of these outputs contains it.

Marker and checkpoint together determine the next start. If they do not fit, one of the two was replaced or restored,
and the start is refused.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.event_rate import EventRate
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign, Fenced
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.writer import last_record
from fraud_rules.model.lost_records import Offsets
from fraud_rules.spark.storage import Folder
from fraud_rules.stream.checkpoint import CheckpointProgress
from fraud_rules.stream.pins import NO_PIN, Pin, PinStore
from fraud_rules.stream.state_position import StatePosition


class Marker(msgspec.Struct, frozen=True, rename="camel"):
    """The last batch whose outputs are written.

    `end_offsets` are by topic and partition (as text). `rate` is the traffic up to that batch, from which the next
    start continues to estimate the cost of rules. `topics` are Kafka's ids of the topics of the offsets, by name. They
    are empty if an earlier version wrote the marker. `state` is the state after that batch, None if an earlier version
    keeps it in the checkpoint. `rebuild` is the id of the order that has recomputed this state, if any.
    """

    query_id: str
    batch_id: int
    end_offsets: Offsets
    pin: Pin
    rate: EventRate | None = None
    topics: dict[str, str] = {}
    state: StatePosition | None = None
    rebuild: str | None = None

    def encode(self) -> bytes:
        """Encode as JSON for `decode`."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(text: bytes) -> Marker:
        """Decode the result of `encode`. Raises CheckpointForeign for anything else."""
        try:
            return _decode(text)
        except msgspec.DecodeError as error:
            raise CheckpointForeign(f"the marker in Kafka is not readable by this version: {error}") from error

    def covers(self, batch_id: int) -> bool:
        """Whether the outputs of this batch of the marker's query are written."""
        return batch_id <= self.batch_id


_decode = msgspec.json.Decoder(Marker).decode


def read_marker(kafka: KafkaConnection, settings: DetectorSettings, *, settled: bool = True) -> Marker | None:
    """The newest marker of a detector, None before its first batch. `settled` is that of `last_record`.

    Raises TransactionOpen, BrokerUnavailable, CheckpointForeign.
    """
    text = last_record(kafka, settings.topics.detector_marker, settings.detector.encode(), settled=settled)
    return None if text is None else Marker.decode(text)


def check_holder(newest: Marker | None, own: Marker | None, query_id: str) -> None:
    """Raise Fenced if another process has written a batch since the last one of this process.

    `newest` is the newest marker in Kafka. `own` is the last one of this process or of its query, None before the first
    batch of the query.
    """
    if newest is None or (own is None and newest.query_id != query_id):
        return
    if own is None or (newest.query_id, newest.batch_id) != (own.query_id, own.batch_id):
        raise Fenced(f"another process has written batch {newest.batch_id}; this process ends without writing")


BEGINNING: Final = "beginning"
"""A file in the checkpoint's folder: where it began, if it did not begin with the first records of the topics."""


class Beginning(msgspec.Struct, frozen=True, rename="camel"):
    """The outputs and the state with which a checkpoint started.

    `marker` names the last written batch at that time and its state, None without outputs. `rebuild` is the id of the
    order that has recomputed this state, None for a checkpoint that adopted it.
    """

    marker: Marker | None
    rebuild: str | None = None

    @property
    def continues(self) -> bool:
        """Whether the state includes the batches of earlier queries, so that their batches belong to its history."""
        return self.rebuild is not None or (self.marker is not None and self.marker.state is not None)


_decode_beginning = msgspec.json.Decoder(Beginning).decode


def adopt(folder: Folder, marker: Marker | None, checkpoint: CheckpointProgress, *, wanted: bool) -> Beginning | None:
    """The beginning of this checkpoint, None if it begins with the first records of the topics.

    With `wanted`, an empty checkpoint starts after the last written output, with the state at that output.
    """
    known = beginning_of(folder)
    if known is not None:
        return known
    if not wanted or marker is None or checkpoint.query_id is not None:
        return None
    return begin(folder, Beginning(marker))


def begin(folder: Folder, beginning: Beginning) -> Beginning:
    """Record the beginning of an empty checkpoint durably."""
    if beginning.marker is not None:
        PinStore(folder).create(msgspec.structs.replace(beginning.marker.pin, batch_id=NO_PIN.batch_id))
    folder.create(BEGINNING, msgspec.json.encode(beginning))
    return beginning


def beginning_of(folder: Folder) -> Beginning | None:
    """The recorded beginning of this checkpoint, None if there is none. Raises CheckpointDamaged."""
    known = folder.read(BEGINNING)
    try:
        return None if known is None else _decode_beginning(known)
    except msgspec.DecodeError as error:
        raise CheckpointDamaged(
            f"{folder.root}/{BEGINNING} cannot be read ({error}): restore the checkpoint"
        ) from error


def check_fits(marker: Marker | None, checkpoint: CheckpointProgress, where: str) -> None:
    """Check that the marker and the checkpoint belong together. `where` names the checkpoint in errors.

    Raises CheckpointForeign, or CheckpointDamaged if one of the two is an older copy.
    """
    if marker is None:
        if checkpoint.committed is not None:
            raise CheckpointForeign(
                f"{where} has finished batch {checkpoint.committed}, but this Kafka holds no marker of this detector: "
                "connect the detector to its original Kafka, or give it another name and an empty checkpoint"
            )
        return
    check_query(marker, checkpoint.query_id, where)
    _check_batch(marker, checkpoint, where)


def check_query(marker: Marker, query_id: str | None, where: str) -> None:
    """Raise CheckpointForeign if a query other than the checkpoint's has written the outputs.

    This check works even while another detector uses the same checkpoint.
    """
    if query_id is None:
        raise CheckpointForeign(
            f"{where} is empty, but batch {marker.batch_id} of this detector is written: restore its checkpoint "
            f"(query {marker.query_id}), or start after the last written output, with its state (--adopt)"
        )
    if marker.query_id != query_id:
        raise CheckpointForeign(
            f"{where} belongs to query {query_id}, but query {marker.query_id} wrote the outputs: "
            "give this detector its own checkpoint"
        )


def _check_batch(marker: Marker, checkpoint: CheckpointProgress, where: str) -> None:
    committed = -1 if checkpoint.committed is None else checkpoint.committed
    if marker.batch_id < committed:
        raise CheckpointForeign(
            f"{where} has finished batch {committed}, but the marker in Kafka names batch {marker.batch_id}: the later "
            "outputs are lost; restore the topics and the checkpoint from the same time"
        )
    if marker.batch_id > committed + 1 or marker.batch_id not in checkpoint.planned:
        raise CheckpointDamaged(
            f"{where} ends at batch {committed}, but batch {marker.batch_id} is written already: the checkpoint is an "
            "older copy; restore the newest one"
        )
    if checkpoint.planned[marker.batch_id] != marker.end_offsets:
        raise CheckpointForeign(
            f"{where} has other end offsets for batch {marker.batch_id} than the marker in Kafka: "
            "restore the checkpoint"
        )
    if checkpoint.pins.get(marker.batch_id) != marker.pin:
        raise CheckpointForeign(
            f"{where} has another pin for batch {marker.batch_id} than the marker in Kafka: restore the checkpoint"
        )
