"""The marker is the checkpoint of a detector: the last written batch, and all that the next start needs.

The Kafka transaction of a batch's outputs contains the marker, so outputs, state and checkpoint change together. A
start that continues differently (`--resume`, an accepted loss, a rebuild, an added field) amends the marker in one
transaction before the first batch.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.admission.event_rate import EventRate
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign, Fenced
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.writer import BatchWriter, OutRecord, newest_record
from fraud_rules.model.lost_records import LostRecords, Offsets
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.state_position import StatePosition

REBUILD: Final = "rebuild the state (fraud detector rebuild), which continues after the last batch of the progress"
"""The way out without a usable marker."""

FORMAT: Final = 1
"""The format of the markers of this version. A marker of a later format is refused, although this version may be able
to decode it: it does not know what the marker means. A change of heads or chunks increments it too, because a state is
read through its marker only, and has no format of its own."""

_CHANCE: Final = 2


class Marker(msgspec.Struct, frozen=True, rename="camel"):
    """The last batch whose outputs are written. A new detector has a marker before its first batch.

    `query_id` is the id of the detector's history, which all of its batches have. `end_offsets` are by topic and
    partition (as text); the next batch starts there. `rate` is the traffic up to that batch, from which the next start
    continues to estimate the cost of rules. `topics` are Kafka's ids of the topics of the offsets, by name. `state` is
    the state after that batch, None if an earlier version keeps it elsewhere. `rebuild` is the id of the last order
    that has recomputed the state. `fields` are the declared fields (see `identity.declared_fields`), and `added_fields`
    those that a later release has added. `resumed_at` is the offset of the last lifted stop in the rule log. `lost` are
    accepted losses that no batch has reported yet. `starts` counts the starts since the batch was written. `mark_parts`
    is the number of records with the marks that the batch's conclusions have changed, see `checkpoint.mark_parts`.
    `format`: see `FORMAT`. Earlier versions write no `topics`, `fields` and later members.
    """

    query_id: str
    batch_id: int
    end_offsets: Offsets
    pin: Pin
    rate: EventRate | None = None
    topics: dict[str, str] = {}
    state: StatePosition | None = None
    rebuild: str | None = None
    fields: dict[str, list[Any]] | None = None
    added_fields: list[str] = []
    resumed_at: int | None = None
    lost: list[LostRecords] = []
    starts: int = 0
    mark_parts: int = 0
    format: int = 1

    def encode(self) -> bytes:
        """Encode as JSON for `decode`."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(text: bytes) -> Marker:
        """Decode the result of `encode`. Raises CheckpointForeign for other JSON or a later format, and
        CheckpointDamaged for no JSON."""
        try:
            marker = _decode(text)
        except msgspec.ValidationError as error:
            raise CheckpointForeign(
                f"the marker in Kafka is not readable by this version: {error}. Run the version that wrote it"
            ) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CheckpointDamaged(
                f"the marker in Kafka is not readable: {error}. Restore it, or {REBUILD}"
            ) from error
        if marker.format > FORMAT:
            raise CheckpointForeign(
                f"a later version wrote the marker in Kafka (format {marker.format}; this version reads {FORMAT}): run "
                "that version"
            )
        return marker

    @property
    def has_batch(self) -> bool:
        """Whether a batch is written. The marker of a new detector precedes the first one."""
        return self.batch_id >= 0

    @property
    def halvings(self) -> int:
        """How often to halve the next batch: two starts that ended without a batch may be chance, further ones not."""
        return max(0, self.starts - 1 - _CHANCE)

    @property
    def place(self) -> tuple[str, int]:
        """The history and the batch, which together identify a batch."""
        return self.query_id, self.batch_id


_decode = msgspec.json.Decoder(Marker).decode


def read_marker(kafka: KafkaConnection, settings: DetectorSettings, *, settled: bool = True) -> Marker | None:
    """The newest marker of a detector, None before its first start. `settled` is that of `last_record`.

    Raises TransactionOpen, BrokerUnavailable, CheckpointDamaged, CheckpointForeign.
    """
    found = newest_marker(kafka, settings, settled=settled)
    return None if found is None else found[1]


def newest_marker(
    kafka: KafkaConnection, settings: DetectorSettings, *, settled: bool = True
) -> tuple[int, Marker] | None:
    """The append time of the newest marker (epoch ms), and the marker. Like `read_marker` otherwise."""
    found = newest_record(kafka, settings.topics.detector_marker, settings.detector.encode(), settled=settled)
    return None if found is None or found.value is None else (found.append_ms, Marker.decode(found.value))


def marker_record(marker: Marker, settings: DetectorSettings) -> OutRecord:
    """The record of a marker."""
    return OutRecord(settings.topics.detector_marker, marker.encode(), settings.detector.encode())


def amend(writer: BatchWriter, settings: DetectorSettings, marker: Marker, **changes: Any) -> Marker:
    """Write the marker with other members, unless they are the same. Return the marker in force.

    Raises the errors of `BatchWriter.write`.
    """
    amended = msgspec.structs.replace(marker, **changes)
    if amended != marker:
        writer.write([marker_record(amended, settings)])
    return amended


def check_holder(newest: Marker | None, own: Marker) -> None:
    """Raise Fenced if another process has written a batch after `own`, the last marker of this process."""
    if newest is not None and newest.place != own.place:
        raise Fenced(f"another process has written batch {newest.batch_id}; this process ends without writing")
