"""Brings a key group's view to the version of its state log.

A view of an earlier version of the same log gets only the rows and marks of the versions that it lacks. Any other view
is rebuilt from all chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fraud_rules.engine.state.chunks import ChunkInfo, decode_parts, live_rows, unpack_marks
from fraud_rules.engine.state.grouping_state import GroupingState, Marks
from fraud_rules.engine.state.head import GroupingStateHead, Head
from fraud_rules.engine.state.series_sums import StepSums, concat_sums
from fraud_rules.engine.state.store import KeyGroupView
from fraud_rules.engine.statelog import StateLog, StateVersion
from fraud_rules.engine.task_progress import TaskProgress
from fraud_rules.engine.window import layout as at
from fraud_rules.engine.window.plan import NO_MEASURES, Measures
from fraud_rules.model.output import ViewRefresh
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

MeasuresOf = Callable[[GroupingStateHead], Measures]
"""The measures that the grouping state of a head is expected to need."""


def no_measures(_: GroupingStateHead) -> Measures:
    """Foresee nothing."""
    return NO_MEASURES


@dataclass(frozen=True, slots=True)
class ViewStates:
    """Opens and creates the grouping states of a view.

    `measures_of` foresees the measures that a grouping state will need, so that it computes them while it loads rows. A
    wrong answer costs a rebuild and changes no result.
    """

    schema: TransactionSchema
    view: KeyGroupView
    longest_cooldown_ms: int
    measures_of: MeasuresOf

    def open(self, state_head: GroupingStateHead) -> GroupingState:
        """The grouping state of a head, opened from the view on first use."""
        state = self.view.states.get(state_head.id)
        if state is None:
            arrays = self.view.arrays(state_head.id)
            state = GroupingState(self.schema, state_head.fields, arrays, self.longest_cooldown_ms)
            self.view.states[state_head.id] = state
        return state

    def create(self, state_head: GroupingStateHead) -> GroupingState:
        """Create the empty grouping state of a head."""
        arrays = self.view.arrays(state_head.id)
        measures = self.measures_of(state_head)
        state = GroupingState.create(self.schema, state_head.fields, arrays, self.longest_cooldown_ms, measures)
        self.view.states[state_head.id] = state
        return state


def refresh_view(states: ViewStates, head: Head, log: StateLog, progress: TaskProgress) -> ViewRefresh:
    """Begin a change of the view at the head's version. The return value says how much the view lacked."""
    view = states.view
    is_current, shown = view.shows(*head.state_version), view.shown
    view.begin_change()
    if is_current:
        return ViewRefresh.NONE
    if shown is not None and head.descends_from(shown) and _catch_up(states, head, log, progress, shown):
        return ViewRefresh.CATCH_UP
    _rebuild(states, head, log, progress)
    return ViewRefresh.REBUILD


class _Content:
    """The rows, marks and sums of some chunks, in arrival order, by the id of the grouping state. `folded_end` is the
    arrival number after the last row in the sums."""

    def __init__(self, head: Head) -> None:
        self.rows: dict[int, list[TransactionBatch]] = {state_head.id: [] for state_head in head.states}
        self.marks: dict[int, list[Marks]] = {state_head.id: [] for state_head in head.states}
        self.sums: dict[int, list[StepSums]] = {state_head.id: [] for state_head in head.states}
        self.folded_end: dict[int, int] = {state_head.id: at.NONE for state_head in head.states}

    def read(self, chunks: Iterable[ChunkInfo], log: StateLog, progress: TaskProgress) -> None:
        """Add the content of chunks. The content of removed grouping states is ignored."""
        for chunk in chunks:
            for part in decode_parts(log.chunk(chunk.name)):
                if part.state_id in self.rows:
                    unpacked = TransactionBatch.unpack(part.rows)
                    self.rows[part.state_id].append(unpacked)
                    progress.restored(len(unpacked))
                    if part.marks is not None:
                        self.marks[part.state_id].append(unpack_marks(part.marks))
                    if part.sums is not None:
                        self.sums[part.state_id].append(StepSums.unpack(part.sums))
                        self.folded_end[part.state_id] = max(self.folded_end[part.state_id], part.folded_end)


def _rebuild(states: ViewStates, head: Head, log: StateLog, progress: TaskProgress) -> None:
    """Rebuild every grouping state from all chunks."""
    states.view.clear()
    content = _Content(head)
    content.read(head.chunks, log, progress)
    for state_head in head.states:
        _load(states.create(state_head), state_head, content)


def _catch_up(states: ViewStates, head: Head, log: StateLog, progress: TaskProgress, shown: StateVersion) -> bool:
    """Apply the versions after `shown`. Returns False if the view must be rebuilt."""
    view = states.view
    known = view.state_ids()
    for state_id in known - {state_head.id for state_head in head.states}:
        view.remove(state_id)
    content = _Content(head)
    content.read(head.chunks_after(shown.version), log, progress)
    for state_head in head.states:
        if state_head.id not in known:
            _load(states.create(state_head), state_head, content)
        elif not _append(states.open(state_head), state_head, content):
            return False
    return True


def _load(state: GroupingState, state_head: GroupingStateHead, content: _Content) -> None:
    """Fill an empty grouping state."""
    _copy_numbers(state, state_head)
    live, marks = live_rows(content.rows[state_head.id], state_head.oldest_ms), content.marks[state_head.id]
    sums = concat_sums(content.sums[state_head.id])
    if len(live) or marks or len(sums):
        state.load(live, live.offset, marks, sums=sums)


def _append(state: GroupingState, state_head: GroupingStateHead, content: _Content) -> bool:
    """Add the rows and marks that a grouping state lacks. Returns False if it cannot add them."""
    first_number = int(state.header[at.H_SEQ])
    if content.folded_end[state_head.id] > first_number:
        return False
    if not {each.version for each in state_head.series} <= set(state.measures.series):
        return False  # rows that the bound has passed since would fold without the measures of a new series
    state.header[at.H_BOUND] = state_head.oldest_ms  # so that rows of sums are accepted, too
    rows = live_rows(content.rows[state_head.id], state_head.oldest_ms)
    lacking = rows.take(rows.offset >= first_number)
    appended = state.append(lacking, lacking.offset, content.marks[state_head.id])
    _copy_numbers(state, state_head)
    return appended


def _copy_numbers(state: GroupingState, state_head: GroupingStateHead) -> None:
    state.header[at.H_WATERMARK], state.header[at.H_BOUND] = state_head.watermark_ms, state_head.bound_ms
    state.header[at.H_FIRST], state.header[at.H_SEQ] = state_head.first_ms, state_head.next_number
    state.set_series(state_head.series)
