"""The health of the payments and of the rules by hour, in the compacted topic `data-health`.

A record holds the totals of an hour up to a batch, and is part of that batch's transaction. So a lost or repeated
record never counts a payment twice. Its key names the detector and one of `SLOTS` slots that the hours share in turn,
so that the topic has a bounded number of keys without tombstones.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import Record, TopicReader, has_topic
from fraud_rules.kafka.writer import OutRecord
from fraud_rules.logs.detector_status import ReasonCount, Whole

HOUR_MS: Final = 3_600_000
SLOTS: Final = 192
"""The hours of eight days."""

RuleId = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class RuleHour(msgspec.Struct, rename="camel"):
    """A rule in an hour: the payments of its grouping that its filter let through, those at which its `when` held
    (without a `when`: its filter), its live and shadow alerts, the append time of the newest alerted payment, and the
    number of keys of its grouping in state at the last batch."""

    passed: Whole = 0
    held: Whole = 0
    alerts: Whole = 0
    last_alert: Whole | None = None
    keys: Whole = 0


class HealthHour(msgspec.Struct, rename="camel"):
    """The totals of the hour that begins at `hour`, for the batches from `since` to `until` (all in epoch ms).
    The detector adds its batches to it.

    `query_id` and `batch_id` name the last counted batch. `uncounted_batches` counts the batches that a killed detector
    has written, but not counted. `nulls` has the payments with a null, by field. `late` counts payments by grouping,
    `quarantined` records by reason. `duplicates`, `conflicting_duplicates` and `null_keys` are those of
    `TrafficCounts`. `texts` counts the payments by text of each text field; None for a field with many texts. `keys`
    has the number of keys in state by grouping, and `rules` the rules in force by id, at most 1,000.
    """

    hour: Whole
    since: Whole
    until: Whole
    query_id: str
    batch_id: Whole
    uncounted_batches: Whole = 0
    rows: Whole = 0
    late_transactions: Whole = 0
    duplicates: Whole = 0
    conflicting_duplicates: Whole = 0
    null_keys: Whole = 0
    nulls: dict[str, Whole] = {}
    late: dict[str, Whole] = {}
    quarantined: dict[str, ReasonCount] = {}
    texts: dict[str, dict[str, Whole] | None] = {}
    keys: dict[str, Whole] = {}
    rules: dict[RuleId, RuleHour] = {}

    @property
    def quarantined_records(self) -> int:
        """The number of quarantined records."""
        return sum(each.count for each in self.quarantined.values())


_decode = msgspec.json.Decoder(HealthHour).decode
_encode = msgspec.json.Encoder().encode


def hour_record(hour: HealthHour, settings: DetectorSettings) -> OutRecord:
    """The record of an hour."""
    return OutRecord(settings.topics.data_health, _encode(hour), _key(settings.detector, hour.hour))


def read_hours(kafka: KafkaConnection, settings: DetectorSettings, now_ms: int) -> list[HealthHour] | None:
    """The hours of the last eight days with batches, ascending. None if the topic does not exist.

    Raises BrokerUnavailable.
    """
    topic, prefix = settings.topics.data_health, f"{settings.detector}/".encode()
    if not has_topic(kafka, topic):
        return None
    newest: dict[bytes, Record] = {}
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            for record in reader.read(*reader.ends(partition), partition):
                if record.key is not None and record.key.startswith(prefix):
                    newest[record.key] = record
    hours = (decode_or_skip(topic, record, _decode) for record in newest.values() if record.value is not None)
    kept = (each for each in hours if each is not None and each.hour > now_ms - SLOTS * HOUR_MS)
    return sorted(kept, key=lambda each: each.hour)


def _key(detector: str, hour_ms: int) -> bytes:
    return f"{detector}/{hour_ms // HOUR_MS % SLOTS}".encode()
