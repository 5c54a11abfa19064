"""The oracle's input: a recorded stream as rows in arrival order.

Like the rest of `oracle`, this module is written from the specification alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from tests.support.oracle.arithmetic import Value
from tests.support.oracle.texts import text_of

LONG_AGO_MS = -(10**18)
FLOOR_MS = 946_684_800_000  # 2000-01-01T00:00:00Z
TOLERANCE_MS = 300_000

ROLE = "role()"
"""The name under which a row of an entity has the name of its role."""

Document = Mapping[str, Any]
Grouping = tuple[str, ...]


@dataclass
class Row:
    """One transaction record; `pin` is that of its batch.

    Parsing sets `values`. Evaluation sets `rules_seen`, the number of rule records that apply to the transaction.
    """

    append_ms: int
    partition: int
    offset: int
    pin: int
    tx: Mapping[str, Any]
    arrival: int = -1
    rules_seen: int = 0
    values: Mapping[str, Value] = field(default_factory=dict)

    @property
    def id(self) -> Value:
        return self.values["transactionId"]

    @property
    def identity(self) -> tuple[Value, Value]:
        """What identifies the row within a key: the transaction, and the role of an entity's row."""
        return self.id, self.values.get(ROLE)

    @property
    def event_ms(self) -> int:
        return int(self.values["eventTime"] or 0)


@dataclass(frozen=True)
class WarmUp:
    """A warm-up that joined the state: the version of its rule record, and the ends of the transactions read."""

    version: int
    ends: Mapping[int, int]
    pin: int


@dataclass
class Batch:
    """One batch: the warm-ups that join the state at its start, and its rows in arrival order."""

    warm_ups: list[WarmUp]
    rows: list[Row]


def arrivals(document: Document, rules_end: int) -> Iterator[Row]:
    """Every transaction in arrival order: batches in turn, inside a batch by (append time, partition, offset)."""
    for batch in batches(document, rules_end):
        yield from batch.rows


def batches(document: Document, rules_end: int) -> Iterator[Batch]:
    """The batches in turn."""
    by_partition = _logs(document, rules_end)
    recorded = [*document.get("batches", []), {}]
    arrival = 0
    for members, cut in zip(recorded, _cut(document, by_partition), strict=True):
        warm_ups = [
            WarmUp(each["version"], {int(at): end for at, end in each["ends"].items()}, members["pin"])
            for each in members.get("warmUps", [])
        ]
        rows = sorted(cut, key=lambda row: (row.append_ms, row.partition, row.offset))
        for row in rows:
            row.arrival, arrival = arrival, arrival + 1
        yield Batch(warm_ups, rows)


def records(document: Document) -> list[Row]:
    """Every transaction record by (append time, partition, offset). All of them arrive before any row of a batch."""
    rows = [row for log in _logs(document, 0).values() for row in log]
    rows.sort(key=lambda row: (row.append_ms, row.partition, row.offset))
    for position, row in enumerate(rows):
        row.arrival = position - len(rows)
    return rows


def _logs(document: Document, rules_end: int) -> dict[int, list[Row]]:
    by_partition: dict[int, list[Row]] = {}
    for step in document["steps"]:
        if "tx" in step:
            rows = by_partition.setdefault(step.get("partition", 0), [])
            rows.append(Row(step["at"], step.get("partition", 0), len(rows), rules_end, step["tx"]))
    return by_partition


def _cut(document: Document, by_partition: Mapping[int, list[Row]]) -> Iterator[list[Row]]:
    """The recorded batches. Unread records form one more batch, which sees the whole rule log."""
    starts = dict.fromkeys(by_partition, 0)
    for recorded in document.get("batches", []):
        batch: list[Row] = []
        for partition, end in recorded["offsets"].get("transactions", {}).items():
            rows = by_partition.get(int(partition), [])[starts.get(int(partition), 0) : end]
            for row in rows:
                row.pin = recorded["pin"]
            batch += rows
            starts[int(partition)] = end
        yield batch
    yield [row for partition, rows in by_partition.items() for row in rows[starts[partition] :]]


def parse(
    tx: Mapping[str, Any], append_ms: int, schema: TransactionSchema, settings: Document
) -> dict[str, Value] | None:
    """Decode the declared fields as exact Python values; None for a record that goes to quarantine. `settings` are
    those of the recording."""
    values: dict[str, Value] = {}
    for declared in schema.fields:
        raw = next((tx[name] for name in (declared.name, *declared.aliases) if tx.get(name) is not None), None)
        try:
            values[declared.name] = None if raw is None else _value(raw, declared)
        except (ValueError, InvalidOperation):
            return None
        if raw is None and not declared.nullable:
            return None
    event_ms = values["eventTime"]
    first_ms = settings.get("eventTimeFloorMs", FLOOR_MS)
    last_ms = append_ms + settings.get("futureToleranceMs", TOLERANCE_MS)
    return values if isinstance(event_ms, int) and first_ms <= event_ms <= last_ms else None


def _value(raw: Any, declared: Field) -> Value:
    match declared.type:
        case FieldType.STRING:
            return text_of(str(raw), declared)
        case FieldType.LONG:
            return int(raw)
        case FieldType.BOOLEAN:
            if not isinstance(raw, bool):
                raise ValueError(f"{raw} is not a boolean")  # noqa: TRY004 - as for other values that do not fit
            return raw
        case FieldType.TIMESTAMP:
            if isinstance(raw, int):
                return raw
            stamp = datetime.fromisoformat(raw)
            stamp = stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
            return int((stamp - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
        case FieldType.DECIMAL:
            return Decimal(unscaled(Decimal(str(raw)), declared)).scaleb(-declared.scale)


def unscaled(amount: Decimal, declared: Field) -> int:
    """The amount in units of its last decimal place. Raises ValueError if it exceeds the declared digits."""
    numerator, denominator = amount.as_integer_ratio()
    whole, rest = divmod(numerator * int(10**declared.scale), denominator)
    if rest or abs(whole) >= 10**declared.precision:
        raise ValueError(f"{amount} does not fit decimal({declared.precision},{declared.scale})")
    return whole
