"""The decisions in the memory of the feed: their order, their filter, and the scores of corrections."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fraud_control.feed.decisions import DecisionFilter, DecisionMemory, read_decision
from fraud_control.feed.events import read_correction
from fraud_control.feed.memory import FeedMemory
from fraud_rules.kafka.decoding import UNDECODABLE


def decision(number: int, score: int = 60, **members: Any) -> bytes:
    alerts = [{"ruleId": number, "ruleVersion": 3, "alertId": "a", "weight": score}]
    outcome = "DECLINE" if score >= 100 else "REVIEW" if score >= 50 else "NOTE"
    document = {"transactionId": number, "score": score, "outcome": outcome, "alerts": alerts, "eventTime": 7}
    return json.dumps({**document, **members}).encode()


def memory(*scores: int) -> DecisionMemory:
    kept = DecisionMemory(most=4)
    for number, score in enumerate(scores, 1):
        kept.add(read_decision(10 * number, number, decision(number, score)))
    return kept


def listed(kept: DecisionMemory, wanted: DecisionFilter, before: int | None = None) -> tuple[list[object], int | None]:
    found, following = kept.page(wanted, before, 2)
    return [each.transaction_id for each, _ in found], following


def test_the_newest_decisions_come_first_in_pages() -> None:
    kept = memory(60, 60, 60, 60, 60)
    assert listed(kept, DecisionFilter()) == ([5, 4], 40)
    assert listed(kept, DecisionFilter(), 40) == ([3, 2], None)


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (DecisionFilter(outcome="NOTE"), [1]),
        (DecisionFilter(outcome="DECLINE"), [3]),
        (DecisionFilter(transaction="2"), [2]),
        (DecisionFilter(rule_id=3), [3]),
    ],
)
def test_a_filter_selects_decisions(wanted: DecisionFilter, ids: list[object]) -> None:
    assert listed(memory(10, 60, 100), wanted) == (ids, None)


def test_a_correction_gives_a_transaction_another_score() -> None:
    feed = FeedMemory()
    feed.decisions.add(read_decision(1, 1, decision(7, 60)))
    members = {"alertId": "x", "kind": "RETRACTED", "correctedAt": 9, "ruleId": 1, "transactionId": 7}
    feed.add(read_correction(0, 0, json.dumps({**members, "score": 10, "outcome": "NOTE"}).encode()))
    feed.add(read_correction(1, 1, json.dumps({**members, "transactionId": 8}).encode()))
    ((found, corrected),), _ = feed.decisions.page(DecisionFilter(outcome="NOTE"), None, 9)
    assert corrected is not None
    assert (found.score, corrected.score, corrected.outcome) == (60, 10, "NOTE")
    assert feed.decisions.page(DecisionFilter(outcome="REVIEW"), None, 9) == ([], None)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"{",
        decision(1, outcome="MAYBE"),
        decision(1, score=2**60),
        decision(2**70),
        decision(1, alerts=0),
    ],
)
def test_any_other_record_is_undecodable(value: bytes) -> None:
    with pytest.raises(UNDECODABLE):
        read_decision(0, 0, value)
