"""Evaluates one key group's part of a batch. The stream, the re-evaluation and replays run the same code.

A grouping state holds the rows of one (grouping, epoch). A boundary starts another grouping state instead of removing
the rows of the earlier one. The rule log and a row's append time determine the row's epoch. The engine keeps a
superseded grouping state for `EPOCH_GRACE_MS` of append time, because rows of another partition can be appended before
the boundary but read after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.alert import AlertBuilder, condition_documents, limit_text, previous_payment
from fraud_rules.engine.distinct import distinct
from fraud_rules.engine.fanout import in_arrival_order
from fraud_rules.engine.long_rules import long_rules, measures_of, with_series
from fraud_rules.engine.lookups import collection_versions, lookup_columns
from fraud_rules.engine.named_outcomes import named_outcomes
from fraud_rules.engine.rule_matches import matches_of_rows, matches_of_versions
from fraud_rules.engine.rule_meter import RuleMeter
from fraud_rules.engine.state.event_rows import predicate_masks
from fraud_rules.engine.state.grouping_state import AcceptResult
from fraud_rules.engine.state.head import GroupingStateHead
from fraud_rules.engine.state.journal import Journal, with_arrival_numbers
from fraud_rules.engine.state.plans import PLAN_RULES, runs_within
from fraud_rules.engine.state.rule_sample import RuleSample
from fraud_rules.engine.state.store import ViewStore
from fraud_rules.engine.state.view_series import aligned_series, without_ended
from fraud_rules.engine.statelog import StateLog
from fraud_rules.engine.task_progress import UNREPORTED, TaskProgress
from fraud_rules.engine.task_rows import RowRange, rows_of_blobs
from fraud_rules.engine.warm_up import HistoryMerge, WarmHistory
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.plan import GroupingPlan
from fraud_rules.model.expressions.expression import Columns
from fraud_rules.model.expressions.lookups import Lookup
from fraud_rules.model.output import (
    AlertRecord,
    DuplicateRecord,
    KeyGroupOutput,
    LateRecord,
    MarkUpdate,
    NamedOutcomes,
    PendingAlert,
    RuleCost,
    RuleMatches,
)
from fraud_rules.model.ruleset import Grouping, GroupingInForce, RuleInForce, RuleSet, RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import Column, TransactionBatch
from fraud_rules.runtime.clock import MS_PER_S

Ints = NDArray[np.int64]

EPOCH_GRACE_MS = 600_000
"""How long the engine keeps a superseded grouping state, in append time."""

_encoder = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order in which an engine accepts rows, and the clock by which it removes superseded grouping states.

    `arrange` sorts a batch's rows of one grouping. `reached_ms` returns the clock's time after the engine has read
    these rows. The engine removes a grouping state when the clock is `grace_ms` past the end of the state's epoch, and
    the marks of a rule when the clock is as far past the rule's end.
    """

    arrange: Callable[[TransactionBatch], TransactionBatch]
    reached_ms: Callable[[TransactionBatch], int]
    grace_ms: int


def _newest_append_ms(batch: TransactionBatch) -> int:
    return int(batch.append_ms.max())


BY_ARRIVAL = RowOrder(in_arrival_order, _newest_append_ms, EPOCH_GRACE_MS)
"""The order of a stream: the engine accepts rows in arrival order, and its clock is the append time."""

Observer = Callable[[TransactionBatch, Grouping, GroupingPlan, AcceptResult], None]
"""A function that receives each run of rows of one epoch, with their grouping, plan and results. An engine with an
observer writes no alerts."""


@dataclass(frozen=True, slots=True)
class KeyGroupEngine:
    """The state and evaluation of one key group.

    `known_from_ms`: the caller passes all transactions from this append time on, but none from before. None: it passes
    all transactions. `meter` measures the CPU time of rules; the results do not depend on it.
    """

    key_group: int
    schema: TransactionSchema
    settings: DetectorSettings
    log: StateLog
    views: ViewStore
    row_order: RowOrder = BY_ARRIVAL
    observer: Observer | None = None
    progress: TaskProgress = UNREPORTED
    known_from_ms: int | None = None
    meter: RuleMeter | None = None

    def process(
        self,
        blobs: Iterable[bytes],
        timeline: RuleTimeline,
        batch_id: int,
        detection_ms: int,
        histories: Iterable[WarmHistory] = (),
        marks: Sequence[MarkUpdate] = (),
    ) -> KeyGroupOutput:
        """Evaluate the key group's blobs of one batch (see `fanout`). `process_rows` describes the parameters."""
        rows = rows_of_blobs(blobs, self.row_order.arrange)
        return self.process_rows(rows, timeline, batch_id, detection_ms, histories, marks)

    def process_rows(
        self,
        rows: Iterable[RowRange],
        timeline: RuleTimeline,
        batch_id: int,
        detection_ms: int,
        histories: Iterable[WarmHistory] = (),
        marks: Sequence[MarkUpdate] = (),
    ) -> KeyGroupOutput:
        """Evaluate the key group's rows of one batch, and return the outputs.

        `rows` has the rows of each grouping, in the order of the groupings. `detection_ms` is the wall-clock time that
        alerts carry. The evaluation does not depend on it. `histories` are the results of the warm-ups that join the
        state at the start of this batch. `marks` are those of all key groups that conclusions of earlier batches have
        changed (see `conclusion`), in order, each once.
        """
        with self.views.hold(self.key_group) as view:
            longest_cooldown_ms = self.settings.limits.max_cooldown_seconds * MS_PER_S
            journal = Journal(
                self.schema,
                self.log,
                view,
                self.progress,
                longest_cooldown_ms,
                self.key_group,
                partial(measures_of, timeline, self.schema),
            )
            evaluation = _BatchEvaluation(self, timeline, journal, detection_ms)
            evaluation.set_marks(marks)
            for history in histories:
                evaluation.add_history(history)
            for each in rows:
                evaluation.accept(each)
            evaluation.remove_superseded()
            evaluation.end_series()
            since_ms = journal.head.newest_append_ms - self.row_order.grace_ms
            journal.commit(timeline.incarnations_kept(since_ms), partial(long_rules, timeline), since_ms)
            return evaluation.output()


class _BatchEvaluation:
    """Evaluates one batch for one key group, and collects the outputs."""

    def __init__(self, engine: KeyGroupEngine, timeline: RuleTimeline, journal: Journal, detection_ms: int) -> None:
        self._engine = engine
        self._timeline = timeline
        self._journal = journal
        self._detection_ms = detection_ms
        self._rows = 0
        self._alerts: list[AlertRecord] = []
        self._late: list[LateRecord] = []
        self._duplicates: list[DuplicateRecord] = []
        self._evaluations: list[bytes] = []
        self._costs: list[RuleCost] = []
        self._matches: list[RuleMatches] = []
        self._pending: list[PendingAlert] = []
        self._outcomes: list[NamedOutcomes] = []

    def output(self) -> KeyGroupOutput:
        """Return the outputs of the rows accepted so far, with the figures of the key group's state."""
        heads = self._journal.head.states
        states = [self._journal.open(head) for head in heads]
        watermarks = [head.watermark_ms for head in heads if head.watermark_ms != at.NONE]
        return KeyGroupOutput(
            key_group=self._engine.key_group,
            rows=self._rows,
            retained_events=sum(state.retained_rows for state in states),
            retained_bytes=sum(state.retained_bytes for state in states),
            watermark_ms=max(watermarks, default=None),
            alerts=self._alerts,
            late=self._late,
            duplicates=self._duplicates,
            evaluations=self._evaluations,
            retained_marks=sum(state.retained_marks for state in states),
            refreshed=self._journal.refreshed,
            costs=self._costs,
            string_bytes=sum(state.string_bytes for state in states),
            matches=self._matches,
            keys=[("&".join(head.fields), state.keys) for head, state in zip(heads, states, strict=True)],
            pending=self._pending,
            outcomes=self._outcomes,
        )

    def set_marks(self, marks: Sequence[MarkUpdate]) -> None:
        """Set the marks of this key group that conclusions have changed. Those of a state that has been removed are
        void."""
        mine = [each for each in marks if each.key_group == self._engine.key_group]
        for head in self._journal.head.states if mine else ():
            changed = [each for each in mine if each.fields == head.fields and each.epoch == head.epoch]
            if changed:
                state = self._journal.open(head)
                self._journal.record(head, state.no_rows(), state.set_last_alerts(changed))

    def add_history(self, history: WarmHistory) -> None:
        """Add the result of a warm-up, unless a clear or the end of the grouping has made it void."""
        grouping = self._timeline.grouping_to_warm(history.fields, history.version)
        if grouping is not None:
            HistoryMerge(self._journal, grouping, self._head_for(grouping)).add(history)
        elif history.prepared is not None:
            history.prepared.leave(self._journal)

    def accept(self, rows: RowRange) -> None:
        """Accept a grouping's rows in the given order, in runs of consecutive rows of the same epoch.

        A run ends early if its versions have very many rules together: the plan of a run has all rules of each version,
        and thousands of rule changes can fall between the rows of one batch.
        """
        shared, start, end = rows
        self._rows += end - start
        head, batch = self._journal.head, rows.batch
        head.newest_append_ms = max(head.newest_append_ms, self._engine.row_order.reached_ms(batch))
        in_force, index, entry_counts = shared.versions(self._timeline)
        if len(in_force) == 1:
            self._accept_run(batch, in_force, index[start:end], entry_counts[start:end], rows)
            return
        index, entry_counts = index[start:end], entry_counts[start:end]
        for first, after in _runs_of_rows(in_force, index):
            run = batch if after - first == len(batch) else batch.take(np.arange(first, after))
            used, versions = distinct(index[first:after])
            groupings = [in_force[version] for version in used]
            self._accept_run(run, groupings, versions, entry_counts[first:after])

    def _accept_run(
        self,
        batch: TransactionBatch,
        groupings: Sequence[GroupingInForce],
        versions: Ints,
        entry_counts: Ints,
        rows: RowRange | None = None,
    ) -> None:
        """Accept rows of one epoch.

        For each row, `versions` int64[n] holds the index in `groupings` that applies, and `entry_counts` int64[n] the
        number of log entries. `rows` are the same rows, if one version of the rules applies to the whole grouping.
        """
        head = self._head_for(groupings[0])
        state = self._journal.open(head)
        plan = state.plan(with_series(groupings, self._timeline, state.series))
        state.prepare(plan)
        self._align_series(head)
        state.settle(self._journal.head.newest_append_ms - self._engine.row_order.grace_ms)
        first_number = int(state.header[at.H_SEQ])
        sample = (
            None
            if self._engine.meter is None
            else self._engine.meter.sample(head.fields, len(plan.in_force), len(batch))
        )
        events = (
            None if rows is None else rows.rows.events(self._engine.schema.of_rows(head.fields))[rows.start : rows.end]
        )
        if rows is not None and (sample is None or rows.is_whole):
            masks = rows.rows.masks(plan, self._timeline, sample).between(rows.start, rows.end)
        else:
            columns = self._columns_of(batch, entry_counts, plan.judged[None].lookups, 0, len(batch), {})
            masks = predicate_masks(plan, columns, len(batch), sample)
        result = state.accept(
            batch,
            versions,
            plan,
            self._engine.settings.max_out_of_orderness_ms,
            explain=self._engine.settings.evaluations,
            progress=self._engine.progress,
            sample=sample,
            events=events,
            masks=masks,
            columns_of=partial(self._columns_of, batch, entry_counts),
        )
        if self._engine.observer is None and rows is not None and not plan.previous:
            self._matches += matches_of_rows(plan, rows, self._timeline)
        elif self._engine.observer is None:
            self._matches += matches_of_versions(plan, versions, result.passes)
        accepted = (result.outcomes == at.ROW_ACCEPTED) | (result.outcomes == at.ROW_LATE_KEPT)
        kept = batch if accepted.all() else batch.take(np.flatnonzero(accepted))
        kept = with_arrival_numbers(kept, np.arange(first_number, first_number + len(kept), dtype=np.int64))
        self._journal.record(head, kept, result.marks)
        self._copy_to_later_epochs(head, kept)
        self._report(batch, head, plan, result, entry_counts, sample)
        if self._engine.meter is not None and sample is not None:
            self._costs += self._engine.meter.costs(sample, plan, len(batch))

    def _columns_of(
        self,
        batch: TransactionBatch,
        entry_counts: Ints,
        lookups: Sequence[Lookup],
        start: int,
        end: int,
        more: Columns,
    ) -> Columns:
        """The columns of the rows [start, end), `more` columns, and those of look-ups."""
        columns = {**batch.columns_between(start, end), **more}
        return {**columns, **lookup_columns(lookups, self._timeline, columns, entry_counts[start:end])}

    def _head_for(self, grouping: GroupingInForce) -> GroupingStateHead:
        """The head of the grouping's state in its current epoch. A state that does not exist yet is created."""
        siblings = self._journal.heads_of(grouping.fields)
        for head in siblings:
            if head.epoch == grouping.epoch:
                self._raise_watermark(head, siblings)
                return head
        return self._start_epoch(grouping, siblings)

    def _start_epoch(self, grouping: GroupingInForce, siblings: Sequence[GroupingStateHead]) -> GroupingStateHead:
        """Create the state of a new epoch, with the rows of the previous epoch's state that were appended after the
        boundary. Their batch had not read the boundary, so the previous state accepted them."""
        head = self._journal.create(grouping.fields, grouping.incarnation, grouping.epoch, grouping.epoch_ms)
        state = self._journal.open(head)
        if self._engine.known_from_ms is not None and grouping.epoch_ms < self._engine.known_from_ms:
            state.header[at.H_FIRST] = self._engine.known_from_ms + self._engine.settings.future_tolerance_ms
        self._raise_watermark(head, siblings)
        earlier = [sibling for sibling in siblings if sibling.epoch < grouping.epoch]
        if earlier:
            previous = self._journal.open(earlier[-1])
            rows, numbers = previous.rows(), previous.arrival_numbers()
            after = np.flatnonzero(rows.append_ms >= grouping.epoch_ms)
            state.header[at.H_SEQ] = previous.header[at.H_SEQ]
            if len(after):
                rows = rows.take(after)
                state.load(rows, numbers[after], ())
                retained = np.flatnonzero(rows.columns[TIME_FIELD].values >= state.header[at.H_BOUND])
                if len(retained):
                    state.header[at.H_FIRST] = rows.columns[TIME_FIELD].values[retained[0]]
                self._journal.record(head, with_arrival_numbers(rows, numbers[after]), None)
        return head

    def _copy_to_later_epochs(self, head: GroupingStateHead, rows: TransactionBatch) -> None:
        """Copy the rows that were appended after a later boundary into the state of that epoch. Their batch had not
        read the boundary, so they came to this state.

        A stream has no later state yet when it accepts such rows. A re-evaluation accepts rows by event time, so it
        may already have a later state.
        """
        for later in self._journal.heads_of(head.fields):
            if later.epoch <= head.epoch:
                continue
            after = np.flatnonzero(rows.append_ms >= later.epoch_ms)
            if len(after):
                state = self._journal.open(later)
                numbers = int(state.header[at.H_SEQ]) + np.arange(len(after), dtype=np.int64)
                added = with_arrival_numbers(rows.take(after), numbers)
                state.load(
                    TransactionBatch.concat([state.rows(), added]),
                    np.concatenate([state.arrival_numbers(), numbers]),
                    (state.marks(),),
                    sums=state.sums(),
                )
                state.header[at.H_SEQ] += len(after)
                self._journal.record(later, added, None)

    def _raise_watermark(self, head: GroupingStateHead, siblings: Iterable[GroupingStateHead]) -> None:
        """Raise a state's watermark and retention bound to those of the other epochs of its incarnation, because both
        outlive a clear."""
        others = [sibling for sibling in siblings if sibling is not head and sibling.incarnation == head.incarnation]
        if others:
            header = self._journal.open(head).header
            for sibling in others:
                other = self._journal.open(sibling).header
                for scalar in (at.H_WATERMARK, at.H_BOUND):
                    header[scalar] = max(header[scalar], other[scalar])

    def _align_series(self, head: GroupingStateHead) -> None:
        """Begin the series that have begun in another epoch of the same incarnation, and raise their B."""
        state = self._journal.open(head)
        if state.measures.series:
            for sibling in self._journal.heads_of(head.fields):
                if sibling is not head and sibling.incarnation == head.incarnation:
                    state.set_series(aligned_series(state.series, self._journal.open(sibling).series))

    def end_series(self) -> None:
        """Remember since when series are over, and remove those that ended at least `grace_ms` ago."""
        now_ms, grace_ms = self._journal.head.newest_append_ms, self._engine.row_order.grace_ms
        for head in self._journal.head.states:
            state = self._journal.open(head)
            if state.measures.series:
                in_force = {each.series for each in long_rules(self._timeline, head.fields)}
                state.set_series(without_ended(state.series, in_force, now_ms, grace_ms))

    def remove_superseded(self) -> None:
        """Remove the grouping states whose epoch ended at least `grace_ms` ago."""
        rules, now_ms = self._timeline.latest, self._journal.head.newest_append_ms
        for head in list(self._journal.head.states):
            grouping = rules.groupings.get(head.fields)
            if grouping is not None and grouping.epoch <= head.epoch:
                continue
            if now_ms >= self._epoch_end_ms(head, rules) + self._engine.row_order.grace_ms:
                if grouping is not None and grouping.incarnation == head.incarnation:
                    self._head_for(grouping)  # The current state gets this state's watermark before it is removed.
                self._journal.remove(head)

    def _epoch_end_ms(self, head: GroupingStateHead, rules: RuleSet) -> int:
        """A time at which the epoch of a superseded state had ended: the start of the next epoch that has a state, else
        the start of the epoch in force, else the end of the grouping. A grouping whose end is forgotten ended long
        ago."""
        later = [each.epoch_ms for each in self._journal.heads_of(head.fields) if each.epoch > head.epoch]
        if later:
            return later[0]
        grouping = rules.groupings.get(head.fields)
        return rules.ended_ms.get(head.fields, 0) if grouping is None else grouping.epoch_ms

    def _report(
        self,
        batch: TransactionBatch,
        head: GroupingStateHead,
        plan: GroupingPlan,
        result: AcceptResult,
        entry_counts: Ints,
        sample: RuleSample | None,
    ) -> None:
        """Pass the results to the observer, or add them to the outputs. The sample receives the CPU time of alerts."""
        if self._engine.observer is not None:
            self._engine.observer(batch, head.fields, plan, result)
            return
        self._report_unevaluated(batch, head, result)
        output = result.output
        if not len(output):  # most groupings of many rules
            return
        self._add_outcomes(batch, head, plan, output)
        ends = np.cumsum(output[:, at.O_CONDITIONS])
        if not self._engine.settings.evaluations:
            outcomes = output[:, at.O_FIRED]
            fired = (outcomes == at.FIRED_YES) | (outcomes == at.FIRED_PENDING)
            output, ends = output[fired], ends[fired]
        rows, conditions = output.tolist(), result.conditions.tolist()
        builder = AlertBuilder(batch, self._engine.schema, head.fields, self._detection_ms, rows)
        used_versions = cache(lambda rule, count: collection_versions(plan.in_force[rule].rule, self._timeline, count))
        for row, end in zip(rows, ends.tolist(), strict=True):
            in_force, of_rule = plan.in_force[row[at.O_RULE]], conditions[end - row[at.O_CONDITIONS] : end]
            evaluation = builder.encode_evaluation(in_force, row) if self._engine.settings.evaluations else None
            if row[at.O_FIRED] in (at.FIRED_YES, at.FIRED_PENDING):
                with nullcontext() if sample is None else sample.alert_of(row[at.O_RULE]):
                    i = row[at.O_ROW]
                    used = used_versions(row[at.O_RULE], int(entry_counts[i]))
                    alert = builder.build(
                        in_force,
                        row,
                        used,
                        limit_text(plan, result.limits, row[at.O_RULE], i),
                        previous_payment(in_force.rule, result.previous, i, self._engine.schema),
                        condition_documents(plan, in_force.rule, of_rule, result.limits, batch, self._engine.schema),
                    )
                if row[at.O_FIRED] == at.FIRED_PENDING:
                    holding = sum(condition[at.O_FIRED] for condition in of_rule)
                    self._add_pending(batch, head, in_force, row, int(entry_counts[i]), alert, holding, evaluation)
                    continue
                self._alerts.append(alert)
            if evaluation is not None:
                self._evaluations.append(evaluation)

    def _add_outcomes(self, batch: TransactionBatch, head: GroupingStateHead, plan: GroupingPlan, output: Ints) -> None:
        """Add the outcomes of the rules that other rules name."""
        named = output[plan.is_named[output[:, at.O_RULE]]]
        if len(named):
            self._outcomes.append(named_outcomes(batch, self._engine.schema, head.fields, plan.in_force, named))

    def _add_pending(
        self,
        batch: TransactionBatch,
        head: GroupingStateHead,
        in_force: RuleInForce,
        row: Sequence[int],
        entries: int,
        alert: AlertRecord,
        holding: int,
        evaluation: bytes | None,
    ) -> None:
        """Add an alert that waits for the outcomes of other rules, with its mark. `holding` of its other conditions
        hold."""
        last_ms = None if row[at.O_ALERTED] == at.NONE else row[at.O_ALERTED]
        key = tuple(_stored(batch.columns[name], row[at.O_ROW]) for name in head.fields)
        mark = in_force.incarnation, head.epoch, key, last_ms, row[at.O_SUPPRESSED]
        self._pending.append(PendingAlert(alert, entries, *mark, holding, evaluation))

    def _report_unevaluated(self, batch: TransactionBatch, head: GroupingStateHead, result: AcceptResult) -> None:
        """Add the duplicates and the late rows to the outputs."""
        if (result.outcomes == at.ROW_ACCEPTED).all():
            return
        grouping = "&".join(head.fields)
        for i in np.flatnonzero(result.outcomes >= at.ROW_DUPLICATE).tolist():
            place = int(batch.append_ms[i]), int(batch.partition[i]), int(batch.offset[i]), grouping
            transaction = batch.row(i, self._engine.schema)
            outcome = result.outcomes[i]
            if outcome in (at.ROW_DUPLICATE, at.ROW_CONFLICTING_DUPLICATE):
                is_conflicting = bool(outcome == at.ROW_CONFLICTING_DUPLICATE)
                identity: int | str = transaction[ID_FIELD]  # type: ignore[assignment]
                self._duplicates.append(DuplicateRecord(*place, identity, is_conflicting))
            else:
                self._late.append(LateRecord(*place, int(result.lateness_ms[i]), _encoder.encode(transaction)))


def _stored(column: Column, i: int) -> int | str:
    """A value that is not null: its text, or the number that stands for it."""
    value = int(column.values[i])
    return value if column.dictionary is None else column.dictionary[value]


def _runs_of_rows(versions: Sequence[GroupingInForce], inverse: Ints) -> Iterator[tuple[int, int]]:
    """The runs [start, end) of consecutive rows of one epoch, whose versions fit into a plan. `inverse` int64[n] holds
    the version of each row."""
    epochs = np.array([grouping.epoch for grouping in versions])[inverse]
    ends = [*(np.flatnonzero(np.diff(epochs)) + 1).tolist(), len(inverse)]
    rules = [len(grouping.rules) for grouping in versions]
    for first, after in zip([0, *ends], ends, strict=False):
        for start, end in runs_within(rules, inverse[first:after], PLAN_RULES):
            yield first + start, first + end
