"""Generated traffic: it has the requested fractions, valid and malformed records, and planted frauds that alert."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from typing import Any

import pytest

from fraud_demo.fraud_patterns import FRAUDS, MAX_FRAUD_MS, SEED_FRAUDS
from fraud_demo.own_rules import LIMIT_RULE_ID, MULE_RULE_ID, SIGNALS_RULE_ID, TRAVEL_RULE_ID, own_records
from fraud_demo.start.installation import demo_schema
from fraud_demo.start.past_days import reported
from fraud_demo.traffic import MALFORMED, TrafficRecord, TrafficSettings, generate, planted_fraud
from fraud_rules.codec.rules.files import read_rule_file
from fraud_rules.codec.transactions.codec import DecodeResult, decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import ConfigError
from fraud_rules.model.limits import RecordLimits
from fraud_rules.replay.replay import replay
from tests.support.places import ROOT

CONFIG = ROOT / "config"
SCHEMA = demo_schema(Project(ROOT))
START_MS = 1_700_000_000_000


def traffic(**settings: Any) -> list[TrafficRecord]:
    return list(generate(TrafficSettings(**settings), START_MS))


def decode(records: list[TrafficRecord]) -> DecodeResult:
    n = len(records)
    due = [record.due_ms for record in records]
    return decode_transactions(
        RawTransactions.of([record.value for record in records], [0] * n, range(n), due), SCHEMA, RecordLimits()
    )


def test_the_same_seed_gives_the_same_traffic() -> None:
    asked = {"seconds": 20, "malformed": 0.1, "duplicates": 0.1, "late": 0.1, "out_of_order": 0.1}
    assert traffic(**asked) == traffic(**asked) != traffic(**asked, seed=2)


def test_records_come_at_the_rate_by_due_time() -> None:
    records = traffic(rate_per_s=250, seconds=10, first_fraud_s=100)
    due = [record.due_ms - START_MS for record in records]
    assert due == [4 * i for i in range(2_500)]


def test_without_seconds_it_does_not_end() -> None:
    assert len(list(islice(generate(TrafficSettings(), START_MS), 10_000))) == 10_000


def test_every_record_of_plain_traffic_is_accepted() -> None:
    records = traffic(rate_per_s=500, seconds=60)
    decoded = decode(records)
    assert decoded.rejects == []
    ids = decoded.batch.columns["transactionId"].values.tolist()
    assert ids == [record.transaction_id for record in records]
    assert len(set(ids)) == len(ids)


def test_the_fractions_asked_for() -> None:
    records = traffic(rate_per_s=1_000, seconds=20, malformed=0.05, duplicates=0.1, late=0.15, out_of_order=0.2)
    decoded = decode(records)
    batch = decoded.batch
    behind_ms = batch.append_ms - batch.columns["eventTime"].values
    copies = Counter(record.transaction_id for record in records if record.transaction_id is not None)
    n = 20_000
    assert len(decoded.rejects) == sum(record.transaction_id is None for record in records)
    assert len(decoded.rejects) / n == pytest.approx(0.05, abs=0.01)
    assert sum(times - 1 for times in copies.values()) / n == pytest.approx(0.1, abs=0.01)
    assert (behind_ms > 300_000).sum() / n == pytest.approx(0.15, abs=0.03)  # some are sent twice
    assert ((behind_ms > 0) & (behind_ms <= 300_000)).sum() / n == pytest.approx(0.2 + 0.1 * 0.65, abs=0.03)


def test_each_way_to_spoil_a_record_makes_it_bad_for_a_reason_of_its_own_kind() -> None:
    good = traffic(rate_per_s=1, seconds=1)[0]
    spoiled = [TrafficRecord(START_MS, spoil(good.value, START_MS), None) for spoil in MALFORMED]
    decoded = decode([good, *spoiled])
    assert len(decoded.rejects) == len(MALFORMED)
    assert len({reject.reason for reject in decoded.rejects}) >= 10


def test_payers_are_skewed_but_none_is_conspicuous() -> None:
    payers = Counter(json.loads(record.value)["payeeId"] for record in traffic(rate_per_s=1_000, seconds=100))
    ordinary = [times for payer, times in payers.most_common() if payer < 9_000_000_000]
    assert len(ordinary) > 15_000
    assert 20 < ordinary[0] < 80


def test_frauds_are_planted_in_turn_within_the_run() -> None:
    records = [record for record in traffic(seconds=60) if record.planted is not None]
    labels = list(dict.fromkeys(record.planted for record in records))
    assert labels == [f"{name}-{number}" for number, name in enumerate([*SEED_FRAUDS, *SEED_FRAUDS][:11], 1)]
    assert max(record.due_ms for record in records) < START_MS + 60_000
    for label in labels:
        due = [record.due_ms for record in records if record.planted == label]
        assert max(due) - min(due) <= MAX_FRAUD_MS
        assert [record.ends_fraud for record in records if record.planted == label] == [False] * (len(due) - 1) + [True]


def alerts_under_the_demos_rules(records: list[TrafficRecord]) -> list[dict[str, Any]]:
    rules = [rule.value for path in sorted((CONFIG / "rules").iterdir()) for rule in read_rule_file(path)]
    rules += [value for _, value in own_records()]
    steps: list[dict[str, Any]] = [{"at": START_MS - 1, "rule": json.loads(value)} for value in rules]
    steps += [{"at": record.due_ms, "tx": record.value.decode("utf-8", "replace")} for record in records]
    alerts: list[dict[str, Any]] = replay({"steps": steps}, SCHEMA, DetectorSettings())["alerts"]
    return alerts


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_every_planted_fraud_alerts_and_nothing_else_does(seed: int) -> None:
    """The traffic of the second seed is a long test, which looks for the same faults."""
    disorder = {"malformed": 0.01, "duplicates": 0.02, "late": 0.02, "out_of_order": 0.1}
    records = traffic(rate_per_s=200, seconds=70, seed=seed, payers=4_000, patterns=tuple(FRAUDS), **disorder)
    planted = {record.transaction_id: record.planted for record in records if record.planted is not None}
    assert {label.rpartition("-")[0] for label in planted.values()} == set(FRAUDS)
    alerts = alerts_under_the_demos_rules(records)
    assert {planted.get(alert["transactionId"]) for alert in alerts} == set(planted.values())


@pytest.mark.parametrize("pattern", SEED_FRAUDS)
def test_the_reported_payment_of_a_fraud_triggers_an_alert(pattern: str) -> None:
    records = list(planted_fraud(pattern, f"{pattern}-1", START_MS, seed=3))
    (label,) = reported(records)
    assert label in {alert["transactionId"] for alert in alerts_under_the_demos_rules(records)}


@pytest.mark.parametrize(
    ("pattern", "rules"),
    [
        ("tested-and-used-card", {8}),
        ("unusual-amount", {9}),
        ("listed-mule", {MULE_RULE_ID}),
        ("above-own-limit", {LIMIT_RULE_ID}),
        ("two-signals", {SIGNALS_RULE_ID}),
        ("impossible-travel", {TRAVEL_RULE_ID}),
    ],
)
def test_a_sequence_an_unusual_amount_and_a_listed_mule_alert_by_their_own_rules(pattern: str, rules: set[int]) -> None:
    """The last payment of the fraud triggers the only alert."""
    records = list(planted_fraud(pattern, "mine", START_MS, seed=3))
    alerts = alerts_under_the_demos_rules(records)
    assert {alert["ruleId"] for alert in alerts} == rules
    assert [alert["transactionId"] for alert in alerts] == [records[-1].transaction_id]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate_per_s": 0}, "the rate must be above 0"),
        ({"seconds": 0}, "the seconds must be above 0"),
        ({"payers": 0}, "1 to 10,000,000 payers"),
        ({"late": 0.6, "malformed": 0.5}, "their sum at most 1"),
        ({"late": -0.1}, "each fraction must be 0 to 1"),
        ({"fraud_every_s": 1}, "frauds must be 5000 ms apart"),
    ],
)
def test_impossible_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrafficSettings(**settings)
