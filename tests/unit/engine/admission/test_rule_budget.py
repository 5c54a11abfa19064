"""The state budget: rules above it are refused."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from random import Random

import pytest

from fraud_rules.codec.rules.filter import parse_filter
from fraud_rules.engine.admission.budget import (
    BYTES_PER_MARK,
    BYTES_PER_SUM,
    ObservedTraffic,
    RetainedState,
    StateLoad,
    estimate_state_bytes,
    over_budget,
)
from fraud_rules.engine.admission.event_rate import EventRate
from fraud_rules.model.aggregate import AggregateFunction
from fraud_rules.model.rule import AggregateCondition, Baseline, Rule
from fraud_rules.model.ruleset import LogEntry, RuleInForce, RuleTimeline
from fraud_rules.model.window import Window
from tests.support.rules import LIMITS, SCHEMA
from tests.support.rules import counting as rule

A, B = ("payeeId",), ("beneficiaryId",)
MIB = 2**20
MINUTE_MS, DAY_MS = 60_000, 86_400_000


def steady(rows_per_minute: int, length_ms: int, begin_ms: int = 0, rate: EventRate | None = None) -> EventRate:
    """The rate after so much event time of steady traffic, in batches of a minute."""
    rate = rate or EventRate()
    for first_ms in range(begin_ms, begin_ms + length_ms, MINUTE_MS):
        rate = rate.after(rows_per_minute, first_ms, first_ms + MINUTE_MS)
    return rate


# A minute of state is 1 MiB, and lateness none.
TRAFFIC = ObservedTraffic(steady(65_536, DAY_MS), row_bytes=16, lateness_ms=0)


def compared(plain: Rule, minutes: int) -> Rule:
    """The rule with a baseline of so many minutes before its window."""
    return replace(plain, baseline=Baseline(minutes * 60_000, AggregateFunction.COUNT, None))


def in_force(*rules: Rule) -> StateLoad:
    load = StateLoad()
    load.follow(RuleTimeline(LogEntry.accepted(version, 0, one) for version, one in enumerate(rules)).latest.rules)
    return load


def test_a_long_window_keeps_rows_for_its_detail_and_a_sum_for_each_earlier_one_at_most() -> None:
    long = replace(rule(1, A, 60), window=Window(60 * MINUTE_MS, step_ms=MINUTE_MS), detail_ms=10 * MINUTE_MS)
    sums = 65_536 * 61 * BYTES_PER_SUM
    assert in_force().added_bytes(long, TRAFFIC) == pytest.approx(10 * MIB + sums, abs=65_536 * BYTES_PER_SUM)
    assert in_force(rule(2, A, 60)).added_bytes(long, TRAFFIC) == pytest.approx(sums, abs=65_536 * BYTES_PER_SUM)
    assert in_force(long).added_bytes(replace(long, limit=Decimal(2)), TRAFFIC) == 0


def test_the_estimate_is_rate_times_window_and_lateness() -> None:
    assert estimate_state_bytes(MINUTE_MS, TRAFFIC) == MIB
    assert estimate_state_bytes(MINUTE_MS, ObservedTraffic(steady(600, DAY_MS), 64, 300_000)) == 600 * 64 * 6


@pytest.mark.parametrize(
    ("before", "added", "budget_mib", "refused"),
    [
        pytest.param([], rule(1, A, 20), 20, False, id="just fits"),
        pytest.param([], rule(1, A, 21), 20, True, id="a minute too long"),
        pytest.param([], rule(1, A, 21, force=True), 20, False, id="forced"),
        pytest.param([], replace(rule(1, A, 10), roles=2), 20, False, id="just fits with a row for each role"),
        pytest.param([], replace(rule(1, A, 11), roles=2), 20, True, id="the rows of all roles are kept"),
        pytest.param([], compared(rule(1, A, 10), 10), 20, False, id="just fits with its baseline"),
        pytest.param([], compared(rule(1, A, 10), 11), 20, True, id="the window of the baseline counts"),
        pytest.param([rule(1, A, 20)], rule(2, B, 10), 20, True, id="another grouping is kept beside"),
        pytest.param([rule(1, A, 20)], rule(2, A, 20), 20, False, id="the same grouping is shared"),
        pytest.param([rule(1, A, 20)], rule(2, A, 30), 20, True, id="widens the grouping"),
        pytest.param([rule(1, A, 20)], rule(1, B, 20), 20, False, id="a move frees the old grouping"),
        pytest.param([rule(1, A, 20), rule(2, A, 20)], rule(1, B, 20), 20, True, id="a move that frees nothing"),
        pytest.param([rule(1, A, 50)], rule(1, A, 40), 20, False, id="narrowing passes though still over"),
        pytest.param([rule(1, A, 50)], rule(2, A, 50), 20, False, id="adding nothing passes though over"),
    ],
)
def test_a_rule_that_adds_state_beyond_the_budget_is_refused(
    before: list[Rule], added: Rule, budget_mib: int, refused: bool
) -> None:
    reason = over_budget(added, in_force(*before), TRAFFIC, budget_mib * MIB)
    assert (reason is not None) is refused


def test_the_reason_names_the_required_state() -> None:
    reason = over_budget(rule(2, B, 100), in_force(rule(1, A, 20)), TRAFFIC, 64 * MIB)
    assert reason is not None
    assert reason.field == "windowMinutes"
    expected = "about 100 MiB more (6,553,600 transactions in its window), 120 MiB in all, over the budget of 64 MiB"
    assert expected in reason.message


CASH = parse_filter("paymentType = 'CSH'", SCHEMA, LIMITS)


def distinct(rule_id: int, minutes: int, unique: tuple[str, ...] = ("paymentId",), *, force: bool = False) -> Rule:
    counted = replace(rule(rule_id, A, minutes, force=force), aggregate_function=AggregateFunction.COUNT_DISTINCT)
    return replace(counted, unique=unique)


@pytest.mark.parametrize(
    ("added", "refused"),
    [
        pytest.param(distinct(3, 20), False, id="shares the multiset of a rule"),
        pytest.param(distinct(3, 10), True, id="another window"),
        pytest.param(distinct(3, 20, ("payeeId",)), True, id="other fields"),
        pytest.param(replace(distinct(3, 20), filter=CASH), True, id="another filter"),
        pytest.param(distinct(3, 10, force=True), False, id="forced"),
        pytest.param(distinct(2, 10), False, id="an edit replaces its multiset"),
        pytest.param(rule(3, A, 20), False, id="another function needs no multiset"),
    ],
)
def test_the_multisets_of_distinct_values_count(added: Rule, refused: bool) -> None:
    """A row has 16 bytes, and 96 bytes for each multiset of its grouping: 7 MiB for each minute with one multiset."""
    present = in_force(rule(1, A, 20), distinct(2, 20))
    reason = over_budget(added, present, TRAFFIC, 150 * MIB)
    assert (reason is not None) is refused
    if reason is not None:
        assert "about 120 MiB more" in reason.message
        assert "260 MiB in all" in reason.message
        assert "the window, filter and fields of a COUNT_DISTINCT rule already in force" in reason.message


def test_the_windows_and_multisets_of_conditions_count() -> None:
    counted = distinct(2, 30)
    condition = AggregateCondition(
        counted.aggregate_function, None, counted.unique, counted.operator, counted.limit, counted.window
    )
    plain, richer = rule(1, A, 20), replace(rule(1, A, 20), conditions=(condition,))
    assert over_budget(plain, in_force(), TRAFFIC, 20 * MIB) is None
    assert over_budget(richer, in_force(), TRAFFIC, 209 * MIB) is not None
    assert over_budget(richer, in_force(), TRAFFIC, 210 * MIB) is None


def test_many_multisets_on_one_grouping_are_refused() -> None:
    """Each of them has a window of its own, so they share only the rows."""
    present = in_force(*(distinct(number, number) for number in range(1, 21)))
    assert over_budget(distinct(21, 20, ("payeeId",)), present, TRAFFIC, 2_539 * MIB) is not None
    assert over_budget(distinct(21, 20, ("payeeId",)), present, TRAFFIC, 2_540 * MIB) is None


def test_retained_state_counts_if_it_exceeds_the_estimate() -> None:
    quiet = ObservedTraffic(steady(64, DAY_MS), 16, 0, RetainedState(events=64 * 65_536))
    reason = over_budget(rule(2, B, 20), in_force(rule(1, A, 20)), quiet, 64 * MIB)
    assert reason is not None
    assert "64 MiB in all" in reason.message


def test_marks_count_beside_transactions() -> None:
    marks = 44 * MIB // BYTES_PER_MARK
    added = rule(2, B, 20), in_force(rule(1, A, 20))
    within = ObservedTraffic(TRAFFIC.rate, 16, 0, RetainedState(marks=marks // 2))
    assert over_budget(*added, within, 64 * MIB) is None
    reason = over_budget(*added, ObservedTraffic(TRAFFIC.rate, 16, 0, RetainedState(marks=marks)), 64 * MIB)
    assert reason is not None
    assert "20 MiB more" in reason.message
    assert "84 MiB in all" in reason.message


def test_strings_count_by_their_observed_share() -> None:
    """Half a million transactions hold ids of 48 bytes each, so a transaction counts 16 + 48 bytes."""
    events = MIB // 2
    traffic = ObservedTraffic(TRAFFIC.rate, 16, 0, RetainedState(events, string_bytes=48 * events))
    assert over_budget(rule(2, B, 20), in_force(rule(1, A, 20)), traffic, 160 * MIB) is None
    reason = over_budget(rule(2, B, 20), in_force(rule(1, A, 20)), traffic, 159 * MIB)
    assert reason is not None
    assert "80 MiB more" in reason.message
    assert "160 MiB in all" in reason.message


def test_strings_that_outlive_few_transactions_do_not_count_for_each() -> None:
    traffic = ObservedTraffic(TRAFFIC.rate, 16, 0, RetainedState(events=100, string_bytes=100_000))
    assert estimate_state_bytes(DAY_MS, traffic) == traffic.rows_kept(DAY_MS) * 26


DEMO_WINDOW_MS = 30 * DAY_MS


def state_mib(rate: EventRate, window_ms: int = DEMO_WINDOW_MS) -> float:
    """What the shipped settings estimate for a grouping with this window."""
    return estimate_state_bytes(window_ms, ObservedTraffic(rate, 320, 300_000)) / MIB


def test_a_history_counts_as_the_time_that_it_covers() -> None:
    """1,750,000 transactions of 183 days, loaded in batches of 200,000: 0.11 a second of event time."""
    rate, day = EventRate(), 183 / 1_750_000
    for done in range(0, 1_750_000, 200_000):
        rate = rate.after(200_000, round(done * day * DAY_MS), round((done + 200_000) * day * DAY_MS))
        assert state_mib(rate) == pytest.approx(1_750_000 / 183 * 30 * 320 / MIB, rel=0.02)


@pytest.mark.parametrize("minutes", [0, 1, 5, 60, 180])
def test_traffic_of_an_hour_says_nothing_about_a_month(minutes: int) -> None:
    """The Flink demo's rule of 30 days, at 21 per second: the same estimate with and without traffic before it."""
    assert state_mib(steady(21 * 60, minutes * MINUTE_MS)) < 8_192


def test_traffic_that_lasts_is_extrapolated_to_the_whole_window() -> None:
    rate = steady(21 * 60, DAY_MS)
    assert state_mib(rate) == pytest.approx(21 * 30 * 86_400 * 320 / MIB, rel=0.01)


def test_high_traffic_is_seen_within_minutes() -> None:
    assert state_mib(steady(1_000 * 60, 5 * MINUTE_MS)) > 8_192


def test_a_night_without_traffic_does_not_hide_the_day() -> None:
    day = steady(21 * 60, DAY_MS)
    morning = day.after(1, DAY_MS * 4 // 3, DAY_MS * 4 // 3 + 1_000)
    assert state_mib(day) * 0.7 < state_mib(morning) < state_mib(day)


def test_the_rate_ages_when_traffic_falls() -> None:
    busy = steady(60_000, DAY_MS)
    calm = steady(60, 6 * DAY_MS, DAY_MS, busy)
    assert state_mib(calm) < state_mib(busy) / 100


def test_after_a_history_live_traffic_counts_within_minutes() -> None:
    history = steady(7, DAY_MS)
    live = steady(60_000, 10 * MINUTE_MS, 8 * 365 * DAY_MS, history)
    assert state_mib(live) > 8_192


def test_rows_behind_the_newest_event_time_move_nothing_back() -> None:
    rate = steady(600, DAY_MS)
    late = rate.after(600, DAY_MS // 2, DAY_MS // 2 + MINUTE_MS)
    assert late.until_ms == rate.until_ms
    assert state_mib(late) == pytest.approx(state_mib(rate), rel=0.11)


def test_a_burst_counts_as_spread_over_a_minute() -> None:
    assert EventRate().after(60_000, 5_000, 5_000).rows_in(MINUTE_MS) == 60_000
    assert EventRate().rows_in(DEMO_WINDOW_MS) == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_load_that_follows_changes_is_that_of_the_rules_in_force(seed: int) -> None:
    random, rules, load = Random(seed), dict[int, RuleInForce](), StateLoad()
    for version in range(200):
        rule_id = random.randint(1, 9)
        if random.random() < 0.3:
            rules.pop(rule_id, None)
        else:
            made = random.choice([partial(rule, grouping=A), distinct])(rule_id, minutes=random.randint(1, 4))
            made = replace(made, grouping=random.choice([A, B, ()]))
            rules[rule_id] = RuleInForce(made, version, version)
        load.follow(rules, [rule_id])
        fresh = in_force(*(each.rule for each in rules.values()))
        assert load.total_bytes(TRAFFIC) == fresh.total_bytes(TRAFFIC)
        added = replace(distinct(random.randint(1, 12), random.randint(1, 4)), grouping=random.choice([A, B]))
        together = in_force(*(each.rule for each in rules.values() if each.rule.rule_id != added.rule_id), added)
        more = together.total_bytes(TRAFFIC) - fresh.total_bytes(TRAFFIC)
        assert load.added_bytes(added, TRAFFIC) == more
        assert load.total_bytes(TRAFFIC) == fresh.total_bytes(TRAFFIC)
