"""What a rule may cost before it is turned down."""

from __future__ import annotations

from decimal import Decimal

import pytest

from fraud_rules.budget import TrafficSeen, estimate_state_bytes, over_budget
from fraud_rules.rule import Aggregator, Operator, Rule, RuleState
from fraud_rules.ruleset import LogEntry, RuleSet, RuleTimeline

A, B = ("payeeId",), ("beneficiaryId",)
MIB = 2**20
# A minute of state is 1 MiB, and lateness none.
TRAFFIC = TrafficSeen(rate_per_s=1024.0, bytes_per_event=MIB / 1024 / 60, lateness_ms=0)


def rule(rule_id: int, grouping: tuple[str, ...], minutes: int, *, force: bool = False) -> Rule:
    return Rule(
        rule_id=rule_id,
        state=RuleState.ACTIVE,
        grouping=grouping,
        aggregator=Aggregator.COUNT,
        aggregate_field=None,
        unique=(),
        operator=Operator.GREATER,
        limit=Decimal(1),
        window_ms=minutes * 60_000,
        force=force,
    )


def in_force(*rules: Rule) -> RuleSet:
    return RuleTimeline(LogEntry.accepted(version, 0, one) for version, one in enumerate(rules)).latest


def test_the_estimate_is_rate_times_window_and_lateness() -> None:
    assert estimate_state_bytes(60_000, TRAFFIC) == pytest.approx(MIB, abs=1)
    assert estimate_state_bytes(60_000, TrafficSeen(10.0, 64.0, 300_000)) == 10 * 64 * 360


@pytest.mark.parametrize(
    ("before", "added", "budget_mib", "refused"),
    [
        pytest.param([], rule(1, A, 20), 20, False, id="just fits"),
        pytest.param([], rule(1, A, 21), 20, True, id="a minute too long"),
        pytest.param([], rule(1, A, 21, force=True), 20, False, id="forced"),
        pytest.param([rule(1, A, 20)], rule(2, B, 10), 20, True, id="another grouping is kept beside"),
        pytest.param([rule(1, A, 20)], rule(2, A, 20), 20, False, id="the same grouping is shared"),
        pytest.param([rule(1, A, 20)], rule(2, A, 30), 20, True, id="widens the grouping"),
        pytest.param([rule(1, A, 20)], rule(1, B, 20), 20, False, id="a move frees the old grouping"),
        pytest.param([rule(1, A, 20), rule(2, A, 20)], rule(1, B, 20), 20, True, id="a move that frees nothing"),
        pytest.param([rule(1, A, 50)], rule(1, A, 40), 20, False, id="narrowing passes though still over"),
        pytest.param([rule(1, A, 50)], rule(2, A, 50), 20, False, id="adding nothing passes though over"),
    ],
)
def test_a_rule_that_adds_state_beyond_the_budget_is_turned_down(
    before: list[Rule], added: Rule, budget_mib: int, refused: bool
) -> None:
    reason = over_budget(added, in_force(*before), TRAFFIC, budget_mib * MIB)
    assert (reason is not None) is refused


def test_the_reason_says_what_it_would_take() -> None:
    reason = over_budget(rule(2, B, 100), in_force(rule(1, A, 20)), TRAFFIC, 64 * MIB)
    assert reason is not None
    assert reason.field == "windowMinutes"
    assert "about 100 MiB more at 1024 transactions/s, 120 MiB in all, over the budget of 64 MiB" in reason.message
