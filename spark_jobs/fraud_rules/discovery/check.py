"""What records contain, field by field, as a schema reads them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fraud_rules.codec.scalar import format_timestamp
from fraud_rules.codec.transactions.codec import DecodeResult
from fraud_rules.discovery.sample import SampleRecord, quantile
from fraud_rules.discovery.times import shift_h
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch

_MOST_SHOWN: Final = 5
_BEHIND_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class FieldReport:
    """One field. `least` and `largest` are texts, empty for a text field or without a value. `usual` are the most
    frequent texts with their number, `distinct` the number of different values."""

    name: str
    type: str
    null_share: float
    distinct: int
    least: str = ""
    largest: str = ""
    usual: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimeReport:
    """The event times beside the append times. A lag is the append time minus the event time."""

    median_lag_ms: int
    largest_lag_ms: int
    future_share: float
    shift_h: int


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition: its payments in the sample, and the newest event time among them."""

    partition: int
    payments: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class SampleReport:
    """The whole sample. `rejected` has the number of unreadable records by reason, with an example. `repeated` payments
    have the id and the content of another one, `conflicting` ones its id and another content."""

    records: int
    payments: int
    ignored: int
    rejected: Mapping[str, tuple[int, str]]
    fields: Sequence[FieldReport]
    time: TimeReport | None
    repeated: int
    conflicting: int
    partitions: Sequence[PartitionReport]

    @property
    def held_back_by(self) -> PartitionReport | None:
        """The partition whose newest payment is the oldest, if it is a minute behind. Windows on its keys end last."""
        newest_ms = max((each.newest_ms for each in self.partitions), default=0)
        late = [each for each in self.partitions if newest_ms - each.newest_ms >= _BEHIND_MS]
        return min(late, key=lambda each: each.newest_ms, default=None)


def report_on(sample: Sequence[SampleRecord], decoded: DecodeResult, schema: TransactionSchema) -> SampleReport:
    """Report on decoded records of a topic."""
    batch = decoded.batch
    rejected: dict[str, tuple[int, str]] = {}
    for each in decoded.rejects:
        count, example = rejected.get(each.reason, (0, each.detail))
        rejected[each.reason] = count + 1, example
    repeated, conflicting = _duplicates(batch)
    return SampleReport(
        records=len(sample),
        payments=len(batch),
        ignored=decoded.ignored,
        rejected=rejected,
        fields=[_field(declared, batch.columns[declared.name], len(batch)) for declared in schema.fields],
        time=_time(batch),
        repeated=repeated,
        conflicting=conflicting,
        partitions=_partitions(batch),
    )


def _field(declared: Field, column: Column, n: int) -> FieldReport:
    values = column.values if column.valid is None else column.values[column.valid]
    null_share = 1 - len(values) / n if n else 0.0
    counts = Counter(values.tolist())
    if column.dictionary is not None:
        usual = {column.dictionary[code]: count for code, count in counts.most_common(_MOST_SHOWN)}
        return FieldReport(declared.name, declared.type, null_share, len(counts), usual=usual)
    if declared.type is FieldType.BOOLEAN:
        usual = {str(bool(value)).lower(): count for value, count in counts.most_common()}
        return FieldReport(declared.name, declared.type, null_share, len(counts), usual=usual)
    bounds = (_shown(int(values.min()), declared), _shown(int(values.max()), declared)) if len(values) else ("", "")
    return FieldReport(declared.name, declared.type, null_share, len(counts), *bounds)


def _shown(value: int, declared: Field) -> str:
    if declared.type is FieldType.TIMESTAMP:
        return format_timestamp(value)
    return str(Decimal(value).scaleb(-declared.scale)) if declared.type is FieldType.DECIMAL else str(value)


def _time(batch: TransactionBatch) -> TimeReport | None:
    if not len(batch):
        return None
    lags = np.sort(batch.append_ms - batch.columns[TIME_FIELD].values).tolist()
    future = sum(lag < 0 for lag in lags) / len(lags)
    return TimeReport(quantile(lags, 0.5), lags[-1], future, shift_h(lags))


def _duplicates(batch: TransactionBatch) -> tuple[int, int]:
    """The number of payments whose id an earlier one has: with equal content, and with another one."""
    contents = _rows(batch)
    ids = batch.columns[ID_FIELD].values.tolist()
    known: dict[int, bytes] = {}
    repeated = conflicting = 0
    for identity, content in zip(ids, contents, strict=True):
        first = known.setdefault(identity, content)
        if first is not content:
            repeated += first == content
            conflicting += first != content
    return repeated, conflicting


def _rows(batch: TransactionBatch) -> list[bytes]:
    """The content of each row as bytes, equal for equal rows."""
    parts: list[NDArray[np.int64]] = []
    for column in batch.columns.values():
        parts.append(column.values)
        parts.append(np.ones(len(batch), np.int64) if column.valid is None else column.valid.astype(np.int64))
    matrix = np.ascontiguousarray(np.column_stack(parts)) if len(batch) else np.empty((0, 1), np.int64)
    return [row.tobytes() for row in matrix]


def _partitions(batch: TransactionBatch) -> list[PartitionReport]:
    times = batch.columns[TIME_FIELD].values
    return [
        PartitionReport(partition, int(mask.sum()), int(times[mask].max()))
        for partition in np.unique(batch.partition).tolist()
        if (mask := batch.partition == partition).any()
    ]
