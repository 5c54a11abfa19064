"""The sums of long windows outside of the arrays: in the state log, and while the arrays of a state are rebuilt.

A sum stands for the rows of one series, part (see `Measures`), grouping key and step. Sums of parts of these rows add
up, so a chunk has the sums of its own rows, and merged chunks have fewer. `window.step_sums` describes the series.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.aggregates import LARGEST, SMALLEST, aggregate_of
from fraud_rules.engine.window.bundles import Ints
from fraud_rules.engine.window.extremes import IDLE
from fraud_rules.engine.window.plan import Measures, baseline_part
from fraud_rules.model.expressions.predicate import Predicate
from fraud_rules.model.rule import Baseline, Rule
from fraud_rules.model.ruleset import Grouping, RuleInForce
from fraud_rules.model.schema import TIME_FIELD
from fraud_rules.model.tables.narrow_column import NarrowColumn
from fraud_rules.model.tables.packed_columns import PackedColumn, PackedKey
from fraud_rules.model.transaction import Column, TransactionBatch

# The columns of `StepSums.numbers`.
U_SERIES = 0  # the version with which the series began
U_PART = 1  # 0: the aggregate of the rule, 1: that of its baseline
U_TIME = 2  # the newest event time
U_ROWS = 3  # rows that pass the filter
U_VALUES = 4  # non-null values
U_LOW = 5  # the sum of the values is (U_HIGH << 32) + U_LOW
U_HIGH = 6
U_SQUARE = 7  # four limbs of the sum of squares
U_LEAST = 11
U_GREATEST = 12
U_WIDTH = 13

_TOTALS: Final = {
    at.TOTAL_ROWS: U_ROWS,
    at.TOTAL_VALUES: U_VALUES,
    at.TOTAL_LOW: U_LOW,
    at.TOTAL_HIGH: U_HIGH,
    at.TOTAL_SQUARE_0: U_SQUARE,
    at.TOTAL_SQUARE_1: U_SQUARE + 1,
    at.TOTAL_SQUARE_2: U_SQUARE + 2,
    at.TOTAL_SQUARE_3: U_SQUARE + 3,
}
_NO_GREATEST: Final = ~IDLE
_MASK: Final = 0xFFFF_FFFF
_SUMS_PER_PIECE: Final = 32_768
_PACK_FORMAT: Final = 1
_HOUR_MS: Final = 3_600_000


class SeriesHead(msgspec.Struct, array_like=True):
    """The head's entry of a series in a grouping state, as the Q_* of the array `series`."""

    version: int
    began_ms: int
    bound_ms: int
    since_ms: int
    is_warm: bool
    ended_ms: int
    history_ms: int = at.NONE

    def has(self, rows: TransactionBatch) -> NDArray[np.bool_]:
        """Whether each of the rows is in the series. The `offset` of a row is its arrival number."""
        times_ms = rows.columns[TIME_FIELD].values
        found: NDArray[np.bool_] = (times_ms >= self.began_ms) & ((rows.offset >= 0) | (times_ms >= self.history_ms))
        return found


@dataclass(frozen=True, slots=True)
class StepSums:
    """The sums `numbers` int64[n, U_WIDTH], and the grouping key of each: one Column for each grouping field."""

    numbers: Ints
    keys: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, chosen: NDArray[np.bool_] | Ints) -> StepSums:
        """The chosen sums (positions or a mask), in that order."""
        return StepSums(self.numbers[chosen], tuple(key.take(chosen) for key in self.keys))

    def places(self, fields: Grouping) -> TransactionBatch:
        """The keys as rows with the fields of the grouping. The `offset` of a row is the position of its sum."""
        zeros = np.zeros(len(self), dtype=np.int64)
        columns = dict(zip(fields, self.keys, strict=True))
        return TransactionBatch(zeros, zeros.astype(np.int32), np.arange(len(self), dtype=np.int64), columns)

    def pack(self) -> bytes:
        """Encode the sums, in few bytes if they are in order of key and time. A column without content is left out."""
        hours, numbers = self.numbers[:, U_TIME] // _HOUR_MS, self.numbers.copy()
        numbers[:, U_TIME] -= hours * _HOUR_MS
        is_packed = (numbers != _empty(numbers)).any(axis=0)
        is_packed[[U_TIME, U_ROWS]] = True
        packed = _PackedSums(
            _PACK_FORMAT,
            len(self),
            NarrowColumn.of(hours),
            {c: PackedColumn.of(numbers[:, c]) for c in np.flatnonzero(is_packed).tolist()},
            [PackedKey.of(key) for key in self.keys],
        )
        return _encode(packed)

    @classmethod
    def unpack(cls, blob: bytes) -> StepSums:
        """Decode the bytes of `pack`. Raises ValueError for bytes that another version has packed."""
        packed = _decode(blob)
        if packed.format != _PACK_FORMAT:
            raise ValueError(f"packed sums of format {packed.format}; this version reads {_PACK_FORMAT}")
        n = packed.count
        numbers = np.zeros((n, U_WIDTH), dtype=np.int64)
        numbers[:, U_ROWS] = packed.columns[U_ROWS].values(n)
        numbers = _empty(numbers)
        for c, column in packed.columns.items():
            numbers[:, c] = column.values(n)
        numbers[:, U_TIME] += packed.hours.values(n) * _HOUR_MS
        return cls(numbers, tuple(key.column(n) for key in packed.keys))

    def columns_of(self, measures: Measures) -> tuple[Ints, Ints]:
        """What the sums add to the totals and the leaves of measures: int64[n, totals], int64[n, trees]."""
        totals = np.zeros((len(self), len(measures.totals)), dtype=np.int64)
        leaves = np.full((len(self), len(measures.trees)), IDLE, dtype=np.int64)
        for part in range(2 * len(measures.series)):
            chosen = np.flatnonzero(self._is_of(measures, part))
            for column, (kind, _, _, of_part) in enumerate(measures.totals):
                if of_part == part:
                    totals[chosen, column] = self.numbers[chosen, _TOTALS[kind]]
            for column, (_, _, extreme, of_part) in enumerate(measures.trees):
                if of_part == part:
                    best = self.numbers[chosen, U_LEAST if extreme == SMALLEST else U_GREATEST]
                    leaves[chosen, column] = ~best if extreme == LARGEST else best
        return totals, leaves

    def _is_of(self, measures: Measures, part: int) -> NDArray[np.bool_]:
        series, of_baseline = measures.series[part // 2], part % 2
        found: NDArray[np.bool_] = (self.numbers[:, U_SERIES] == series) & (self.numbers[:, U_PART] == of_baseline)
        return found


class _PackedSums(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The packed form of sums: the hours of their times, and columns of `StepSums.numbers` by their places there. The
    column U_TIME has the times within the hour."""

    format: int
    count: int
    hours: NarrowColumn
    columns: dict[int, PackedColumn]
    keys: list[PackedKey]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_PackedSums).decode

NO_SUMS: Final = StepSums(np.empty((0, U_WIDTH), dtype=np.int64), ())


def _empty(numbers: Ints) -> Ints:
    """The sums of the same rows without anything else."""
    found = np.zeros_like(numbers)
    found[:, U_TIME], found[:, U_ROWS], found[:, U_VALUES] = numbers[:, U_TIME], numbers[:, U_ROWS], numbers[:, U_ROWS]
    found[:, U_LEAST], found[:, U_GREATEST] = IDLE, _NO_GREATEST
    return found


def sums_of_columns(measures: Measures, times: Ints, totals: Ints, leaves: Ints, keys: tuple[Column, ...]) -> StepSums:
    """The sums whose totals and leaves are given: the reverse of `StepSums.columns_of`. `keys` has their keys."""
    found, chosen = [np.empty((0, U_WIDTH), dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for part in range(2 * len(measures.series)):
        columns = {kind: column for column, (kind, _, _, of_part) in enumerate(measures.totals) if of_part == part}
        if not columns:
            continue
        with_rows = np.flatnonzero(totals[:, columns[at.TOTAL_ROWS]])
        numbers = np.zeros((len(with_rows), U_WIDTH), dtype=np.int64)
        numbers[:, U_TIME], numbers[:, U_ROWS] = times[with_rows], totals[with_rows, columns[at.TOTAL_ROWS]]
        numbers = _empty(numbers)
        numbers[:, U_SERIES], numbers[:, U_PART] = measures.series[part // 2], part % 2
        for kind, column in columns.items():
            numbers[:, _TOTALS[kind]] = totals[with_rows, column]
        for column, (_, _, extreme, of_part) in enumerate(measures.trees):
            if of_part == part:
                best = leaves[with_rows, column]
                numbers[:, U_LEAST if extreme == SMALLEST else U_GREATEST] = ~best if extreme == LARGEST else best
        found.append(numbers)
        chosen.append(with_rows)
    return StepSums(np.concatenate(found), tuple(key.take(np.concatenate(chosen)) for key in keys))


@dataclass(frozen=True, slots=True)
class SumSource:
    """What the sums of one part of a series need of the rows. `field` is None if only rows are counted."""

    series: int
    part: int
    step_ms: int
    filter: Predicate | None
    field: str | None
    has_totals: bool
    has_squares: bool
    has_extremes: bool


def sources_of(long_rules: Sequence[RuleInForce]) -> list[SumSource]:
    """The parts of the series of rules with long windows."""
    found = []
    for each in long_rules:
        assert each.series is not None
        own = [each.rule]
        parts: list[tuple[int, list[Rule | Baseline]]] = [(0, [*own])]
        if each.rule.baseline is not None:
            past = each.rule.baseline
            if baseline_part(each.rule, 0) == 0:
                parts[0][1].append(past)
            else:
                parts.append((1, [past]))
        found += [_source(each.series, part, each.rule.window.step_ms, of) for part, of in parts]
    return found


def _source(series: int, part: int, step_ms: int, of: Sequence[Rule | Baseline]) -> SumSource:
    aggregates = [aggregate_of(each) for each in of]
    deviates = any(isinstance(each, Baseline) and each.deviations for each in of)
    return SumSource(
        series,
        part,
        step_ms,
        of[0].filter,
        of[0].aggregate_field if any(each.reads_field for each in aggregates) else None,
        any(each.totals for each in aggregates),
        deviates or any(each.needs_squares for each in aggregates),
        any(each.extreme is not None for each in aggregates),
    )


def sums_of_rows(rows: TransactionBatch, source: SumSource, fields: Grouping) -> StepSums:
    """A sum for each of the rows that passes the filter of a part."""
    if source.filter is not None:
        rows = rows.take(source.filter.mask(rows.columns, len(rows)))
    numbers = np.zeros((len(rows), U_WIDTH), dtype=np.int64)
    numbers[:, U_TIME], numbers[:, U_ROWS] = rows.columns[TIME_FIELD].values, 1
    numbers = _empty(numbers)
    numbers[:, U_SERIES], numbers[:, U_PART] = source.series, source.part
    if source.field is not None:
        column = rows.columns[source.field]
        valid = np.ones(len(rows), dtype=np.bool_) if column.valid is None else column.valid
        _add_values(numbers, column.values, valid, source)
    return StepSums(
        numbers, tuple(Column(rows.columns[name].values, None, rows.columns[name].dictionary) for name in fields)
    )


def _add_values(numbers: Ints, values: Ints, valid: NDArray[np.bool_], source: SumSource) -> None:
    numbers[:, U_VALUES] = valid
    values = np.where(valid, values, 0)
    if source.has_totals:
        numbers[:, U_LOW], numbers[:, U_HIGH] = values & _MASK, values >> 32
    if source.has_squares:
        numbers[:, U_SQUARE : U_SQUARE + 4] = _squares(values)
    if source.has_extremes:
        numbers[:, U_LEAST] = np.where(valid, values, IDLE)
        numbers[:, U_GREATEST] = np.where(valid, values, _NO_GREATEST)


def _squares(values: Ints) -> Ints:
    """The 32-bit limbs of the squares, lowest first: int64[n, 4]."""
    size = np.where(values < 0, -values, values).view(np.uint64)
    mask, shift = np.uint64(_MASK), np.uint64(32)
    a, b = size >> shift, size & mask
    middle = ((b * b) >> shift) + (a * b & mask) + (a * b & mask)
    top = (a * a & mask) + (a * b >> shift) + (a * b >> shift) + (middle >> shift)
    limbs = np.stack([b * b & mask, middle & mask, top & mask, (a * a >> shift) + (top >> shift)], axis=1)
    return limbs.astype(np.int64)


def concat_sums(parts: Sequence[StepSums]) -> StepSums:
    """The sums of all parts."""
    parts = [each for each in parts if len(each)]
    if len(parts) <= 1:
        return parts[0] if parts else NO_SUMS
    batches = []
    for each in parts:
        zeros = np.zeros(len(each), dtype=np.int64)
        keys = {f"k{k}": key for k, key in enumerate(each.keys)}
        batches.append(TransactionBatch(zeros, zeros.astype(np.int32), zeros, keys))
    keys = TransactionBatch.concat(batches).columns
    return StepSums(np.concatenate([each.numbers for each in parts]), tuple(keys.values()))


def pieces_of(sums: StepSums) -> Iterator[StepSums]:
    """The sums in pieces that fit into a chunk."""
    for start in range(0, len(sums), _SUMS_PER_PIECE):
        yield sums.take(np.arange(start, min(start + _SUMS_PER_PIECE, len(sums))))


def add_up(sums: StepSums, sources: Sequence[SumSource]) -> StepSums:
    """One sum for each series, part, key and step. Sums of other series are left out."""
    found = []
    for source in sources:
        numbers = sums.numbers
        of_source = sums.take((numbers[:, U_SERIES] == source.series) & (numbers[:, U_PART] == source.part))
        if len(of_source):
            found.append(_added_up(of_source, source.step_ms))
    return concat_sums(found)


def _added_up(sums: StepSums, step_ms: int) -> StepSums:
    steps = sums.numbers[:, U_TIME] // step_ms
    order = np.lexsort([steps, *(key.values for key in sums.keys)])
    compared = np.stack([steps, *(key.values for key in sums.keys)], axis=1)[order]
    starts = np.flatnonzero(np.append(True, (compared[1:] != compared[:-1]).any(axis=1)))
    numbers = sums.numbers[order]
    added = np.add.reduceat(numbers, starts, axis=0)
    added[:, :U_TIME] = numbers[starts, :U_TIME]
    for column, best in ((U_TIME, np.maximum), (U_LEAST, np.minimum), (U_GREATEST, np.maximum)):
        added[:, column] = best.reduceat(numbers[:, column], starts)
    added[:, U_HIGH] += added[:, U_LOW] >> 32
    added[:, U_LOW] &= _MASK
    return StepSums(added, tuple(key.take(order[starts]) for key in sums.keys))


@dataclass(frozen=True, slots=True)
class SumPolicy:
    """What the log keeps of the rows of a grouping state that its retention bound has passed.

    Rows before `oldest_ms` are dropped. The others become parts of sums if they were appended before `settled_ms`.
    `sources` is None while no row may become one, because a series has ended and late rows can still be in it.
    """

    fields: Grouping
    oldest_ms: int
    settled_ms: int
    series: Sequence[SeriesHead]
    sources: Sequence[SumSource] | None

    def fold(self, rows: TransactionBatch, bound_ms: int, sums: Sequence[StepSums]) -> Folded:
        """Fold settled rows before the retention bound into the sums of the same chunks."""
        known = concat_sums(sums)
        if TIME_FIELD not in rows.columns:
            return Folded(rows, self._counting(known), at.NONE)
        times_ms = rows.columns[TIME_FIELD].values
        folds = (times_ms < bound_ms) & (rows.append_ms < self.settled_ms)
        if self.sources is None or not folds.any():
            return Folded(rows, self._counting(known), at.NONE)
        folded, series = rows.take(folds), {each.version: each for each in self.series}
        added = [known]
        for source in self.sources:
            if source.series in series:
                in_series = series[source.series].has(folded)
                added.append(sums_of_rows(folded.take(in_series), source, self.fields))
        return Folded(rows.take(~folds), self._counting(concat_sums(added)), int(folded.offset.max()) + 1)

    def _counting(self, sums: StepSums) -> StepSums:
        """The sums that still count, one for each step."""
        if not len(sums):
            return sums
        counts = np.zeros(len(sums), dtype=np.bool_)
        for each in self.series:
            counts |= (sums.numbers[:, U_SERIES] == each.version) & (sums.numbers[:, U_TIME] >= each.bound_ms)
        sums = sums.take(counts)
        return sums if self.sources is None else add_up(sums, self.sources)


class Folded(NamedTuple):
    """The rows that stay rows, the sums of the others, and the arrival number after the last row that was folded (NONE
    if there is none)."""

    rows: TransactionBatch
    sums: StepSums
    end: int
