"""Records for every topic that no program of this product writes."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from confluent_kafka import Producer

from fraud_rules.configuration.settings import TopicNames
from tests.support.kafka.own_topics import OwnTopics

UNREADABLE: Final[dict[str, bytes | None]] = {
    "garbage": b"\x00\xff\xfe\x80 no text",
    "empty": b"",
    "truncated": b'{"ruleId": 1,',
    "null": b"null",
    "number": b"17",
    "list": b"[]",
    "object": b"{}",
    "deep_lists": b"[" * 100_000,
    "deep_objects": b'{"payload":{"after":' * 20_000,
    "huge_exponents": b'{"ruleId":1E+999999999999999999999,"eventTime":1e400,"batchId":1E+999999999999999999999,'
    b'"op":"c","after":{"rule_id":1E+999999999999999999999,"limit":1E+999999999999999999999}}',
    "huge_integers": b'{"ruleId":%b,"ruleVersion":%b,"eventTime":%b,"time":%b,"latenessMs":%b,"rows":%b}'
    % ((b"9" * 5_000,) * 6),
    "long_time": b'{"transactionId":1,"eventTime":9223372036854775807,"time":9223372036854775807,"alertId":"x",'
    b'"ruleId":1,"ruleVersion":0,"key":{"payeeId":1},"status":"LIVE","operation":"ACTIVE","batchId":1,"day":"x"}',
    "newer_version": b'{"format":999,"version":999,"kind":"LATER","operation":"LATER","status":"LATER","phase":"LATER",'
    b'"ruleState":"LATER","detector":"detector","ruleId":7,"added":{"since":[1,{"then":null}]}}',
    "tombstone": None,
}


def append_unreadable(topics: OwnTopics, detectors: tuple[str, ...]) -> int:
    """Append each kind of unreadable record to each partition of each topic, with the keys that readers of these
    detectors select. Return the number of records."""
    roles = {getattr(topics.names, role.name): role.name for role in fields(TopicNames)}
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": topics.bootstrap, "message.max.bytes": 2_000_000, "linger.ms": 5})
    count = 0
    for topic in topics.declared:
        for partition in range(topic.partitions):
            for key in _keys(roles[topic.name], detectors):
                for kind, value in UNREADABLE.items():
                    producer.produce(
                        topic.name,
                        value,
                        key or kind.encode(),
                        partition,
                        on_delivery=lambda error, _: failed.append(error) if error is not None else None,
                    )
                    count += 1
    assert producer.flush(60) == 0
    assert not failed, failed[:3]
    return count


def _keys(role: str, detectors: tuple[str, ...]) -> list[bytes]:
    """The keys of a topic's readers; empty for a topic whose readers ignore the key."""
    if role == "detector_attempts":
        return [f"{name}/{part}".encode() for name in detectors for part in ("agent", "supervision", "attempt")]
    if role in ("detector_progress", "detector_marker", "detector_intents"):
        return [name.encode() for name in detectors]
    if role == "detector_state":
        return [f"{name}/{place}".encode() for name in detectors for place in ("0/0-00", "x/head", "")]
    return [b""]
