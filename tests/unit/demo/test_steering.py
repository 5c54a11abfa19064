"""The demo's traffic, controlled by request files in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fraud_demo.fraud_patterns import FRAUDS
from fraud_demo.sender import Sender
from fraud_demo.steering import Steering, TrafficState
from fraud_demo.traffic import TrafficSettings, planted_fraud
from fraud_rules.kafka.consume import read_topic
from tests.support.kafka.own_topics import OwnTopics
from tests.support.waiting import until


def test_requests_are_read_once_and_invalid_ones_are_ignored(tmp_path: Path) -> None:
    steering = Steering(tmp_path / "steering")
    assert steering.state() is None and steering.speed() is None and not list(steering.requests())
    steering.write_state(TrafficState(100))
    steering.set_speed(7)
    request = steering.plant("huge-payment")
    (steering.folder / "x.request").write_bytes(b"nonsense")
    (steering.folder / "y.request").write_bytes(b'{"pattern": "nonsense", "label": "y"}')
    assert steering.state() == TrafficState(100)
    assert steering.speed() == 7
    assert list(steering.requests()) == [request]
    assert not list(steering.requests())
    steering.end()
    assert steering.state() is None


def test_every_pattern_can_be_planted_by_itself() -> None:
    for pattern in FRAUDS:
        records = list(planted_fraud(pattern, "mine", 1_700_000_000_000, seed=5))
        assert records and {record.planted for record in records} == {"mine"}
        assert len({record.transaction_id for record in records}) == len(records)


def test_traffic_changes_its_rate_and_includes_a_requested_fraud(topics: OwnTopics, tmp_path: Path) -> None:
    steering = Steering(tmp_path)
    sender = Sender(topics.kafka, topics.names.transactions, TrafficSettings(rate_per_s=20), steering)
    sender.start()
    try:
        until(lambda: steering.state() == TrafficState(20), "it says how fast it is")
        steering.set_speed(0)
        until(lambda: steering.state() == TrafficState(0), "it stands still")
        steering.plant("huge-payment")
        found = until(lambda: _huge(topics), "the fraud is in the traffic")
        assert len(found) == 1
        sent = sender.sent.records
        steering.set_speed(500)
        until(lambda: sender.sent.records > sent + 100, "it goes on")
    finally:
        sender.stop()
    assert steering.state() is None


def _huge(topics: OwnTopics) -> list[float]:
    records = read_topic(topics.kafka, topics.names.transactions)
    amounts = [json.loads(each.value or b"{}")["paymentAmount"] for every in records.values() for each in every]
    return [amount for amount in amounts if amount > 50_000]


def test_traffic_that_ends_by_an_unexpected_error_reports_it(topics: OwnTopics, tmp_path: Path) -> None:
    in_the_way = tmp_path / "steering"
    in_the_way.write_text("a file where the folder belongs")
    sender = Sender(topics.kafka, topics.names.transactions, TrafficSettings(rate_per_s=20), Steering(in_the_way))
    sender.start()
    with pytest.raises(OSError, match="steering"):
        until(sender.ended, "the traffic ends")
