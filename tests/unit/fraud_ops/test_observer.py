"""The watch over a detector, against a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from fraud_ops.observer import DetectorObserver
from fraud_ops.verdicts.health import assess_detector
from fraud_ops.verdicts.observation import DetectorObservation
from fraud_ops.verdicts.verdict import Health, Verdict
from fraud_rules.configuration.settings import DetectorSettings, HealthSettings
from fraud_rules.deploy.attempt import AgentStatus, AttemptPhase, AttemptStatus, Supervision
from fraud_rules.deploy.deployment_log import DeploymentLog, write_supervision
from fraud_rules.kafka.decoding import UNREADABLE_RECORDS
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.runtime.clock import now_ms
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.operations.observations import DETECTOR, progress
from tests.support.operations.observations import running as world_running
from tests.support.waiting import until

TOPIC_ROLES = ("detector_attempts", "detector_intents", "detector_progress", "rules", "transactions")

UNREADABLE = (
    b"\x00\xffgarbage",
    b'{"detector": "x",',
    b"[" * 100_000,
    b'{"atMs": 1E+999999999999999999999}',
    b'{"version": 99, "phase": "HIBERNATING"}',
    None,
)


@pytest.fixture
def watch(topics: OwnTopics) -> Iterator[DetectorObserver]:
    with DetectorObserver(topics.kafka, DetectorSettings(detector=DETECTOR, topics=topics.names)) as watch:
        yield watch


def counted(topic: str) -> float:
    return UNREADABLE_RECORDS.labels(topic)._value.get()


def test_an_unreadable_record_hides_none_before_or_behind_it(topics: OwnTopics, watch: DetectorObserver) -> None:
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
    seen = watch.observe()
    assert seen.fault is None
    assert seen.deployment.agent is not None and seen.deployment.agent[1].agent == "agent-1"
    assert seen.deployment.supervision is not None and seen.deployment.supervision[1].supervisor == "airflow"
    assert {name: each.status for name, each in seen.deployment.attempts.items()} == {"a0": status}
    assert seen.progress is not None and seen.progress.progress == progress()
    assert len(seen.intents.unreadable) == len(UNREADABLE)
    assert counted(records) == len(UNREADABLE)
    assert counted(attempts) == 4 * (len(UNREADABLE) - 1)
    produce(topics.bootstrap, records, [*UNREADABLE, msgspec.json.encode(progress(lag=5))], key=DETECTOR.encode())
    lag = until(lambda: (seen := watch.observe()).progress and seen.progress.progress.lag, "the next batch is seen")
    assert lag == 5


def test_the_watch_sums_up_rows_and_the_newest_append_time(topics: OwnTopics, watch: DetectorObserver) -> None:
    def after(*batches: BatchProgress) -> DetectorObservation:
        values = [msgspec.json.encode(each) for each in batches]
        produce(topics.bootstrap, topics.names.detector_progress, values, key=DETECTOR.encode())
        newest = batches[-1].batch_id
        return until(
            lambda: (seen := watch.observe()).progress and seen.progress.progress.batch_id == newest and seen, "seen"
        )

    idle = msgspec.structs.replace(progress(), batch_id=1)
    seen = after(idle)
    assert seen.traffic is not None and (seen.traffic.rows, seen.arrived_ms) == (0, None)
    produce(topics.bootstrap, topics.names.transactions, [b"{}"])
    (sent,) = read_all(topics.bootstrap, topics.names.transactions)
    with DetectorObserver(topics.kafka, DetectorSettings(detector=DETECTOR, topics=topics.names)) as another:
        assert another.observe().arrived_ms == sent.timestamp()[1]
    read = msgspec.structs.replace(idle, batch_id=2, rows=3, quarantined=1, late=4, late_transactions=2)
    seen = after(read, msgspec.structs.replace(read, batch_id=3), msgspec.structs.replace(idle, batch_id=4))
    assert seen.traffic is not None
    assert (seen.traffic.rows, seen.traffic.quarantined, seen.traffic.late) == (6, 2, 4)
    assert seen.arrived_ms is not None and seen.arrived_ms >= sent.timestamp()[1]


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000])
def test_a_wrong_clock_of_this_host_changes_no_age(topics: OwnTopics, ahead_ms: int) -> None:
    """A detector that has stopped making batches is STALLED, and an agent that reports is not silent."""
    limits, settings = HealthSettings(stalled_ms=3_000), DetectorSettings(detector=DETECTOR, topics=topics.names)
    intent = world_running().intents[0].intent
    append_records(topics.kafka, topics.names.detector_intents, [(DETECTOR.encode(), intent.encode())])
    log = DeploymentLog.open(topics.kafka, topics.names.detector_attempts, DETECTOR)

    def host_ms() -> int:
        return now_ms() + ahead_ms

    def beat(begun_ms: int = now_ms() - 1_000) -> None:
        at_ms = now_ms()
        status = AttemptStatus(
            DETECTOR, intent.attempt_id, 0, AttemptPhase.RUNNING, at_ms, "a", "h", started_ms=begun_ms
        )
        log.write(AgentStatus(DETECTOR, "a", "h", "c0de", at_ms, 0), [status])

    beat()
    produce(topics.bootstrap, topics.names.detector_progress, [msgspec.json.encode(progress())], key=DETECTOR.encode())
    note = Supervision(DETECTOR, "here", host_ms(), "HEALTHY", 0)
    write_supervision(topics.kafka, topics.names.detector_attempts, note)
    with DetectorObserver(topics.kafka, settings, host_ms, supervisor="here") as watch:

        def verdict() -> Verdict:
            seen = watch.observe()
            return assess_detector(seen, limits, seen.at_ms, "here")

        first = verdict()
        assert first.health in (Health.CLOCK_SKEW, Health.STALLED), first
        beat()
        stalled = until(lambda: (found := verdict()).health is Health.STALLED and found, "it is STALLED")
        assert "Airflow's clock is 36" in stalled.reasons[-1] or "Airflow's clock is 35" in stalled.reasons[-1]
        assert abs(watch.observe().at_ms - now_ms()) < 3_000
