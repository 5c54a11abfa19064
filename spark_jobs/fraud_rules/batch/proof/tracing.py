"""Follows the rows of one grouping and key group up to a payment: who was accepted, watermark and retention bound.

It recomputes what the state of the detector was then from the records alone, one row after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.fanout import rows_by_key_group
from fraud_rules.engine.role_rows import role_rows
from fraud_rules.model.rule import Control
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import ID_FIELD, ROLE, TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from fraud_rules.proof.document import EvaluationOrder
from fraud_rules.proof.plain.rows import Boundary

LONG_AGO_MS: Final = -(10**18)
Ints = NDArray[np.int64]


class RowPlace(NamedTuple):
    """The place of a row: its record, and the number of its role."""

    partition: int
    offset: int
    role: int


class TracedRow(NamedTuple):
    """A row of the payment's key, with the retention bound of the key group right before it."""

    place: RowPlace
    append_ms: int
    event_ms: int
    transaction_id: object
    retained_from_ms: int
    is_accepted: bool


@dataclass
class _Bounds:
    watermark_ms: int = LONG_AGO_MS
    retained_from_ms: int = LONG_AGO_MS


class _Accepted(NamedTuple):
    event_ms: int
    append_ms: int
    seen: int
    bounds: _Bounds


@dataclass
class GroupingTrace:
    """The rows of the key up to the payment, itself the last one, and the bounds right before it.

    `history_start_ms` is the event time at which the retained history starts.
    """

    key_group: int
    rows: list[TracedRow] = field(default_factory=list)
    watermark_ms: int = LONG_AGO_MS
    retained_from_ms: int = LONG_AGO_MS
    history_start_ms: int | None = None


def trace(
    batch: TransactionBatch,
    numbers: Ints,
    pins: Ints,
    at: RowPlace,
    grouping: tuple[str, ...],
    timeline: RuleTimeline,
    schema: TransactionSchema,
    key_groups: int,
    max_out_of_orderness_ms: int,
    order: EvaluationOrder = "arrival",
) -> GroupingTrace | None:
    """Follow the rows up to the row `at`. None if the payment has no such row: a field of the key is null.

    `numbers` and `pins`, int64[n], have the number of each transaction's batch and the end of the rule log that it saw.
    `timeline` has the rule log of all these batches.
    """
    numbered = {**batch.columns, _NUMBER: _column(numbers), _PIN: _column(pins)}
    rows = role_rows(
        TransactionBatch(batch.append_ms, batch.partition, batch.offset, numbered), schema.entity_of(grouping)
    )
    for key_group, part in rows_by_key_group(rows, grouping, key_groups).items():
        sequence = _sequence(part, order)
        places = _places(part, sequence)
        if at in places:
            count = places.index(at) + 1
            return _follow(
                part.take(sequence[:count]), places[:count], grouping, timeline, max_out_of_orderness_ms, key_group
            )
    return None


_NUMBER, _PIN = "batch()", "pin()"


def _column(values: Ints) -> Column:
    return Column(values, None, None)


def _sequence(rows: TransactionBatch, order: EvaluationOrder) -> Ints:
    role = rows.columns[ROLE].values if ROLE in rows.columns else np.zeros(len(rows), np.int64)
    arrival = role, rows.offset, rows.partition, rows.append_ms, rows.columns[_NUMBER].values
    return np.lexsort(arrival if order == "arrival" else (*arrival, rows.columns[TIME_FIELD].values))


def _places(rows: TransactionBatch, order: Ints) -> list[RowPlace]:
    role = rows.columns[ROLE].values if ROLE in rows.columns else np.zeros(len(rows), np.int64)
    cells = zip(rows.partition[order].tolist(), rows.offset[order].tolist(), role[order].tolist(), strict=True)
    return [RowPlace(*each) for each in cells]


def _follow(
    rows: TransactionBatch,
    places: Sequence[RowPlace],
    grouping: tuple[str, ...],
    timeline: RuleTimeline,
    max_out_of_orderness_ms: int,
    key_group: int,
) -> GroupingTrace:
    found = GroupingTrace(key_group)
    boundaries = boundaries_of(timeline, grouping)
    seen = _entries_seen(rows, timeline)
    bounds: dict[int, _Bounds] = {}
    starts: dict[int, int] = {}
    accepted: list[_Accepted] = []
    of_identity: dict[object, list[_Accepted]] = {}
    ids = _cells(rows, ID_FIELD)
    keys = list(zip(*(rows.columns[name].values.tolist() for name in grouping), strict=True)) or [()] * len(rows)
    own = keys[-1]
    for i, (event_ms, append_ms) in enumerate(
        zip(rows.columns[TIME_FIELD].values.tolist(), rows.append_ms.tolist(), strict=True)
    ):
        in_force = timeline.rule_set(seen[i]).groupings.get(grouping)
        now = _Bounds() if in_force is None else bounds.setdefault(in_force.incarnation, _Bounds())
        before_ms = now.retained_from_ms
        if i == len(keys) - 1:
            found.watermark_ms, found.retained_from_ms = now.watermark_ms, now.retained_from_ms
        one = _Accepted(event_ms, append_ms, seen[i], now)
        same = of_identity.setdefault((keys[i], ids[i], places[i].role), [])
        is_accepted = in_force is not None and not any(
            x.event_ms >= max(before_ms, x.bounds.retained_from_ms) and _connected(x, one, boundaries, timeline)
            for x in same
        )
        if keys[i] == own:
            found.rows.append(TracedRow(places[i], append_ms, event_ms, ids[i], before_ms, is_accepted))
        if in_force is None or not is_accepted:
            continue
        if event_ms >= before_ms:
            same.append(one)
            accepted.append(one)
            if in_force.epoch not in starts:
                starts[in_force.epoch] = next(
                    x.event_ms
                    for x in accepted
                    if x.event_ms >= x.bounds.retained_from_ms and _connected(x, one, boundaries, timeline)
                )
        if i == len(keys) - 1:
            found.history_start_ms = max(starts.get(in_force.epoch, LONG_AGO_MS), now.retained_from_ms)
        now.watermark_ms = max(now.watermark_ms, min(event_ms, append_ms) - max_out_of_orderness_ms)
        now.retained_from_ms = max(now.retained_from_ms, now.watermark_ms - in_force.widest_window_ms)
    return found


def _cells(rows: TransactionBatch, name: str) -> list[object]:
    column = rows.columns[name]
    return [column.dictionary[code] for code in column.values.tolist()] if column.dictionary else column.values.tolist()


def _entries_seen(rows: TransactionBatch, timeline: RuleTimeline) -> list[int]:
    """The number of log entries that apply to each row: those that its batch saw and whose time has come."""
    pins = rows.columns[_PIN].values
    of_pin = {pin: timeline.position_of(pin) for pin in np.unique(pins).tolist()}
    seen = timeline.entry_counts_at(rows.append_ms).tolist()
    return [min(count, of_pin[pin]) for count, pin in zip(seen, pins.tolist(), strict=True)]


def _connected(x: _Accepted, y: _Accepted, boundaries: Sequence[Boundary], timeline: RuleTimeline) -> bool:
    """Whether no boundary that one of the two knows lies between them, and the earlier row x knows none that y does
    not know."""
    first_ms, last_ms = sorted((x.append_ms, y.append_ms))
    known = [each for each in boundaries if each.kind != "END"]
    positions = [(each, timeline.position_of(each.version)) for each in known]
    return not any(
        y.seen <= position < x.seen or (first_ms < each.time_ms <= last_ms and position < y.seen)
        for each, position in positions
    )


def boundaries_of(timeline: RuleTimeline, grouping: tuple[str, ...]) -> list[Boundary]:
    """The starts and ends of a grouping, and all clears, in the order of the log."""
    return list(_boundaries(timeline, grouping))


def _boundaries(timeline: RuleTimeline, grouping: tuple[str, ...]) -> Iterator[Boundary]:
    was = False
    for count, entry in enumerate(timeline.entries, 1):
        change = entry.change
        if isinstance(change, Control) and change.type.clears_state:
            yield Boundary(entry.version, entry.time_ms, "CLEAR")
        is_in_force = grouping in timeline.rule_set(count).groupings
        if was != is_in_force:
            yield Boundary(entry.version, entry.time_ms, "START" if is_in_force else "END")
        was = is_in_force
