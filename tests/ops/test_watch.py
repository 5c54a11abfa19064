"""The watch over a detector, against a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from fraud_ops.hooks.watch import DetectorWatch
from fraud_rules.deployment.attempt import AgentStatus, AttemptPhase, AttemptStatus, Supervision
from fraud_rules.kafka.decoding import UNREADABLE_RECORDS
from fraud_rules.kafka.deployment_log import DeploymentLog, write_supervision
from fraud_rules.settings import DetectorSettings
from tests.conftest import OwnTopics
from tests.kafka_records import produce
from tests.ops.world import DETECTOR, progress
from tests.waiting import until

UNREADABLE = (
    b"\x00\xffgarbage",
    b'{"detector": "x",',
    b"[" * 100_000,
    b'{"atMs": 1E+999999999999999999999}',
    b'{"version": 99, "phase": "HIBERNATING"}',
    None,
)


@pytest.fixture
def watch(topics: OwnTopics) -> Iterator[DetectorWatch]:
    with DetectorWatch(topics.kafka, DetectorSettings(detector=DETECTOR, topics=topics.names), wait_ms=20) as watch:
        yield watch


def counted(topic: str) -> float:
    return UNREADABLE_RECORDS.labels(topic)._value.get()


def test_an_unreadable_record_hides_none_before_or_behind_it(topics: OwnTopics, watch: DetectorWatch) -> None:
    """In each topic that the watch reads, under each of its keys, as the newest record and between others."""
    attempts, records = topics.names.detector_attempts, topics.names.detector_progress
    status = AttemptStatus(DETECTOR, "a0", 0, AttemptPhase.RUNNING, 1, "agent-1", "host-1")
    log = DeploymentLog.open(topics.kafka, attempts, DETECTOR)
    log.write(AgentStatus(DETECTOR, "agent-1", "host-1", "c0de", 1, 0), [status])
    write_supervision(topics.kafka, attempts, Supervision(DETECTOR, "airflow", 1, "HEALTHY", 0))
    for key in ("agent", "supervision", "a0", "a1"):
        produce(topics.bootstrap, attempts, UNREADABLE, key=f"{DETECTOR}/{key}".encode())
    produce(topics.bootstrap, records, [*UNREADABLE, msgspec.json.encode(progress())], key=DETECTOR.encode())
    produce(topics.bootstrap, topics.names.detector_intents, UNREADABLE, key=DETECTOR.encode())
    seen = watch.look()
    assert seen.fault is None
    assert seen.deployment.agent is not None and seen.deployment.agent[1].agent == "agent-1"
    assert seen.deployment.supervision is not None and seen.deployment.supervision[1].supervisor == "airflow"
    assert {name: each.status for name, each in seen.deployment.attempts.items()} == {"a0": status}
    assert seen.progress is not None and seen.progress.progress == progress()
    assert len(seen.intents.unreadable) == len(UNREADABLE)
    assert counted(records) == len(UNREADABLE)
    assert counted(attempts) == 4 * (len(UNREADABLE) - 1)
    produce(topics.bootstrap, records, [*UNREADABLE, msgspec.json.encode(progress(lag=5))], key=DETECTOR.encode())
    lag = until(lambda: (seen := watch.look()).progress and seen.progress.progress.lag, "the next batch is seen")
    assert lag == 5
