"""Builds the proof of an alert from a recording: the logs and batches from before its windows up to its payment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import metadata
from typing import Any

import msgspec
import numpy as np

from fraud_rules.batch.proof.tracing import GroupingTrace, RowPlace, TracedRow, boundaries_of, trace
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import NotProvable, Reason
from fraud_rules.model.log_entry import with_rejections
from fraud_rules.model.rule import Rule, RuleDeletion
from fraud_rules.model.ruleset import RuleInForce, RuleSet, RuleTimeline
from fraud_rules.model.schema import ID_FIELD, ROLE, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.proof.document import (
    FORMAT,
    Bytes,
    EvaluationOrder,
    KeyGroupBounds,
    Proof,
    ProvedBatch,
    ProvedPayment,
    ProvedRule,
    Statement,
    checksum,
    headers_of,
)
from fraud_rules.proof.plain.rows import Boundary
from fraud_rules.replay.recording import RecordedBatch, RecordedTransaction, Recording
from fraud_rules.replay.warm_up import decode_records

_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class PaymentLog:
    """The decoded payments of a recording, with the batch of each, and the rule log of each batch."""

    def __init__(
        self,
        recording: Recording,
        schema: TransactionSchema,
        settings: DetectorSettings,
        archived: Sequence[RecordedTransaction] = (),
    ) -> None:
        """`settings` are those of the recorded run. `recording.batches` follow each other; records that no batch has
        read form a last one. `archived` has further transactions: JSON of the values that the archive has."""
        self.recording, self.schema, self.settings = recording, schema, settings
        self.batches = _with_rest(recording)
        self.decoded: TransactionBatch = TransactionBatch.concat(
            [
                decode_records(records, form, settings).batch
                for records, form in ((recording.transactions, schema), (archived, schema.plain))
                if records or form is schema
            ]
        )
        self.numbers = self._batch_numbers()
        self.pins = np.array([each.pin for each in self.batches] or [0], np.int64)[self.numbers]
        self._entries = [
            read_entry(each.version, each.append_ms, each.value, schema, settings.limits) for each in recording.rules
        ]
        self._records = {(each.partition, each.offset): each for each in (*recording.transactions, *archived)}
        self._archived = {(each.partition, each.offset) for each in archived}

    def payment(self, place: tuple[int, int], number: int, retained_from_ms: int) -> ProvedPayment:
        """The record at a place, in the batch with a number."""
        record = self._records[place]
        return ProvedPayment(
            partition=record.partition,
            offset=record.offset,
            append_ms=record.append_ms,
            batch=number,
            retained_from=retained_from_ms,
            crc32=checksum(record.value),
            value=Bytes.of(record.value),
            key=None if record.key is None else Bytes.of(record.key),
            headers=headers_of(record.headers),
            archived=place in self._archived,
        )

    def position_of(self, partition: int, offset: int) -> int:
        """The position of the payment at a place."""
        found = (self.decoded.partition == partition) & (self.decoded.offset == offset)
        return int(np.flatnonzero(found)[0])

    def numbers_by_place(self) -> dict[tuple[int, int], int]:
        """The number of the batch of each payment, by partition and offset."""
        cells = zip(self.decoded.partition.tolist(), self.decoded.offset.tolist(), self.numbers.tolist(), strict=True)
        return {(partition, offset): number for partition, offset, number in cells}

    def versions_of(self, rule_id: int) -> list[tuple[int, int]]:
        """The valid records of a rule: their versions and append times."""
        rules = [(each, each.change) for each in self._entries]
        return [
            (each.version, each.append_ms) for each, rule in rules if isinstance(rule, Rule) and rule.rule_id == rule_id
        ]

    def timeline(self, number: int) -> RuleTimeline:
        """The rule log as a batch saw it."""
        rejections: dict[int, Sequence[Reason]] = {}
        for batch in self.batches[: number + 1]:
            rejections |= batch.rejections
        pin = max((batch.pin for batch in self.batches[: number + 1]), default=0)
        entries = [entry for entry in self._entries if entry.version < pin]
        return RuleTimeline(with_rejections(entries, rejections), pin)

    def rules_at(self, position: int, timeline: RuleTimeline) -> RuleSet:
        """The rules in force for a payment, in the rule log as its batch saw it."""
        (seen,) = timeline.entry_counts_at(self.decoded.append_ms[position : position + 1]).tolist()
        return timeline.rule_set(seen)

    def places_of(self, transaction_id: object, append_ms: int | None = None) -> list[int]:
        """The positions of the deliveries of a transaction, in the order of arrival."""
        column = self.decoded.columns[ID_FIELD]
        if column.dictionary is None:
            found = (
                np.flatnonzero(column.values == transaction_id) if isinstance(transaction_id, int) else np.empty(0, int)
            )
        else:
            code = column.dictionary.index(str(transaction_id)) if transaction_id in column.dictionary else -1
            found = np.flatnonzero(column.values == code)
        rows = self.decoded
        kept = [i for i in found.tolist() if append_ms in (None, rows.append_ms[i])]
        return sorted(kept, key=lambda i: (self.numbers[i], rows.append_ms[i], rows.partition[i], rows.offset[i]))

    def _batch_numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        numbers = np.zeros(len(self.decoded), np.int64)
        for partition in np.unique(self.decoded.partition).tolist():
            ends = np.maximum.accumulate([each.ends.get(partition, 0) for each in self.batches])
            at = self.decoded.partition == partition
            numbers[at] = np.searchsorted(ends, self.decoded.offset[at], side="right")
        return numbers


def _with_rest(recording: Recording) -> list[RecordedBatch]:
    ends: dict[int, int] = {}
    for each in recording.transactions:
        ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
    known = {at: max((batch.ends.get(at, 0) for batch in recording.batches), default=0) for at in ends}
    if all(known[at] >= end for at, end in ends.items()):
        return list(recording.batches)
    pin = recording.rules[-1].version + 1 if recording.rules else 0
    return [*recording.batches, RecordedBatch({at: max(end, known[at]) for at, end in ends.items()}, pin)]


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A row of a payment in the grouping of a rule in force: its rule log, and the rows of its key up to it."""

    number: int
    timeline: RuleTimeline
    in_force: RuleInForce
    role: str | None
    key: Mapping[str, object]
    trace: GroupingTrace
    boundaries: Sequence[Boundary]
    order: EvaluationOrder


def rows_of(log: PaymentLog, position: int, rule_id: int, order: EvaluationOrder = "arrival") -> list[JudgedRow] | None:
    """The rows of a payment in the grouping of a rule, one for each role of an entity; empty if the key is null. None
    if the rule was not in force for the payment."""
    number = int(log.numbers[position])
    timeline = log.timeline(number)
    in_force = log.rules_at(position, timeline).rules.get(rule_id)
    if in_force is None:
        return None
    # By event time, a row may follow one of a later batch, which knows more of the rule log.
    whole = timeline if order == "arrival" else log.timeline(len(log.batches) - 1)
    boundaries = boundaries_of(whole, in_force.rule.grouping)
    entity = log.schema.entity_of(in_force.rule.grouping)
    values, found = log.decoded.row(position, log.schema), []
    for role, name in enumerate([None] if entity is None else entity.role_names):
        place = RowPlace(int(log.decoded.partition[position]), int(log.decoded.offset[position]), role)
        traced = trace(
            log.decoded, log.numbers, log.pins, place, in_force.rule.grouping, whole, log.schema,
            log.settings.key_groups, log.settings.max_out_of_orderness_ms, order,
        )  # fmt: skip
        if traced is not None:
            fields = {} if entity is None else {entity.name: entity.fields[role]}
            key = {each: values[fields.get(each, each)] for each in in_force.rule.grouping}
            found.append(JudgedRow(number, timeline, in_force, name, key, traced, boundaries, order))
    return found


def build_proof(
    alert: bytes,
    log: PaymentLog,
    made_at_ms: int,
    *,
    earlier_alerts: Iterable[bytes] = (),
    missing: Sequence[str] = (),
    from_ms: int | None = None,
    order: EvaluationOrder = "arrival",
) -> Proof:
    """Build the proof of an alert as it was written. Raises NotProvable.

    `earlier_alerts` has those from before it, in `order` "event" also others. `missing` names what the recording lacks.
    The recording begins with the history, or with `from_ms` it has all payments that were appended from that time on.
    """
    document = _decode(alert)
    transaction_id, rule_id = document["triggeringEvent"][ID_FIELD], document["ruleId"]
    for position in log.places_of(transaction_id, document["ingestionTime"]):
        for row in rows_of(log, position, rule_id, order) or ():
            is_own = row.in_force.version == document["ruleVersion"] and row.role == document.get(ROLE)
            if is_own and row.trace.rows[-1].is_accepted:
                earlier = [each for each in earlier_alerts if is_of_key(_decode(each), rule_id, document["key"])]
                return proof_of_row(row, log, made_at_ms, alert, earlier, missing, from_ms)
    raise NotProvable(f"the records lack the payment {transaction_id}, or rule {rule_id} as of its arrival")


def proof_of_row(
    row: JudgedRow,
    log: PaymentLog,
    made_at_ms: int,
    alert: bytes,
    earlier_alerts: Sequence[bytes] = (),
    missing: Sequence[str] = (),
    from_ms: int | None = None,
) -> Proof:
    """The proof that this alert was written for a row. With the alert `{}`, it says only what the row was judged by."""
    rule, trace, settings = row.in_force.rule, row.trace, log.settings
    e = trace.rows[-1]
    earlier = [each for each in earlier_alerts if _arrived_before(_decode(each), row, log)]
    shown = _rows_in_windows(rule, trace.rows, [_decode(each) for each in earlier])
    held = {(each.place.partition, each.place.offset): each.retained_from_ms for each in shown}
    numbers = log.numbers_by_place()
    payments = [log.payment(place, numbers[place], held[place]) for place in sorted(held)]
    begins = row.timeline.latest.groupings.get(rule.grouping)
    # A re-evaluation may begin its history with a later day than the detector.
    is_known = row.order == "arrival" and (from_ms is None or (begins is not None and begins.epoch_ms >= from_ms))
    statement = Statement(
        format=FORMAT,
        product=metadata.version("fraud-rules"),
        made_at=made_at_ms,
        topic=settings.topics.transactions,
        partition=e.place.partition,
        offset=e.place.offset,
        rule_id=rule.rule_id,
        rule_version=row.in_force.version,
        incarnation=row.in_force.incarnation,
        batch=row.number,
        bounds=KeyGroupBounds(
            key_group=trace.key_group,
            key_groups=settings.key_groups,
            watermark=trace.watermark_ms,
            retained_from=trace.retained_from_ms,
            history_start=trace.history_start_ms if is_known else None,
        ),
        settings={
            "futureToleranceMs": settings.future_tolerance_ms,
            "eventTimeFloorMs": settings.event_time_floor_ms,
            "maxTransactionBytes": settings.max_transaction_bytes,
            "maxOutOfOrdernessMs": settings.max_out_of_orderness_ms,
        },
        boundaries=list(row.boundaries),
        earlier_alerts=[msgspec.Raw(each) for each in earlier],
        missing=list(missing),
        role=row.role,
        is_warm=_is_warm(row, log),
        order=row.order,
    )
    return Proof(
        statement=statement,
        alert=alert,
        schema=log.schema.text(),
        payments=payments,
        rules=list(_rules(row, log)),
        batches=list(_batches(log, {each.batch for each in payments})),
    )


def _is_warm(row: JudgedRow, log: PaymentLog) -> bool:
    """Whether a warm-up of the rule's grouping has joined the state up to the batch of a row; by event time, it may
    also have joined a later batch."""
    end = row.number + 1 if row.order == "arrival" else len(log.batches)
    joined = {each.version for batch in log.batches[:end] for each in batch.warm_ups}
    requests = [each.change for each in row.timeline.entries if each.version in joined]
    return any(isinstance(each, Rule) and each.grouping == row.in_force.rule.grouping for each in requests)


def is_of_key(alert: Mapping[str, Any], rule_id: int, key: Mapping[str, object]) -> bool:
    """Whether an alert is of a rule and key."""
    return bool(alert["ruleId"] == rule_id and alert["key"] == key)


def _arrived_before(other: Mapping[str, Any], row: JudgedRow, log: PaymentLog) -> bool:
    """Whether the payment of another alert of the same rule and key is before a row, in the row's order."""
    rows, rule = row.trace.rows, row.in_force.rule
    entity = log.schema.entity_of(rule.grouping)
    role = 0 if entity is None else entity.role_names.index(other[ROLE])
    name = other["triggeringEvent"][ID_FIELD], other["ingestionTime"], role
    is_known = any((x.transaction_id, x.append_ms, x.place.role) == name and x.is_accepted for x in rows[:-1])
    if row.order == "event":
        return bool(is_known or other["eventTime"] < rows[0].event_ms)
    return bool(is_known or other["ingestionTime"] < rows[0].append_ms)


def first_read_ms(rule: Rule, event_ms: int) -> int:
    """The oldest event time that a rule reads for a payment."""
    windows = (rule.whole_window, *(each.window for each in rule.aggregate_conditions))
    starts = [window.start_ms(event_ms) for window in windows]
    return min((each for each in starts if each is not None), default=event_ms)


def _rows_in_windows(rule: Rule, rows: Sequence[TracedRow], earlier: Sequence[Mapping[str, Any]]) -> list[TracedRow]:
    """The rows of the key in the windows, the other deliveries of their transactions, and the payments of earlier
    alerts."""
    event_ms = rows[-1].event_ms
    first_ms = first_read_ms(rule, event_ms)
    ids = {row.transaction_id for row in rows if first_ms <= row.event_ms <= event_ms}
    ids |= {each["triggeringEvent"][ID_FIELD] for each in earlier} | {rows[-1].transaction_id}
    return [row for row in rows if row.transaction_id in ids]


def _rules(row: JudgedRow, log: PaymentLog) -> Iterator[ProvedRule]:
    """The accepted records of the rule from its version on, and those of the lists and maps that it names."""
    rule, version = row.in_force.rule, row.in_force.version
    raw = {each.version: each for each in log.recording.rules}
    for entry in row.timeline.entries:
        change = entry.change
        is_own = isinstance(change, Rule | RuleDeletion) and change.rule_id == rule.rule_id and entry.version >= version
        is_read = change is not None and (entry.list_name in rule.lists or entry.map_name in rule.maps)
        if is_own or is_read:
            record = raw[entry.version]
            value, headers = Bytes.of(record.value), headers_of(record.headers)
            yield ProvedRule(entry.version, entry.append_ms, entry.time_ms, value, headers)


def _batches(log: PaymentLog, numbers: Iterable[int]) -> Iterator[ProvedBatch]:
    for number in sorted(numbers):
        batch, starts = log.batches[number], dict[int, int]()
        for before in log.batches[:number]:
            starts |= before.ends
        yield ProvedBatch(number, batch.pin, _texts(starts), _texts({**starts, **batch.ends}), batch.time_zones)


def _texts(ends: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): end for partition, end in sorted(ends.items())}
