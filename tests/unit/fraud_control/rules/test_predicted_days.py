"""The interval of a prediction, over 30 generated days of a stable stream that the engine evaluates with ten rules."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from fraud_control.domain.prediction import predicted
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.replay.replay import replay
from tests.support.conformance import load_schema
from tests.support.records.payments import sample_payment
from tests.support.rules import count_rule, sum_rule

DAY_MS = 86_400_000
FIRST_DAY = 20_000
PAST_DAYS = 14
DAYS = 30
FEW, MANY = 300, 600
"""The payments of a mean day, also in the long run."""

RULES = (
    sum_rule(1, aggregatorFunctionType="MAX", limit=900, windowMinutes=1),
    sum_rule(2, aggregatorFunctionType="MAX", limit=2_500, windowMinutes=1),
    sum_rule(3, limit=1_200, windowMinutes=60),
    sum_rule(4, limit=2_000, windowMinutes=240, cooldownSeconds=7_200),
    sum_rule(5, limit=3_000, windowMinutes=1_440, cooldownSeconds=43_200),
    sum_rule(6, groupingKeyNames=["payeeId", "beneficiaryId"], limit=600, windowMinutes=1_440),
    count_rule(7, limit=3, windowMinutes=120),
    count_rule(8, limit=5, windowMinutes=720, cooldownSeconds=3_600),
    count_rule(9, filter="paymentAmount > 400", limit=2, windowMinutes=720),
    count_rule(10, filter="paymentType = 'CSH'", limit=4, windowMinutes=1_440),
)


def payments(seed: int, mean: int) -> list[dict[str, Any]]:
    """Payments at random times of the past days and the compared ones. Few payees make many of them. The number of a
    day's payments and the share of each payee vary as in life: by more than chance, but around the same mean."""
    chance = np.random.default_rng(seed)
    shares = 1 / np.arange(1, 121)
    found: list[tuple[int, int, int, float]] = []
    for day in range(FIRST_DAY, FIRST_DAY + PAST_DAYS + DAYS):
        count = int(chance.poisson(mean * chance.gamma(400, 1 / 400)))
        active = shares * chance.gamma(20, 1 / 20, len(shares))
        times = day * DAY_MS + chance.integers(0, DAY_MS, count)
        payees = chance.choice(len(shares), count, p=active / active.sum())
        others = chance.integers(0, 20, count)
        amounts = chance.lognormal(4.5, 1.2, count).round(2)
        found += zip(times.tolist(), payees.tolist(), others.tolist(), amounts.tolist(), strict=True)
    return [
        sample_payment(
            number,
            at_ms,
            payeeId=payee,
            beneficiaryId=other,
            paymentType="CSH" if number % 3 else "CRD",
            paymentAmount=f"{amount:.2f}",
        )
        for number, (at_ms, payee, other, amount) in enumerate(sorted(found))
    ]


def alerts_by_day(stream: list[dict[str, Any]]) -> dict[int, list[int]]:
    """The engine's alerts of each day, by rule."""
    start_ms = FIRST_DAY * DAY_MS
    rules = [{"at": start_ms, "rule": rule} for rule in RULES]
    steps = [*rules, *({"at": tx["eventTime"], "tx": tx} for tx in stream)]
    days = {tx["transactionId"]: tx["eventTime"] // DAY_MS for tx in stream}
    found = replay({"steps": steps, "keyGroups": 1}, load_schema("default"), DetectorSettings())
    assert found["rejected"] == [] and found["quarantine"] == []
    counts = Counter((alert["ruleId"], days[alert["transactionId"]]) for alert in found["alerts"])
    every = range(FIRST_DAY, FIRST_DAY + PAST_DAYS + DAYS)
    return {rule["ruleId"]: [counts[rule["ruleId"], day] for day in every] for rule in RULES}


def days_inside(seed: int, mean: int) -> tuple[int, dict[int, tuple[float, int]]]:
    """How many of the days of all rules are inside of the interval; the mean and the days inside by rule."""
    found = {}
    for rule_id, counts in alerts_by_day(payments(seed, mean)).items():
        prediction = predicted("", counts[:PAST_DAYS])
        assert prediction is not None
        found[rule_id] = prediction.per_day, sum(map(prediction.covers, counts[PAST_DAYS:]))
    return sum(inside for _, inside in found.values()), found


def test_the_interval_holds_on_80_to_98_of_100_days() -> None:
    inside, by_rule = days_inside(1, FEW)
    assert min(per_day for per_day, _ in by_rule.values()) > 0, "each rule alerts"
    assert 0.80 <= inside / (len(RULES) * DAYS) <= 0.98, by_rule


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(1, 21))
def test_the_interval_holds_for_other_streams(seed: int) -> None:
    inside, by_rule = days_inside(seed, MANY)
    assert 0.80 <= inside / (len(RULES) * DAYS) <= 0.98, by_rule
