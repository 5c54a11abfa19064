"""The history that a warm-up adds to a key group, computed by the kernel from the past transactions.

The kernel accepts the past transactions of a grouping as if the grouping had existed with this reach, but evaluates no
rule. So duplicates, late transactions and clean-up have the same effect as in a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.fanout import rows_by_key_group
from fraud_rules.engine.prepared import PreparedHistory, warm_state_id
from fraud_rules.engine.state.arrays import HeapArrays
from fraud_rules.engine.state.chunks import live_rows
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.state.head import GroupingStateHead
from fraud_rules.engine.state.journal import NUMBERS, Journal, pack_rows, with_arrival_numbers
from fraud_rules.engine.state.series_sums import (
    NO_SUMS,
    U_SERIES,
    U_TIME,
    SeriesHead,
    StepSums,
    SumSource,
    add_up,
    concat_sums,
    pieces_of,
    sources_of,
    sums_of_rows,
)
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.bundles import Ints
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import Operator, Rule, RuleState
from fraud_rules.model.ruleset import Grouping, GroupingInForce, RuleInForce
from fraud_rules.model.schema import TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.model.warm_up import WarmUpRequest
from fraud_rules.model.window import Window


@dataclass(frozen=True, slots=True)
class WarmHistory:
    """The history of one grouping in one key group that the rule record `version` has requested.

    `load` returns the rows in arrival order. `begins_ms` is the event time from which the history has all transactions,
    NONE without any transaction. `prepared` are files of this host with the same rows, if there are any.

    The series of the record has more: `sums`, and the rows below the history's retention bound `bound_ms`.
    `series_begins_ms` is the beginning of this longer history.
    """

    version: int
    fields: Grouping
    begins_ms: int
    load: Callable[[], TransactionBatch]
    prepared: PreparedHistory | None = None
    sums: StepSums = NO_SUMS
    series_begins_ms: int = at.NONE
    bound_ms: int = at.NONE

    @property
    def rows(self) -> TransactionBatch:
        """The rows that the grouping keeps, in arrival order."""
        return self.split()[0]

    def split(self) -> tuple[TransactionBatch, TransactionBatch]:
        """The rows that the grouping keeps, and those that only the series of the record counts."""
        rows = self.load()
        passed = rows.columns[TIME_FIELD].values < self.bound_ms
        return (rows.take(~passed), rows.take(passed)) if passed.any() else (rows, rows.take(np.arange(0)))

    @property
    def times_ms(self) -> tuple[int | None, int | None, int | None]:
        """`begins_ms`, `series_begins_ms` and `bound_ms`, None for NONE."""
        return _or_none(self.begins_ms), _or_none(self.series_begins_ms), _or_none(self.bound_ms)

    def discard_prepared(self) -> None:
        """Remove the prepared files."""
        if self.prepared is not None:
            self.prepared.discard()

    @classmethod
    def of(cls, version: int, fields: Grouping, rows: TransactionBatch, begins_ms: int) -> WarmHistory:
        """The history of rows in memory."""
        return cls(version, fields, begins_ms, lambda: rows)

    @classmethod
    def of_prepared(cls, prepared: PreparedHistory, load: Callable[[], TransactionBatch]) -> WarmHistory:
        """The history of prepared files, whose rows `load` returns if these are unsuitable."""
        note = prepared.note
        return cls(note.version, note.fields, note.begins_ms, load, prepared)


def _or_none(time_ms: int) -> int | None:
    return None if time_ms == at.NONE else time_ms


def collect_history(
    request: WarmUpRequest,
    batches: Iterable[TransactionBatch],
    schema: TransactionSchema,
    settings: DetectorSettings,
) -> WarmHistory:
    """Accept the rows of one key group that the request concerns. `batches` has them in arrival order; in a grouping by
    an entity, these are rows of `role_rows`."""
    state = GroupingState.create(schema, request.fields, HeapArrays())
    plan = state.plan([_unevaluated(request)])
    for batch in batches:
        rows = batch.take(request.concerns(batch))
        if len(rows):
            versions = np.zeros(len(rows), dtype=np.int64)
            state.accept(rows, versions, plan, settings.max_out_of_orderness_ms, explain=False)
    first_ms, bound_ms = int(state.header[at.H_FIRST]), int(state.header[at.H_BOUND])
    rows = state.rows()
    history = WarmHistory.of(request.version, request.fields, rows, max(first_ms, bound_ms))
    if request.long_rule is None or not state.series:
        return history
    known_ms = _known_from_ms(request, rows, settings.max_out_of_orderness_ms)
    is_known = rows.columns[TIME_FIELD].values >= min(bound_ms, known_ms)
    kept = rows.take(is_known)
    return replace(
        history,
        load=lambda: kept,
        sums=_sums_of(rows.take(~is_known), sources_of([request.long_rule]), request.fields),
        series_begins_ms=max(first_ms, min(bound_ms, state.series[0].bound_ms)),
        bound_ms=bound_ms,
    )


def _known_from_ms(request: WarmUpRequest, rows: TransactionBatch, max_out_of_orderness_ms: int) -> int:
    """The event time before which the grouping has none of these rows at the record. A sum of the history must not have
    a row that the grouping has, because it has no ids. The grouping has accepted only rows since it began."""
    accepted = rows.append_ms >= request.began_ms
    if not accepted.any():
        return at.FOREVER_MS
    reached_ms = np.minimum(rows.append_ms, rows.columns[TIME_FIELD].values)[accepted].max()
    return int(reached_ms) - max_out_of_orderness_ms - request.longest_retained_ms


def _sums_of(rows: TransactionBatch, sources: Sequence[SumSource], fields: Grouping) -> StepSums:
    return add_up(concat_sums([sums_of_rows(rows, source, fields) for source in sources]), sources)


def chunks_of(history: WarmHistory) -> list[bytes]:
    """The rows of a history in packed pieces, for `history_of_chunks`."""
    return [piece.packed for piece in pack_rows(history.load())]


def sum_chunks_of(history: WarmHistory) -> list[bytes]:
    """The sums of a history in packed pieces, for `history_of_chunks`."""
    return [piece.pack() for piece in pieces_of(history.sums)]


def history_of_chunks(
    version: int,
    fields: Grouping,
    times_ms: Sequence[int | None],
    chunks: Sequence[bytes],
    sum_chunks: Sequence[bytes] = (),
) -> WarmHistory:
    """The history with the rows and the sums of these chunks. `times_ms` are its `times_ms`."""
    rows = TransactionBatch.concat([TransactionBatch.unpack(chunk) for chunk in chunks])
    begins_ms, series_begins_ms, bound_ms = (at.NONE if time_ms is None else time_ms for time_ms in times_ms)
    history = WarmHistory.of(version, fields, rows, begins_ms)
    sums = concat_sums([StepSums.unpack(chunk) for chunk in sum_chunks])
    return replace(history, sums=sums, series_begins_ms=series_begins_ms, bound_ms=bound_ms)


def histories_for(histories: Mapping[int, WarmHistory], key_groups: int, count: int) -> Mapping[int, WarmHistory]:
    """Split the histories of all key groups for another number of key groups. Each new history begins with the latest
    beginning, because its rows come from several key groups."""
    if key_groups == count:
        return histories
    one = next(iter(histories.values()))
    rows = TransactionBatch.concat([each.load() for each in histories.values() if len(each.load())])
    begins_ms = max(each.begins_ms for each in histories.values())
    series_begins_ms = max(each.series_begins_ms for each in histories.values())
    bound_ms = max(each.bound_ms for each in histories.values())
    parts = rows_by_key_group(rows, one.fields, count) if len(rows) else {}
    sums = concat_sums([each.sums for each in histories.values()])
    sum_places = rows_by_key_group(sums.places(one.fields), one.fields, count) if len(sums) else {}
    empty = rows.take(np.arange(0))
    return {
        number: replace(
            WarmHistory.of(one.version, one.fields, _by_append_time(parts.get(number, empty)), begins_ms),
            sums=sums.take(sum_places[number].offset) if number in sum_places else NO_SUMS,
            series_begins_ms=series_begins_ms,
            bound_ms=bound_ms,
        )
        for number in range(count)
    }


def _by_append_time(rows: TransactionBatch) -> TransactionBatch:
    return rows.take(np.argsort(rows.append_ms, kind="stable"))


def without_known(rows: TransactionBatch, known: TransactionBatch, names: Sequence[str]) -> TransactionBatch:
    """The rows whose values of these columns `known` does not have together. The first column is the id."""
    if not len(rows) or not len(known):
        return rows
    both = TransactionBatch.concat([rows, known])
    identity = np.stack([both.columns[name].values for name in names], axis=1)
    mine, others = identity[: len(rows)], identity[len(rows) :]
    candidates = np.flatnonzero(np.isin(mine[:, 0], others[:, 0]))
    if not len(candidates):
        return rows
    taken = set(map(tuple, others.tolist()))
    repeated = [row for row in candidates.tolist() if tuple(mine[row].tolist()) in taken]
    return rows.take(np.delete(np.arange(len(rows)), repeated))


def _unevaluated(request: WarmUpRequest) -> GroupingInForce:
    """The grouping with a paused rule that keeps rows for as long as the request's grouping, and with the rule whose
    series begins."""
    rule = Rule(
        rule_id=request.rule_id,
        state=RuleState.PAUSE,
        grouping=request.fields,
        aggregate_function=AggregateFunction.COUNT,
        aggregate_field=None,
        unique=(),
        operator=Operator.GREATER,
        limit=Decimal(0),
        window=Window(request.retained_ms),
    )
    in_force = [RuleInForce(rule, request.version, request.version)]
    if request.long_rule is not None:
        paused = replace(
            request.long_rule.rule, state=RuleState.PAUSE, limit=Decimal(0), when=None, rollout=None, document={}
        )
        in_force.append(replace(request.long_rule, rule=paused))
    return GroupingInForce(request.fields, request.version, request.version, 0, tuple(in_force), request.retained_ms)


class _MergedSeries(NamedTuple):
    """The series of a grouping state after a warm-up, and their sums."""

    series: list[SeriesHead]
    sums: StepSums


@dataclass(frozen=True, slots=True)
class SeriesBefore:
    """What a grouping state has before a warm-up: its series and their sums, the rows at or above its retention bound,
    this bound, and the event time of its first transaction."""

    series: Sequence[SeriesHead]
    sums: StepSums
    rows: TransactionBatch
    bound_ms: int
    first_ms: int


def merge_series(
    history: WarmHistory,
    rows: TransactionBatch,
    passed: TransactionBatch,
    sources: Sequence[SumSource],
    before: SeriesBefore,
    identity: Sequence[str],
) -> _MergedSeries:
    """Fill the series that begins with the record of the request, if its rule is in force. `rows` and `passed` are the
    parts of the history's rows as of `split`. `identity` are the columns that identify a row.

    The history has what was appended before the record. Of this, the series has already the rows that were retained at
    its beginning. It gets the others as sums, except for those that the state gets as rows. A series that has not begun
    begins with the retained rows, also with those of the history.
    """
    bound_ms = before.bound_ms
    heads = {each.version: each for each in before.series}
    of_series = [source for source in sources if source.series == history.version]
    if not len(rows):
        return _MergedSeries(list(heads.values()), _sums_since(before.sums, heads.values()))
    if of_series and history.version not in heads:
        heads[history.version] = SeriesHead(history.version, bound_ms, at.NONE, bound_ms, False, at.NONE)
    for each in heads.values():
        each.history_ms = max(each.history_ms, bound_ms)
    own = _sums_since(before.sums, heads.values())
    if not of_series:
        return _MergedSeries(list(heads.values()), own)
    filled = heads[history.version]
    since_ms = filled.history_ms
    older = [each.take(each.columns[TIME_FIELD].values < since_ms) for each in (rows, passed)]
    if filled.began_ms != at.NONE:
        older = [each.take(each.columns[TIME_FIELD].values < filled.began_ms) for each in older]
    newer = passed.take(passed.columns[TIME_FIELD].values >= since_ms)
    counted = [*older, without_known(newer, before.rows, identity)]
    sums = concat_sums([own, history.sums, *(_sums_of(each, of_series, history.fields) for each in counted)])
    starts_ms = [history.series_begins_ms]
    if before.first_ms != at.NONE:
        live_ms = max(filled.since_ms, before.first_ms) if not filled.is_warm else filled.since_ms
        starts_ms.append(max(live_ms, min(bound_ms, filled.bound_ms)))
    heads[history.version] = SeriesHead(
        history.version, at.NONE, filled.bound_ms, min(starts_ms), True, filled.ended_ms, since_ms
    )
    return _MergedSeries(list(heads.values()), sums)


def _sums_since(sums: StepSums, series: Iterable[SeriesHead]) -> StepSums:
    """The sums from the beginning of their series on. No window reads the others. In one sum with later rows of their
    step, they would count."""
    begun = np.zeros(len(sums), dtype=np.bool_)
    for each in series:
        begun |= (sums.numbers[:, U_SERIES] == each.version) & (sums.numbers[:, U_TIME] >= each.began_ms)
    return sums.take(begun)


class HistoryMerge:
    """Adds warm histories to the state of one grouping, whose current head is `head`.

    A warm-up can lower the retention bound. The log and the arrays may still have rows below the old bound, which
    must not count again. So the states of the grouping are replaced by states with another id.
    """

    def __init__(self, journal: Journal, grouping: GroupingInForce, head: GroupingStateHead) -> None:
        self._journal = journal
        self._grouping = grouping
        self._head = head

    def add(self, history: WarmHistory) -> None:
        """Add the rows that the state does not have, and lower the beginning of the history to theirs."""
        if history.prepared is not None:
            if self._adopt(history.prepared):
                return
            history.prepared.leave(self._journal)
        for head in self._journal.heads_of(self._grouping.fields):
            if head is self._head:
                self._replace(head, history)
            elif head.incarnation == self._head.incarnation:
                empty = history.rows.take(np.arange(0))
                self._replace(head, WarmHistory.of(history.version, history.fields, empty, at.NONE))

    def _adopt(self, prepared: PreparedHistory) -> bool:
        """Add a prepared history. Returns False, and changes nothing, if the state has several epochs, an earlier
        history or one of the transactions: these need another order or a choice among rows; or if it has sums."""
        journal, head = self._journal, self._head
        if self._grouping.long_rules:
            return False
        if [each for each in journal.heads_of(head.fields) if each.incarnation == head.incarnation] != [head]:
            return False
        old = journal.open(head)
        known, numbers, marks = old.rows(), old.arrival_numbers(), old.marks()
        if old.series or int(numbers.min(initial=0)) < 0:
            return False
        fresh = journal.adopt(head, warm_state_id(prepared.note.version), prepared.arrays)
        if fresh is None:
            return False
        state = journal.open(fresh)
        # The fresh state has no retention bound yet. The bound of the old state would remove rows of the history.
        if not state.append(known, numbers, (marks,)):
            journal.remove(fresh)
            return False
        state.header[NUMBERS] = old.header[NUMBERS]
        journal.remove(head)
        _lower_beginning(state.header, prepared.note.begins_ms, self._grouping.widest_window_ms)
        for chunk in prepared.chunks():
            journal.record_prepared(chunk)
        marks = state.marks_after_history()
        journal.record(fresh, with_arrival_numbers(known, numbers), marks if len(marks.rows) else None)
        return True

    def _replace(self, head: GroupingStateHead, history: WarmHistory) -> None:
        old = self._journal.open(head)
        measures = old.plan([self._grouping]).measures if self._grouping.long_rules else old.measures
        old.settle(at.FOREVER_MS)
        known, numbers, marks = old.rows(), old.arrival_numbers(), old.marks()
        sums, bound_ms, first_ms = old.sums(), int(old.header[at.H_BOUND]), int(old.header[at.H_FIRST])
        before, identity = SeriesBefore(old.series, sums, known, bound_ms, first_ms), (*old.identity, *head.fields)
        fresh = self._journal.recreate(head)
        state = self._journal.open(fresh)
        added, passed = history.split()
        _lower_beginning(state.header, history.begins_ms, self._grouping.widest_window_ms)
        sources = sources_of(self._grouping.long_rules)
        merged = merge_series(history, added, passed, sources, before, identity)
        in_force = np.isin(merged.sums.numbers[:, U_SERIES], [source.series for source in sources])
        # Rows of this batch can still read a series that its rules have ended.
        series, sums = merged.series, concat_sums([merged.sums.take(~in_force), add_up(merged.sums, sources)])
        added = live_rows([added], int(state.header[at.H_BOUND]))
        added = without_known(added, known, identity)
        first = min(0, int(numbers.min(initial=0)))
        rows = with_arrival_numbers(added, np.arange(first - len(added), first, dtype=np.int64))
        if not len(rows):
            rows = with_arrival_numbers(known, numbers)
        elif len(known):
            rows = TransactionBatch.concat([rows, with_arrival_numbers(known, numbers)])
        if len(rows) or len(marks.rows) or len(sums) or series:
            state.load(rows, rows.offset, (marks,), measures, sums, series)
            marks = state.marks_after_history()
            self._journal.record(fresh, rows, marks if len(marks.rows) else None)
            self._journal.record_sums(fresh, sums)


def _lower_beginning(header: Ints, begins_ms: int, widest_ms: int) -> None:
    """Lower the retention bound to the reach of the grouping, and the beginning of the history to that of the added
    rows."""
    known_ms = max(int(header[at.H_FIRST]), int(header[at.H_BOUND])) if header[at.H_FIRST] != at.NONE else at.NONE
    starts = [start for start in (known_ms, begins_ms) if start != at.NONE]
    header[at.H_FIRST] = min(starts, default=at.NONE)
    if header[at.H_WATERMARK] != at.NONE:
        header[at.H_BOUND] = min(header[at.H_BOUND], header[at.H_WATERMARK] - widest_ms)
