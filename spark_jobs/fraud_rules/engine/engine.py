"""Evaluates one key group's part of a batch. The stream, the nightly job and replays run the same code.

A grouping state holds the rows of one (grouping, epoch). A clear or a restart of the grouping starts another grouping
state, so that earlier rows stop counting without a sweep over them. The rule log and a row's append time determine the
row's epoch. A superseded grouping state stays for `EPOCH_GRACE_MS` of append time, for rows of another partition that
were appended before the boundary but are read after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.alert import AlertWriter
from fraud_rules.engine.fanout import collect, in_arrival_order
from fraud_rules.engine.state.grouping_state import AcceptResult, GroupingState, Marks
from fraud_rules.engine.state.journal import GroupingStateHead, Journal
from fraud_rules.engine.state.store import ViewStore
from fraud_rules.engine.statelog import StateLog
from fraud_rules.engine.task_progress import UNREPORTED, TaskProgress
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.plan import GroupingPlan, Measures
from fraud_rules.model.output import AlertRecord, DuplicateRecord, KeyGroupOutput, LateRecord
from fraud_rules.model.ruleset import GroupingInForce, RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

Ints = NDArray[np.int64]
Grouping = tuple[str, ...]

EPOCH_GRACE_MS = 600_000
_CACHED_PLANS = 4096
_MS_A_S = 1_000
_encoder = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order in which an engine accepts rows, and the clock that ends its epochs.

    `arrange` orders a batch's rows of one grouping. `reached_ms` derives from these rows the time up to which the log
    has been read. The engine keeps an epoch for `grace_ms` of that time after the epoch's end.
    """

    arrange: Callable[[TransactionBatch], TransactionBatch]
    reached_ms: Callable[[TransactionBatch], int]
    grace_ms: int


def _newest_append_ms(batch: TransactionBatch) -> int:
    return int(batch.append_ms.max())


BY_ARRIVAL = RowOrder(in_arrival_order, _newest_append_ms, EPOCH_GRACE_MS)
"""The order of a stream: rows in arrival order, epochs by append time."""

Observer = Callable[[TransactionBatch, Grouping, GroupingPlan, AcceptResult], None]
"""A function that receives every run of rows with its results. An engine with an observer writes no alerts."""


class KeyGroupEngine:
    """The state and evaluation of one key group."""

    def __init__(
        self,
        key_group: int,
        schema: TransactionSchema,
        settings: DetectorSettings,
        log: StateLog,
        views: ViewStore,
        row_order: RowOrder = BY_ARRIVAL,
        observer: Observer | None = None,
        progress: TaskProgress = UNREPORTED,
    ) -> None:
        self._key_group = key_group
        self._schema = schema
        self._settings = settings
        self._log = log
        self._views = views
        self._row_order = row_order
        self._observer = observer
        self._progress = progress

    def process(
        self, blobs: Iterable[bytes], timeline: RuleTimeline, batch_id: int, detection_ms: int
    ) -> KeyGroupOutput:
        """Evaluate one batch's blobs (see `fanout`) and return the outputs.

        `detection_ms` is the wall-clock time that alerts carry. The evaluation does not depend on it.
        """
        with self._views.hold(self._key_group) as view:
            longest_cooldown_ms = self._settings.limits.max_cooldown_seconds * _MS_A_S
            journal = Journal(self._schema, self._log, view, self._progress, longest_cooldown_ms)
            work = _BatchEvaluation(
                self._schema,
                self._settings,
                timeline,
                journal,
                detection_ms,
                self._row_order,
                self._observer,
                self._progress,
            )
            for fields, rows in collect(blobs, self._row_order.arrange).items():
                work.accept(fields, rows)
            work.remove_superseded()
            journal.commit(timeline.incarnations_kept())
            return work.output(self._key_group)


class _BatchEvaluation:
    """The evaluation of one batch for one key group, with the outputs so far."""

    def __init__(
        self,
        schema: TransactionSchema,
        settings: DetectorSettings,
        timeline: RuleTimeline,
        journal: Journal,
        detection_ms: int,
        row_order: RowOrder,
        observer: Observer | None,
        progress: TaskProgress,
    ) -> None:
        self._schema = schema
        self._settings = settings
        self._timeline = timeline
        self._journal = journal
        self._detection_ms = detection_ms
        self._row_order = row_order
        self._observer = observer
        self._progress = progress
        self._rows = 0
        self._alerts: list[AlertRecord] = []
        self._late: list[LateRecord] = []
        self._duplicates: list[DuplicateRecord] = []
        self._evaluations: list[bytes] = []

    def output(self, key_group: int) -> KeyGroupOutput:
        """Collect the outputs of the batch."""
        heads = self._journal.head.states
        states = [self._journal.open(info) for info in heads]
        watermarks = [info.watermark_ms for info in heads if info.watermark_ms != at.NONE]
        return KeyGroupOutput(
            key_group=key_group,
            rows=self._rows,
            retained_events=sum(state.retained for state in states),
            retained_bytes=sum(state.retained_bytes for state in states),
            watermark_ms=min(watermarks, default=None),
            alerts=self._alerts,
            late=self._late,
            duplicates=self._duplicates,
            evaluations=self._evaluations,
            retained_marks=sum(state.retained_marks for state in states),
        )

    def accept(self, fields: Grouping, batch: TransactionBatch) -> None:
        """Accept a grouping's rows in the given order, split into runs of rows that share an epoch."""
        self._rows += len(batch)
        head = self._journal.head
        head.newest_append_ms = max(head.newest_append_ms, self._row_order.reached_ms(batch))
        counts, inverse = np.unique(self._timeline.versions_of(batch), return_inverse=True)
        in_force = [self._timeline.rule_set(int(count)).groupings[fields] for count in counts]
        epochs = np.array([grouping.epoch for grouping in in_force])[inverse]
        starts = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], len(batch)], strict=True):
            run = batch if end - start == len(batch) else batch.take(np.arange(start, end))
            self._accept_run(run, in_force, inverse[start:end])

    def _accept_run(self, batch: TransactionBatch, in_force: Sequence[GroupingInForce], versions: Ints) -> None:
        used, versions = np.unique(versions, return_inverse=True)
        groupings = [in_force[version] for version in used]
        info = self._head_for(groupings[0])
        state = self._journal.open(info)
        plan = _plan_of(state, groupings)
        sequence = int(state.header[at.H_SEQ])
        result = state.accept(
            batch,
            versions,
            plan,
            self._settings.max_out_of_orderness_ms,
            explain=self._settings.evaluations,
            progress=self._progress,
        )
        accepted = np.flatnonzero((result.outcomes == at.ROW_ACCEPTED) | (result.outcomes == at.ROW_LATE_KEPT))
        rows = _numbered(batch if len(accepted) == len(batch) else batch.take(accepted), sequence)
        self._journal.record(info, rows, _changed_marks(state, batch, plan, result))
        self._copy_to_later_epochs(info, rows)
        self._report(batch, info, plan, result)

    def _head_for(self, grouping: GroupingInForce) -> GroupingStateHead:
        """The state of the grouping's epoch, with the watermark and bound of its incarnation."""
        siblings = self._journal.heads_of(grouping.fields)
        for info in siblings:
            if info.epoch == grouping.epoch:
                self._copy_clock(info, siblings)
                return info
        return self._start_epoch(grouping, siblings)

    def _start_epoch(self, grouping: GroupingInForce, siblings: Sequence[GroupingStateHead]) -> GroupingStateHead:
        """Create the state of a new epoch. It takes over the rows that an earlier state accepted after this epoch's
        boundary, because their batch had not seen the boundary."""
        info = self._journal.create(grouping.fields, grouping.incarnation, grouping.epoch, grouping.epoch_ms)
        state = self._journal.open(info)
        self._copy_clock(info, [*siblings, info])
        earlier = [sibling for sibling in siblings if sibling.epoch < grouping.epoch]
        if earlier:
            before = self._journal.open(earlier[-1])
            rows, sequence = before.rows(), before.sequence()
            after = np.flatnonzero(rows.append_ms >= grouping.epoch_ms)
            state.header[at.H_SEQ] = before.header[at.H_SEQ]
            if len(after):
                rows = rows.take(after)
                state.load(rows, sequence[after], ())
                state.header[at.H_FIRST] = rows.columns[TIME_FIELD].values[0]
                self._journal.record(info, _with_sequence(rows, sequence[after]), None)
        return info

    def _copy_to_later_epochs(self, info: GroupingStateHead, rows: TransactionBatch) -> None:
        """Copy rows into the states of later epochs: a row also counts as after the boundary if its batch had not seen
        the boundary.

        A stream has no later state yet when such rows arrive. In a replay by event time, rows after the boundary may
        have arrived first.
        """
        for later in self._journal.heads_of(info.fields):
            if later.epoch <= info.epoch:
                continue
            after = np.flatnonzero(rows.append_ms >= later.epoch_ms)
            if len(after):
                state = self._journal.open(later)
                sequence = int(state.header[at.H_SEQ]) + np.arange(len(after), dtype=np.int64)
                added = _with_sequence(rows.take(after), sequence)
                state.load(
                    TransactionBatch.concat([state.rows(), added]),
                    np.concatenate([state.sequence(), sequence]),
                    (state.marks(),),
                )
                state.header[at.H_SEQ] += len(after)
                self._journal.record(later, added, None)

    def _copy_clock(self, info: GroupingStateHead, siblings: Iterable[GroupingStateHead]) -> None:
        """Copy watermark and bound from other epochs of the same incarnation, because both survive a clear."""
        header = self._journal.open(info).header
        for sibling in siblings:
            if sibling.incarnation == info.incarnation:
                other = self._journal.open(sibling).header
                for scalar in (at.H_WATERMARK, at.H_BOUND):
                    header[scalar] = max(header[scalar], other[scalar])

    def remove_superseded(self) -> None:
        """Remove the grouping states whose epoch ended longer than the grace period ago."""
        latest = self._timeline.latest.groupings
        now_ms = self._journal.head.newest_append_ms
        ended_ms = self._timeline.entries[-1].time_ms if self._timeline.entries else 0
        for info in list(self._journal.head.states):
            grouping = latest.get(info.fields)
            if grouping is not None and grouping.epoch <= info.epoch:
                continue
            boundary_ms = ended_ms if grouping is None else grouping.epoch_ms
            if now_ms >= boundary_ms + self._row_order.grace_ms:
                if grouping is not None and grouping.incarnation == info.incarnation:
                    self._head_for(grouping)
                self._journal.remove(info)

    def _report(
        self, batch: TransactionBatch, info: GroupingStateHead, plan: GroupingPlan, result: AcceptResult
    ) -> None:
        if self._observer is not None:
            self._observer(batch, info.fields, plan, result)
            return
        writer = AlertWriter(batch, self._schema, info.fields, self._detection_ms)
        for row in result.output.tolist():
            in_force = plan.in_force[row[at.O_RULE]]
            if row[at.O_FIRED] == at.FIRED_YES:
                self._alerts.append(writer.write(in_force, row))
            if self._settings.evaluations:
                self._evaluations.append(writer.encode_evaluation(in_force, row))
        self._report_unevaluated(batch, info, result)

    def _report_unevaluated(self, batch: TransactionBatch, info: GroupingStateHead, result: AcceptResult) -> None:
        """Record the duplicates and the late rows."""
        grouping = "&".join(info.fields)
        for i in np.flatnonzero(result.outcomes >= at.ROW_DUPLICATE).tolist():
            place = int(batch.append_ms[i]), int(batch.partition[i]), int(batch.offset[i]), grouping
            event = batch.row(i, self._schema)
            if result.outcomes[i] == at.ROW_DUPLICATE:
                self._duplicates.append(DuplicateRecord(*place, event[ID_FIELD]))  # type: ignore[arg-type]
            else:
                self._late.append(LateRecord(*place, int(result.lateness_ms[i]), _encoder.encode(event)))


_plans: dict[tuple[int, ...], tuple[GroupingPlan, Sequence[GroupingInForce], Measures]] = {}


def _plan_of(state: GroupingState, groupings: Sequence[GroupingInForce]) -> GroupingPlan:
    """The compiled plan, from the cache if the same versions were compiled for the same measures.

    The key consists of object identities, because rule sets share the objects of unchanged groupings. The entry holds
    the objects, so no other object can get their ids.
    """
    measures = state.measures
    key = (id(measures), *map(id, groupings))
    known = _plans.get(key)
    if known is None:
        if len(_plans) >= _CACHED_PLANS:
            _plans.clear()
        known = _plans[key] = (state.plan(groupings), groupings, measures)
    return known[0]


def _numbered(rows: TransactionBatch, sequence: int) -> TransactionBatch:
    """The rows as the log stores them: `offset` is the arrival number, counted from `sequence`."""
    return _with_sequence(rows, np.arange(sequence, sequence + len(rows), dtype=np.int64))


def _with_sequence(rows: TransactionBatch, sequence: Ints) -> TransactionBatch:
    return TransactionBatch(rows.append_ms, rows.partition, sequence, rows.columns)


def _changed_marks(
    state: GroupingState, batch: TransactionBatch, plan: GroupingPlan, result: AcceptResult
) -> Marks | None:
    """The marks changed by alerts and suppressed alerts; None if there are no such alerts."""
    output = result.output[result.output[:, at.O_FIRED] != at.FIRED_NO]
    if not len(output):
        return None
    rows, which = np.unique(output[:, at.O_ROW], return_inverse=True)
    rules = plan.rules.rows[output[:, at.O_RULE], at.R_RULE]
    return state.marks_of(rules, state.slots_of(batch.take(rows))[which])
