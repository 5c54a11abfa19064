"""From a sample to a proposal, and to the first payments as they will be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fraud_rules.codec.transactions.codec import DecodeResult, decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.codec.transactions.tree import parse_object
from fraud_rules.discovery.forms import ConnectType
from fraud_rules.discovery.profile import Profile, profile_of
from fraud_rules.discovery.proposal import Proposal, propose
from fraud_rules.discovery.recognition import Recognized, Shape, recognize, recognize_trees
from fraud_rules.discovery.registered import decoded_sample, registered_format
from fraud_rules.discovery.sample import SampleRecord
from fraud_rules.errors import RecordRejected, TopicNotUnderstood
from fraud_rules.model.day import DAY_MS
from fraud_rules.model.declared.field_source import Path
from fraud_rules.model.declared.record_format import FormatSettings
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import Envelope, TransactionSchema

_PLAIN = FormatSettings()
_FOR_A_LOOK = RecordLimits(future_tolerance_ms=10 * 365 * DAY_MS)
"""Limits for records that need not be recent."""


@dataclass(frozen=True, slots=True)
class Understanding:
    """What a sample contains, and the schema that it needs."""

    recognized: Recognized
    profile: Profile
    proposal: Proposal
    encoding: FormatSettings

    @property
    def schema(self) -> TransactionSchema:
        """The proposed schema."""
        return TransactionSchema(
            tuple(each.field for each in self.proposal.fields), self.recognized.envelope, self.encoding
        )


def understand(
    sample: Sequence[SampleRecord],
    *,
    encoding: FormatSettings = _PLAIN,
    chosen_id: Path | None = None,
    chosen_time: Path | None = None,
) -> Understanding:
    """Recognize the records of a sample and propose a schema. `encoding` names the registry or the schema file, if any.

    Raises TopicNotUnderstood, ConfigError, RegistryUnavailable.
    """
    if not sample:
        raise TopicNotUnderstood("there is no record: send some payments first")
    if encoding.registry is not None and encoding.format is None:
        encoding = registered_format(sample, encoding.registry)
    if encoding.format is None:
        found = recognize([record.value for record in sample])
    else:
        found = recognize_trees(decoded_sample(sample, encoding))
    if not found.trees:
        raise TopicNotUnderstood(_why_none(found))
    profile = profile_of(found.trees)
    appended = [sample[position].append_ms for position in found.positions]
    proposal = propose(
        profile,
        appended,
        types=_connect_types(sample[found.positions[0]].value, found.envelope),
        chosen_id=chosen_id,
        chosen_time=chosen_time,
        by_position=found.shape is Shape.CSV,
    )
    return Understanding(found, profile, proposal, encoding)


def decode_sample(
    sample: Sequence[SampleRecord], schema: TransactionSchema, now_ms: int, topic: str = ""
) -> DecodeResult:
    """Decode a sample of a topic with a schema. A record without an append time has the present one, `now_ms`."""
    return decode_transactions(
        RawTransactions.of(
            [each.value for each in sample],
            [each.partition for each in sample],
            [each.offset for each in sample],
            [now_ms if each.append_ms is None else each.append_ms for each in sample],
            topic,
            [each.key for each in sample],
            [each.headers for each in sample],
        ),
        schema,
        _FOR_A_LOOK,
    )


def _why_none(found: Recognized) -> str:
    if found.shape is Shape.WIRE:
        return "the records begin with a registry's schema id: name the registry with --registry URL"
    if found.unreadable:
        return f"no record is a JSON object or a CSV line; the first fault: {found.first_fault or 'other bytes'}"
    return "no record describes a new payment: all are updates or deletes of rows, or snapshots"


def _connect_types(value: bytes, envelope: Envelope) -> dict[Path, ConnectType]:
    """The types of members by the schema in Kafka Connect's envelope, by their path in the payment."""
    if envelope not in (Envelope.CONNECT, Envelope.DEBEZIUM):
        return {}
    try:
        declared = parse_object(value.strip(), value.decode().strip()).get("schema")
    except (RecordRejected, UnicodeDecodeError):
        return {}
    if envelope is Envelope.DEBEZIUM:
        declared = next((each for each in _fields_of(declared) if each.get("field") == "after"), None)
    return dict(_types_of(declared, ()))


def _types_of(declared: object, path: Path) -> list[tuple[Path, ConnectType]]:
    found: list[tuple[Path, ConnectType]] = []
    for each in _fields_of(declared):
        place = (*path, str(each.get("field")))
        parameters = each.get("parameters")
        scale = str(parameters.get("scale", "")) if isinstance(parameters, Mapping) else ""
        name = str(each.get("name") or "")
        is_decimal = name == "org.apache.kafka.connect.data.Decimal" and scale.isdigit()
        found.append((place, ConnectType(name, int(scale) if is_decimal else None)))
        found += _types_of(each, place)
    return found


def _fields_of(declared: object) -> list[Mapping[str, object]]:
    fields = declared.get("fields") if isinstance(declared, Mapping) else None
    return [each for each in fields if isinstance(each, Mapping)] if isinstance(fields, list) else []
