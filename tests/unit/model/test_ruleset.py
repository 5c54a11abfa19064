"""The rule set as of any point of the rule log: incarnations, epochs, groupings, and rule time."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.errors import Reason
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.log_entry import LogEntry, LogPrefix, RecordOutcome, UndecodedRule
from fraud_rules.model.rule import (
    Baseline,
    Control,
    ControlType,
    Rule,
    RuleChange,
    RuleDeletion,
    RuleState,
)
from fraud_rules.model.ruleset import GroupingInForce, GrowingRules, RuleInForce, RuleSet, RuleTimeline
from fraud_rules.model.window import Window
from tests.support.rules import counting as rule

A, B = ("payeeId",), ("beneficiaryId", "payeeId")
MINUTE = 60_000
CLEAR, CLEAR_STOP = Control(ControlType.CLEAR_STATE_ALL), Control(ControlType.CLEAR_STATE_ALL_STOP)
DELETE_ALL, EXPORT = Control(ControlType.DELETE_RULES_ALL), Control(ControlType.EXPORT_RULES_CURRENT)
REJECTED = None


def entries(changes: Sequence[RuleChange | None], first: int = 0) -> list[LogEntry]:
    """One record a change, at offsets 0, 1, 2 ... and times 1000, 1010, 1020 ..."""
    reasons = [Reason("limit", "is required")]
    return [
        LogEntry.rejected(version, 1_000 + 10 * version, reasons)
        if change is None
        else LogEntry.accepted(version, 1_000 + 10 * version, change)
        for version, change in enumerate(changes, first)
    ]


def after(*changes: RuleChange | None) -> RuleSet:
    return RuleTimeline(entries(changes)).latest


def incarnations(rules: RuleSet) -> dict[int, tuple[int, int]]:
    """Version and incarnation of each rule."""
    return {rule_id: (in_force.version, in_force.incarnation) for rule_id, in_force in rules.rules.items()}


def histories(rules: RuleSet) -> dict[tuple[str, ...], tuple[int, int, int, int]]:
    """Incarnation, epoch, epoch time and widest window (minutes) of each grouping."""
    return {
        fields: (grouping.incarnation, grouping.epoch, grouping.epoch_ms, grouping.widest_window_ms // MINUTE)
        for fields, grouping in rules.groupings.items()
    }


@pytest.mark.parametrize(
    ("changes", "rules", "groupings"),
    [
        # given these changes, then these rules: id -> (version, incarnation),
        # and these groupings: fields -> (incarnation, epoch, epoch time, widest window in minutes)
        pytest.param([], {}, {}, id="nothing"),
        pytest.param([rule(1)], {1: (0, 0)}, {A: (0, 0, 1000, 20)}, id="the first rule begins its grouping"),
        pytest.param([rule(1), rule(2, B)], {1: (0, 0), 2: (1, 1)}, {A: (0, 0, 1000, 20), B: (1, 1, 1010, 20)},
                     id="two"),
        pytest.param([rule(1), rule(1, A, 60)], {1: (1, 0)}, {A: (0, 0, 1000, 60)}, id="an edit keeps the incarnation"),
        pytest.param([rule(1, A, 60), rule(1)], {1: (1, 0)}, {A: (0, 0, 1000, 20)}, id="narrowing the widest rule"),
        pytest.param([rule(1), rule(1, B)], {1: (1, 1)}, {B: (1, 1, 1010, 20)},
                     id="moving the last rule ends the grouping"),
        pytest.param([rule(1), rule(1, B), rule(1)], {1: (2, 2)}, {A: (2, 2, 1020, 20)}, id="moving back begins anew"),
        pytest.param([rule(1), rule(2), rule(1, B)], {1: (2, 2), 2: (1, 1)}, {A: (0, 0, 1000, 20), B: (2, 2, 1020, 20)},
                     id="moving one of two"),
        pytest.param([rule(1), rule(1, state=RuleState.PAUSE), rule(1)], {1: (2, 0)}, {A: (0, 0, 1000, 20)},
                     id="pause"),
        pytest.param([rule(1, A, 60, state=RuleState.PAUSE), rule(2)], {1: (0, 0), 2: (1, 1)}, {A: (0, 0, 1000, 60)},
                     id="a paused rule holds the widest window"),
        pytest.param([rule(1), RuleDeletion(1)], {}, {}, id="deleting the last rule ends the grouping"),
        pytest.param([rule(1), rule(2, A, 60), RuleDeletion(2)], {1: (0, 0)}, {A: (0, 0, 1000, 20)},
                     id="deleting the widest"),
        pytest.param([rule(1), RuleDeletion(1), rule(1)], {1: (2, 2)}, {A: (2, 2, 1020, 20)},
                     id="deleted and added anew"),
        pytest.param([rule(1), rule(2), RuleDeletion(1), rule(1)], {1: (3, 3), 2: (1, 1)}, {A: (0, 0, 1000, 20)},
                     id="added anew to a grouping kept alive"),
        pytest.param([rule(1), RuleDeletion(9)], {1: (0, 0)}, {A: (0, 0, 1000, 20)}, id="deleting the unknown"),
        pytest.param([rule(1), rule(2, B), DELETE_ALL], {}, {}, id="delete all"),
        pytest.param([rule(1), DELETE_ALL, rule(1)], {1: (2, 2)}, {A: (2, 2, 1020, 20)}, id="after delete all"),
        pytest.param([rule(1), CLEAR, rule(2, B)], {1: (0, 0), 2: (2, 2)}, {A: (0, 1, 1010, 20), B: (2, 2, 1020, 20)},
                     id="a clear begins an epoch of the groupings in force"),
        pytest.param([rule(1), CLEAR, rule(1, A, 60)], {1: (2, 0)}, {A: (0, 1, 1010, 60)}, id="an edit after a clear"),
        pytest.param([CLEAR, rule(1)], {1: (1, 1)}, {A: (1, 1, 1010, 20)}, id="a clear of nothing"),
        pytest.param([rule(1), REJECTED, rule(1)], {1: (2, 0)}, {A: (0, 0, 1000, 20)}, id="a rejected record"),
        pytest.param([rule(1), EXPORT], {1: (0, 0)}, {A: (0, 0, 1000, 20)}, id="an export"),
    ],
)  # fmt: skip
def test_folding(
    changes: list[RuleChange | None],
    rules: dict[int, tuple[int, int]],
    groupings: dict[tuple[str, ...], tuple[int, int, int, int]],
) -> None:
    folded = after(*changes)
    assert (incarnations(folded), histories(folded)) == (rules, groupings)


@pytest.mark.parametrize(
    ("changes", "ended"),
    [
        ([rule(1), RuleDeletion(1)], {A: 1_010}),
        ([rule(1), RuleDeletion(1), rule(2, B), CLEAR, EXPORT], {A: 1_010}),
        ([rule(1), rule(2), RuleDeletion(1)], {}),
        ([rule(1), rule(1, B)], {A: 1_010}),
        ([rule(1), rule(2, B), DELETE_ALL, REJECTED], {A: 1_020, B: 1_020}),
        ([rule(1), RuleDeletion(1), rule(1), RuleDeletion(1)], {A: 1_030}),
        ([rule(1), RuleDeletion(1), rule(1)], {}),
    ],
)
def test_the_rule_set_has_the_end_of_each_grouping(changes: list[RuleChange], ended: dict[str, int]) -> None:
    assert after(*changes).ended_ms == ended


def test_the_ends_of_groupings_are_bounded() -> None:
    changes: list[RuleChange | None] = [rule(1, (f"f{n}",)) for n in range(3_000)]
    rules = after(*changes)
    assert len(rules.ended_ms) == 1_000
    assert ("f2998",) in rules.ended_ms


LONG = replace(rule(1), window=Window(90 * 24 * 60 * MINUTE, step_ms=60 * MINUTE), detail_ms=1440 * MINUTE)


@pytest.mark.parametrize(
    ("edited", "series"),
    [
        (replace(LONG, limit=Decimal(2)), 0),
        (replace(LONG, window=replace(LONG.window, reach_ms=MINUTE * 600)), 0),
        (replace(LONG, state=RuleState.PAUSE), 0),
        (replace(LONG, window=replace(LONG.window, step_ms=2 * MINUTE)), 1),
        (replace(LONG, aggregate_function=AggregateFunction.SUM, aggregate_field="paymentAmount"), 1),
        (replace(LONG, baseline=Baseline(MINUTE, AggregateFunction.COUNT, None)), 1),
        (replace(LONG, grouping=B), 1),
        (rule(1), None),
    ],
)
def test_a_series_begins_anew_with_what_its_sums_contain(edited: Rule, series: int | None) -> None:
    assert after(LONG, edited).rules[1].series == series
    later = [undecoded(each, AlwaysLong()) for each in entries([LONG, edited])]
    assert RuleTimeline(later).latest.rules[1].series == series


class AlwaysLong(random.Random):
    """For `undecoded`: each record may be one of a long window."""

    def random(self) -> float:
        return 0.0


def test_a_series_that_a_plain_revision_interrupts_begins_anew() -> None:
    assert after(LONG, rule(1), LONG, replace(LONG, limit=Decimal(7))).rules[1].series == 2


def test_a_grouping_retains_rows_of_a_long_window_for_its_detail() -> None:
    grouping = after(LONG, rule(2)).groupings[A]
    assert grouping.widest_window_ms == 1440 * MINUTE
    assert [each.rule.rule_id for each in grouping.long_rules] == [1]


def test_a_groupings_rules_are_by_id_in_all_states() -> None:
    rules = after(rule(9), rule(2, state=RuleState.PAUSE), rule(5, state=RuleState.SHADOW), rule(2, minutes=7))
    assert [(in_force.rule.rule_id, in_force.rule.window.reach_ms) for in_force in rules.groupings[A].rules] == [
        (2, 7 * MINUTE),
        (5, 20 * MINUTE),
        (9, 20 * MINUTE),
    ]


def test_the_rule_set_has_the_last_stop() -> None:
    assert after(rule(1), CLEAR).stopped_at is None
    stopped = after(rule(1), CLEAR_STOP, CLEAR, rule(2))
    assert stopped.stopped_at == 1
    assert histories(stopped)[A] == (0, 2, 1020, 20)
    assert after(CLEAR_STOP, DELETE_ALL, CLEAR_STOP).stopped_at == 2


def test_rule_time_is_the_running_maximum_by_offset() -> None:
    log = RuleTimeline(
        [LogEntry.accepted(0, 50, rule(1)), LogEntry.accepted(1, 40, rule(2)), LogEntry.accepted(4, 60, CLEAR)]
    )
    assert [(entry.append_ms, entry.time_ms) for entry in log.entries] == [(50, 50), (40, 50), (60, 60)]
    longer = log.extended([LogEntry.accepted(7, 10, rule(3, B))])
    assert longer.entries[-1].time_ms == 60
    times_ms = np.array([49, 50, 60], dtype=np.int64)
    assert (log.entry_counts_at(times_ms).tolist(), longer.entry_counts_at(times_ms).tolist()) == ([0, 2, 3], [0, 2, 4])
    assert longer.extended([LogEntry.accepted(8, 70, CLEAR)]).entry_counts_at(times_ms + 10).tolist() == [2, 4, 5]
    assert longer.latest.groupings[B].epoch_ms == 60


def test_rules_come_first_at_equal_milliseconds() -> None:
    log = RuleTimeline(
        [LogEntry.accepted(0, 50, rule(1)), LogEntry.accepted(1, 50, rule(2)), LogEntry.accepted(2, 60, CLEAR)]
    )
    assert log.entry_counts_at(np.array([49, 50, 59, 60, 61, 0], dtype=np.int64)).tolist() == [0, 2, 2, 3, 3, 0]
    assert RuleTimeline().entry_counts_at(np.array([5], dtype=np.int64)).tolist() == [0]


def test_positions_in_a_log_follow_from_the_whole_log_for_any_rows() -> None:
    rng = random.Random(5)
    log, at_ms, rules_at, times_ms = RuleTimeline(), 0, [0], []
    for version in range(200):
        at_ms += rng.choice([0, 0, 1, 7])
        changes_rules = rng.random() < 0.5
        entry = LogEntry.accepted(version, at_ms, rule(1)) if changes_rules else LogEntry.rejected(version, at_ms, [])
        log = log.extended([entry])
        times_ms.append(at_ms)
        rules_at.append(version + 1 if changes_rules else rules_at[-1])
    for _ in range(200):
        append_ms = np.array([rng.randint(-3, at_ms + 3) for _ in range(rng.choice([0, 1, 1, 5]))], dtype=np.int64)
        counts = log.entry_counts_at(append_ms)
        assert counts.tolist() == [bisect_right(times_ms, each) for each in append_ms.tolist()]
        assert log.rule_counts(counts).tolist() == [rules_at[count] for count in counts.tolist()]


def test_the_end_of_a_timeline_is_the_pin() -> None:
    log = RuleTimeline(entries([rule(1)]), end=5)
    assert (log.end, RuleTimeline().end, RuleTimeline(entries([rule(1)])).end) == (5, 0, 1)
    assert log.extended(entries([rule(2)], first=6)).end == 7
    assert log.extended([], end=9).end == 9
    with pytest.raises(ValueError, match="cannot end at 4"):
        log.extended([], end=4)


def test_a_log_only_grows_at_its_end() -> None:
    log = RuleTimeline(entries([rule(1), rule(2)]))
    with pytest.raises(ValueError, match="entry 1 does not come after 1"):
        log.extended(entries([rule(3)], first=1))
    with pytest.raises(ValueError, match="has no rule set 3"):
        log.rule_set(3)


@pytest.mark.parametrize("end", [RuleDeletion(1), rule(1, B), DELETE_ALL])
def test_the_marks_of_a_rule_are_kept_until_all_transactions_before_its_end_have_come(end: RuleChange) -> None:
    log = RuleTimeline([LogEntry.accepted(0, 50, rule(1)), LogEntry.accepted(1, 60, end)])
    assert 0 in log.incarnations_kept(since_ms=60)
    assert 0 not in log.incarnations_kept(since_ms=61)


def test_two_continuations_of_one_log_do_not_see_each_other() -> None:
    log = RuleTimeline(entries([rule(1)]))
    left, right = log.extended(entries([rule(2)], first=1)), log.extended(entries([RuleDeletion(1)], first=1))
    assert (set(left.latest.rules), set(right.latest.rules), set(log.latest.rules)) == ({1, 2}, set(), {1})
    assert left.rule_set(1) is log.rule_set(1)


def folded_naively(log: Sequence[LogEntry]) -> RuleSet:
    """The rule set of a whole log, each part found by looking back through it: slow, and with nothing carried along."""
    in_force = {rule_id: found for rule_id in range(1, 6) if (found := looked_up(log, rule_id)) is not None}
    groupings = {}
    for fields in {known.rule.grouping for known in in_force.values()}:
        members = tuple(in_force[rule_id] for rule_id in sorted(in_force) if in_force[rule_id].rule.grouping == fields)
        begun = max(n for n in range(len(log)) if alive(log[: n + 1], fields) and not alive(log[:n], fields))
        clears = [
            n for n in range(begun, len(log)) if isinstance(log[n].change, Control) and log[n].change.type.clears_state
        ]
        boundary = log[clears[-1] if clears else begun]
        widest = max(known.rule.window.reach_ms for known in members)
        groupings[fields] = GroupingInForce(
            fields, log[begun].version, boundary.version, boundary.time_ms, members, widest
        )
    stops = [entry.version for entry in log if entry.change == CLEAR_STOP]
    cleared = [entry.time_ms for entry in log if isinstance(entry.change, Control) and entry.change.type.clears_state]
    return RuleSet(
        in_force,
        groupings,
        stops[-1] if stops else None,
        ended_naively(log, groupings),
        ended_rules_naively(log),
        max(cleared, default=0),
    )


def ended_naively(log: Sequence[LogEntry], in_force: Mapping[tuple[str, ...], object]) -> dict[tuple[str, ...], int]:
    """The time of the last entry that ended each grouping, for those that are not in force."""
    return {
        fields: log[n].time_ms
        for n in range(len(log))
        for fields in (A, B, ("x",))
        if fields not in in_force and alive(log[:n], fields) and not alive(log[: n + 1], fields)
    }


def ended_rules_naively(log: Sequence[LogEntry]) -> dict[int, int]:
    """The time of the entry that ended each incarnation of a rule."""
    ended = {}
    for n in range(len(log)):
        for rule_id in range(1, 6):
            before, after = looked_up(log[:n], rule_id), looked_up(log[: n + 1], rule_id)
            if before is not None and (after is None or after.incarnation != before.incarnation):
                ended[before.incarnation] = log[n].time_ms
    return ended


def looked_up(log: Sequence[LogEntry], rule_id: int) -> RuleInForce | None:
    mine = [
        entry
        for entry in log
        if entry.change in (DELETE_ALL, RuleDeletion(rule_id))
        or (isinstance(entry.change, Rule) and entry.change.rule_id == rule_id)
    ]
    if not mine or not isinstance(mine[-1].change, Rule):
        return None
    last = mine[-1].change
    incarnation = mine[-1].version
    for entry in reversed(mine):
        if not isinstance(entry.change, Rule) or entry.change.grouping != last.grouping:
            break
        incarnation = entry.version
    return RuleInForce(last, mine[-1].version, incarnation)


def alive(log: Sequence[LogEntry], fields: tuple[str, ...]) -> bool:
    found = (looked_up(log, rule_id) for rule_id in range(1, 6))
    return any(known is not None and known.rule.grouping == fields for known in found)


CHANGES = st.one_of(
    st.builds(rule, st.integers(1, 5), st.sampled_from([A, B, ("x",)]), st.integers(1, 3), st.sampled_from(RuleState)),
    st.builds(rule, st.integers(1, 5), st.sampled_from([A, B])),
    st.builds(RuleDeletion, st.integers(1, 5)),
    st.sampled_from([CLEAR, CLEAR_STOP, DELETE_ALL, EXPORT, REJECTED]),
)


def undecoded(entry: LogEntry, rng: random.Random) -> LogEntry:
    """The entry with a record that is not decoded yet. The record of a rejected entry can have any id and grouping."""
    change, outcome = entry.change, entry.outcome
    if isinstance(change, Rule):
        may_be_long = rng.random() < 0.3
        content = UndecodedRule(change.rule_id, change.grouping, b"", lambda _: outcome, may_be_long=may_be_long)
    elif change is REJECTED:
        content = UndecodedRule(rng.randint(1, 5), rng.choice([A, B]), b"", lambda _: outcome)
    else:
        return entry
    return replace(entry, content=content)


@given(st.lists(CHANGES, max_size=25), st.randoms(use_true_random=False), st.integers(0, 25), st.booleans())
def test_any_prefix_equals_the_naive_fold(
    changes: list[RuleChange | None], rng: random.Random, split: int, lazy: bool
) -> None:
    log = [undecoded(entry, rng) if lazy and rng.random() < 0.8 else entry for entry in entries(changes)]
    timeline = RuleTimeline(log[:split])
    if rng.random() < 0.5:
        timeline.rule_set(len(timeline))
    timeline = timeline.extended(log[split:])
    counts = list(range(len(log) + 1))
    rng.shuffle(counts)
    for count in counts:
        assert timeline.rule_set(count) == folded_naively(timeline.entries[:count])


@given(st.lists(CHANGES, max_size=25), st.randoms(use_true_random=False), st.integers(0, 25))
def test_growing_rules_are_those_of_each_prefix(
    changes: list[RuleChange | None], rng: random.Random, split: int
) -> None:
    log = [undecoded(entry, rng) for entry in entries(changes)]
    growing, whole = GrowingRules(RuleTimeline(log[:split])), RuleTimeline(log)
    for count, entry in enumerate(log[split:], split + 1):
        growing.add(entry)
        assert growing.rules == whole.rule_set(count).rules


def test_prefixes_of_one_log_share_its_entries_until_they_differ() -> None:
    first = LogPrefix[LogEntry].empty().extended(entries([rule(1), rule(2)]))
    left, right = first.extended(entries([rule(3)], first=2)), first.extended(entries([rule(4), rule(5)], first=2))
    assert [[entry.rule_id for entry in prefix] for prefix in (first, left, right)] == [[1, 2], [1, 2, 3], [1, 2, 4, 5]]
    assert (len(first), len(left), len(right)) == (2, 3, 4)
    assert (first[0], first[-1], list(first[1:]), list(first[::-1])) == (
        right[0],
        left[1],
        [left[1]],
        [left[1], left[0]],
    )
    assert 3 not in [entry.rule_id for entry in first]
    with pytest.raises(IndexError):
        first[2]


def test_a_fold_decodes_only_the_records_that_decide_its_result() -> None:
    decoded: list[int] = []

    def entry(version: int, outcome: RuleChange | None, rule_id: int, grouping: tuple[str, ...] = A) -> LogEntry:
        def decode(value: bytes) -> RecordOutcome:
            decoded.append(version)
            return RecordOutcome(outcome)

        return LogEntry(
            version, version, version,
            UndecodedRule(rule_id, grouping, b"", decode, may_name=False, may_be_long=False),
        )  # fmt: skip

    log = [entry(n, rule(1, minutes=n + 1), 1) for n in range(100)]
    log += [entry(100, rule(2), 2), entry(101, REJECTED, 1), entry(102, rule(2, B), 2, B), entry(103, rule(2, B), 2, B)]
    latest = RuleTimeline(log).latest

    assert incarnations(latest) == {1: (99, 0), 2: (103, 102)}
    assert sorted(set(decoded)) == [0, 99, 100, 101, 102, 103]


def test_a_thousand_rules_stay_cheap_and_bounded() -> None:
    fields = [(f"f{n}",) for n in range(10)]
    changes: list[RuleChange | None] = [rule(n % 1_000 + 1, fields[n % 10], n % 50 + 1) for n in range(3_000)]
    start = time.process_time()
    timeline = RuleTimeline(entries(changes))
    for count in range(len(changes) + 1):
        timeline.rule_set(count)
    for n in range(3_000, 3_100):
        timeline = timeline.extended(entries([rule(n % 1_000 + 1, fields[n % 10])], first=n))
        assert len(timeline.latest.rules) == 1_000
    assert time.process_time() - start < 3.0
    assert len(timeline._cache) <= 64
