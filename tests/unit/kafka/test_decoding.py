"""A record that no decoder can read is skipped, logged with its place, and counted once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from decimal import Decimal
from uuid import uuid4

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from fraud_rules.deploy.agent.metrics import AgentMetrics
from fraud_rules.kafka.decoding import UNREADABLE_RECORDS, decode_or_skip
from fraud_rules.kafka.reader import Record
from fraud_rules.logs.detector_status import decode_progress
from fraud_rules.logs.rule_status import decode_operation
from fraud_rules.stream.driver.metrics import DetectorMetrics

_UNREADABLE = {
    "garbage": b"\x00\xffgarbage",
    "truncated": b'{"ruleVersion": 1,',
    "not UTF-8": b'{"a": "\xff"}',
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "huge number": b"1E+999999999999999999999",
    "another type": b'{"ruleVersion": "x"}',
    "tombstone": None,
}


def record(value: bytes | None, offset: int = 7) -> Record:
    return Record(offset, 0, None, value)


def counted(topic: str) -> float:
    return UNREADABLE_RECORDS.labels(topic)._value.get()


@pytest.mark.parametrize(
    "decode", [json.loads, decode_operation, decode_progress, Decimal], ids=["json", "operation", "progress", "decimal"]
)
@pytest.mark.parametrize("value", _UNREADABLE.values(), ids=_UNREADABLE)
def test_an_unreadable_record_is_skipped(value: bytes | None, decode: Callable[[bytes], object]) -> None:
    topic = str(uuid4())
    found = decode_or_skip(topic, record(value), decode)
    assert found is None or (
        decode is json.loads and value in (_UNREADABLE["huge number"], _UNREADABLE["another type"])
    )


def test_it_is_logged_once_with_its_place_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    topic = str(uuid4())
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert decode_or_skip(topic, record(b"{", offset=41), decode_operation, partition=2) is None
    (line,) = caplog.messages
    assert line.startswith(f"{topic}-2: the record at offset 41 is skipped: DecodeError: ")
    assert counted(topic) == 1


def test_the_record_writes_nothing_of_its_own_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def fails(value: bytes) -> None:
        raise ValueError(f"no value: {value.decode()} " + "x" * 10_000)

    decode_or_skip(str(uuid4()), record("a\nERROR forged \x1b[2J é".encode()), fails)
    (line,) = caplog.messages
    assert line.isascii() and line.isprintable() and len(line) < 400


def test_an_error_that_is_not_about_the_record_is_raised() -> None:
    def fails(value: bytes) -> None:
        raise OSError(value)

    with pytest.raises(OSError, match="x"):
        decode_or_skip("topic", record(b"x"), fails)


def test_a_readable_record_is_decoded() -> None:
    topic = str(uuid4())
    assert decode_or_skip(topic, record(b'{"a": 1}'), msgspec.json.decode) == {"a": 1}
    assert counted(topic) == 0


@pytest.mark.parametrize("registry", [AgentMetrics("one").registry, DetectorMetrics("one").registry])
def test_agent_and_detector_serve_the_count(registry: CollectorRegistry) -> None:
    topic = str(uuid4())
    decode_or_skip(topic, record(b"{"), decode_operation)
    assert registry.get_sample_value("fraud_unreadable_records_total", {"topic": topic}) == 1
