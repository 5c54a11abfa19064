"""The state in a real topic: restored after any loss on the host, and refused by name after a loss in the topic.

The topic is compacted continuously. Its chunks are written by the tasks or in the transaction, as the test says.

By default, a test has one way to write chunks, and one run has every harm to the host. The long tests have the other
ways, and runs with one kind of harm each.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
)

from fraud_rules.configuration.project import Project
from fraud_rules.engine.state.head import decode_head
from fraud_rules.engine.state.store import HeapViews
from fraud_rules.engine.statelog import MemoryStateLog
from fraud_rules.errors import CheckpointForeign, Fenced, FraudError, StateDamaged, TopicUnsuitable
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.suitable import check_topics, faults_of_state
from fraud_rules.kafka.writer import OutRecord, keep_until_exit, last_record
from fraud_rules.logs.state_topic import HEAD
from fraud_rules.model.output import ViewRefresh
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.drill import DrillReport, drill
from fraud_rules.stream.driver.records import state_records
from fraud_rules.stream.driver.state_guard import check_state
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.worker import host_files, state_log
from tests.support.kafka.compaction import CLEANED_AT_ONCE, configure_state
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.kafka.records import read_all
from tests.support.kafka.state_damage import recreate_state, write_records
from tests.support.kafka.state_topics import state_topics
from tests.support.kafka.timed_topics import set_topic
from tests.support.rules import SCHEMA
from tests.support.streams.packed import blobs, run
from tests.support.streams.state_driver import Answer, Host, StateDriver
from tests.support.waiting import until

BATCHES = 45
PACED = 4
"""Up to this batch, the detector waits for a drill before each batch."""


@pytest.fixture(scope="module")
def shared(broker: Broker, project: Project) -> Iterator[OwnTopics]:
    """Topics of several detectors, which no test damages."""
    made = state_topics(broker, project, **CLEANED_AT_ONCE)
    yield made
    delete_topics(made.kafka, made.declared)


@pytest.fixture
def own(broker: Broker, project: Project) -> Iterator[OwnTopics]:
    """Topics that a test can damage."""
    made = state_topics(broker, project)
    yield made
    delete_topics(made.kafka, made.declared)


@pytest.fixture(scope="module")
def packed() -> list[bytes]:
    return blobs(batches=BATCHES, rows=40)


@pytest.fixture(scope="module")
def answers(packed: list[bytes]) -> list[Answer]:
    """The answers of an engine with its state in memory."""
    found = run(packed, MemoryStateLog(), [HeapViews()])
    assert sum(len(alerts) for alerts, *_ in found) > 30  # type: ignore[misc]
    return found


def detector(topics: OwnTopics, home: Path, name: str = "") -> StateDriver:
    return StateDriver(topics.kafka, topics.names, name or f"d{uuid.uuid4().hex[:8]}", home)


@pytest.fixture(
    params=[
        pytest.param(10_000, id="merged chunks by tasks"),
        pytest.param(1, id="chunks by tasks", marks=pytest.mark.long),
        pytest.param(65_536, id="chunks in the transaction", marks=pytest.mark.long),
    ]
)
def large_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "LARGE_BYTES", request.param)
    monkeypatch.setattr(host_files, "OWN_FILE_BYTES", request.param)


@pytest.fixture
def by_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks write every chunk."""
    monkeypatch.setattr(state_log, "LARGE_BYTES", 1)


Harm = Callable[[StateDriver, bytes], None]


def lost(driver: StateDriver, _: bytes) -> None:
    driver.host.lose()


def half_lost(driver: StateDriver, _: bytes) -> None:
    driver.host.lose_views()
    for path in driver.host.files()[::2]:
        path.unlink()


def damaged(driver: StateDriver, _: bytes) -> None:
    """One byte of each file differs."""
    driver.host.lose_views()
    for path in driver.host.files():
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def one_version_ahead(driver: StateDriver, blob: bytes) -> None:
    """The task of the next batch has run, and the detector was killed before it wrote the batch."""
    driver.task(blob)
    driver.writer()


@cache
def other_rows() -> list[bytes]:
    return blobs(batches=BATCHES, rows=40, seed=9)


def ahead_with_another_content(driver: StateDriver, blob: bytes) -> None:
    """As above, with other rows than those that the repeated batch has."""
    driver.task(other_rows()[driver.batch_id])
    driver.writer()


HARMS = (lost, half_lost, damaged, one_version_ahead, ahead_with_another_content)


def each_in_turn(driver: StateDriver, blob: bytes) -> None:
    HARMS[driver.batch_id // 9 % len(HARMS)](driver, blob)


@pytest.mark.usefixtures("large_bytes")
@pytest.mark.parametrize("harm", [each_in_turn, *(pytest.param(each, marks=pytest.mark.long) for each in HARMS)])
def test_the_answers_do_not_depend_on_the_files_of_the_host(
    harm: Harm, shared: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    driver, found = detector(shared, tmp_path), []
    for batch, blob in enumerate(packed):
        if batch % 9 == 5:
            harm(driver, blob)
        found.append(driver.evaluate(blob))
    assert found == answers


@pytest.mark.usefixtures("large_bytes")
def test_a_host_that_returns_with_an_older_view_restores_the_state(
    shared: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    driver, other = detector(shared, tmp_path), Host(tmp_path / "other")
    hosts = [other if batch % 11 < 5 else driver.host for batch in range(BATCHES)]
    assert [driver.evaluate(blob, host) for blob, host in zip(packed, hosts, strict=True)] == answers


@pytest.mark.usefixtures("large_bytes")
def test_a_host_that_is_behind_reads_only_the_records_that_it_lacks(
    own: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    driver, other = detector(own, tmp_path), Host(tmp_path / "other")
    found = [driver.evaluate(blob) for blob in packed[:40]]
    size_bytes = state_bytes(driver)
    found.append(driver.evaluate(packed[40], other))
    assert (driver.refreshed, driver.fetched_bytes) == (ViewRefresh.REBUILD, size_bytes)
    lacking = state_bytes(driver) - size_bytes
    found.append(driver.evaluate(packed[41]))
    assert driver.refreshed is ViewRefresh.CATCH_UP
    assert 0 < driver.fetched_bytes <= 3 * lacking < size_bytes / 4
    driver.host.lose_views()
    found.append(driver.evaluate(packed[42]))
    assert (driver.refreshed, driver.fetched_bytes) == (ViewRefresh.REBUILD, 0), "the files of the host suffice"
    assert found == answers[:43]


def state_bytes(driver: StateDriver) -> int:
    """The size of all records in the topic."""
    await_settled(driver.kafka, [driver.topic.topic])
    messages = read_all(driver.kafka.bootstrap, driver.topic.topic)
    return sum(len(message.value() or b"") for message in messages)


@pytest.mark.usefixtures("large_bytes")
def test_a_host_that_is_behind_and_has_lost_a_chunk_reads_the_whole_log(
    own: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_files, "OWN_FILE_BYTES", 1)
    driver, other = detector(own, tmp_path), Host(tmp_path / "other")
    found = [driver.evaluate(blob) for blob in packed[:30]]
    found.append(driver.evaluate(packed[30], other))
    for path in driver.host.files()[::2]:
        if path.name != "frames":
            path.unlink()
    driver.host.lose_views()
    size_bytes = state_bytes(driver)
    found.append(driver.evaluate(packed[31]))
    assert driver.fetched_bytes > size_bytes
    assert found == answers[:32]


@pytest.mark.usefixtures("by_tasks")
@pytest.mark.parametrize(
    "loses_host", [pytest.param(True, id="host lost"), pytest.param(False, id="host kept", marks=pytest.mark.long)]
)
def test_a_chunk_without_a_head_is_not_used_and_the_next_start_deletes_it(
    loses_host: bool, shared: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    driver, found = detector(shared, tmp_path), []
    for batch, blob in enumerate(packed[:20]):
        if batch in (0, 7, 12):
            ahead_with_another_content(driver, blob)
            if loses_host:
                driver.host.lose()
            orphans = driver.topic.read(0).keys() - (named(driver) if batch else set())
            assert len(orphans) == 1
            if batch:
                report = drill(driver.kafka, driver.settings, SCHEMA)
                assert (report.faults, report.orphans) == ([], 1)
                assert 0 < report.live_bytes < report.bytes_read
        found.append(driver.evaluate(blob))
        if batch in (0, 7, 12):
            await_settled(shared.kafka, [driver.topic.topic])
            assert driver.topic.read(0).keys() == named(driver), "the orphan is deleted"
    assert found == answers[:20]


@pytest.mark.usefixtures("by_tasks")
def test_a_repeated_batch_keeps_the_chunk_that_its_first_task_wrote(
    shared: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    driver, found = detector(shared, tmp_path), []
    for blob in packed[:6]:
        one_version_ahead(driver, blob)
        driver.host.lose()
        found.append(driver.evaluate(blob))
        driver.host.lose()
    assert found == answers[:6]
    await_settled(shared.kafka, [driver.topic.topic])
    assert driver.topic.read(0).keys() == named(driver)


@pytest.mark.usefixtures("by_tasks")
def test_a_suspended_task_sends_no_chunk_once_its_batch_is_written(
    shared: OwnTopics, packed: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, elsewhere = detector(shared, tmp_path), Host(tmp_path / "elsewhere")
    driver.evaluate(packed[0], elsewhere)
    monkeypatch.setattr(state_log, "_SLOW_S", 0.0)
    _, suspended = driver.evaluated(packed[1], elsewhere)
    driver.evaluate(packed[2])
    await_settled(driver.kafka, [driver.topic.topic])
    with pytest.raises(Fenced, match="another process has taken over"):
        suspended.delta()
    assert driver.topic.read(0).keys() == named(driver)


def named(driver: StateDriver) -> set[str]:
    """The head and the chunks that it names."""
    await_settled(driver.kafka, [driver.topic.topic])
    return {HEAD, *(info.name for info in decode_head(driver.topic.read(0)[HEAD]).chunks)}


@pytest.mark.usefixtures("large_bytes")
def test_a_head_of_an_aborted_transaction_is_not_used(
    shared: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    driver, found = detector(shared, tmp_path), []
    for batch, blob in enumerate(packed[:12]):
        if batch % 6 == 4:
            _, delta = driver.task(blob)
            begin_transaction(driver, list(state_records([delta], driver.topic)))
            driver.writer()  # the next driver aborts the transaction
            driver.host.lose()
        found.append(driver.evaluate(blob))
    assert found == answers[:12]


def begin_transaction(driver: StateDriver, records: list[OutRecord]) -> Producer:
    """Write records, and leave the transaction open."""
    producer = Producer(
        {**driver.kafka.confluent({}), "transactional.id": f"fraud-rules-{driver.settings.detector}", "log_level": 0}
    )
    keep_until_exit(producer)
    producer.init_transactions()
    producer.begin_transaction()
    for record in records:
        producer.produce(record.topic, record.value, record.key, record.partition)
    assert producer.flush(60.0) == 0
    return producer


def test_a_task_waits_until_the_transaction_of_its_version_is_readable(
    shared: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    driver = detector(shared, tmp_path)
    assert driver.evaluate(packed[0]) == answers[0]
    _, delta = driver.task(packed[1])
    producer = begin_transaction(driver, list(driver.records(delta)))
    driver.batch_id += 1
    driver.host.lose()
    with ThreadPoolExecutor(1) as others:
        restored = others.submit(driver.task, packed[2])
        with pytest.raises(TimeoutError):
            restored.result(0.5)
        producer.commit_transaction()
        assert restored.result(180.0)[0] == answers[2]


def test_two_detectors_in_one_topic_do_not_see_each_other(
    shared: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    name = f"d{uuid.uuid4().hex[:8]}"
    first, second = detector(shared, tmp_path, name), detector(shared, tmp_path, name + "2")
    for batch in range(8):
        assert first.evaluate(packed[batch]) == answers[batch]
        if batch % 2:
            assert second.evaluate(packed[batch // 2]) == answers[batch // 2]
        for each in (first, second):
            each.host.lose()
    for each in (first, second):
        assert each.topic.read(0).keys() == named(each)


@pytest.mark.long
@pytest.mark.usefixtures("large_bytes")
def test_a_compacted_topic_restores_equally(
    shared: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    driver, found = detector(shared, tmp_path), []
    for batch, blob in enumerate(packed):
        found.append(driver.evaluate(blob))
        if batch % 20 == 19:
            await_compacted(driver, blob)
            driver.host.lose()
    assert found == answers


def await_compacted(driver: StateDriver, blob: bytes) -> None:
    """Wait until the broker has removed all but the newest heads."""
    heads = driver.topic.key_of(0, HEAD)

    def is_compacted() -> bool:
        # A record of another key lets the broker begin a new segment, because only older segments are compacted.
        write_records_of_another(driver)
        messages = read_all(driver.kafka.bootstrap, driver.topic.topic)
        return sum(message.key() == heads for message in messages) <= 3

    until(is_compacted, "the topic is compacted", every_s=0.5)


def write_records_of_another(driver: StateDriver) -> None:
    producer = Producer(driver.kafka.confluent({"log_level": 0}))
    producer.produce(driver.topic.topic, b"\0", b"another/0/head", partition=0)
    assert producer.flush(60.0) == 0


Loss = Callable[[OwnTopics, StateDriver], None]


def head_missing(topics: OwnTopics, driver: StateDriver) -> None:
    write_records(topics, driver.topic, {(0, HEAD): None})


def chunk_missing(topics: OwnTopics, driver: StateDriver) -> None:
    write_records(topics, driver.topic, {(0, some_chunk(driver)): None})


def some_chunk(driver: StateDriver) -> str:
    return min(named(driver) - {HEAD})


def chunk_damaged(topics: OwnTopics, driver: StateDriver) -> None:
    name = some_chunk(driver)
    content = bytearray(driver.topic.read(0)[name])
    content[len(content) // 2] ^= 1
    write_records(topics, driver.topic, {(0, name): bytes(content)})


@pytest.mark.parametrize(
    ("lose", "says"),
    [
        (head_missing, "does not hold version 10 of key group 0"),
        (chunk_missing, "has lost chunk"),
        (chunk_damaged, "another content"),
    ],
)
def test_a_lost_record_is_named_by_the_task_and_by_the_drill(
    lose: Loss, says: str, own: OwnTopics, packed: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_log, "_WAIT_S", 3_600.0)  # no transaction is open, so no task waits
    driver = detector(own, tmp_path)
    for blob in packed[:10]:
        driver.evaluate(blob)
    assert drill(driver.kafka, driver.settings, SCHEMA).right
    lose(own, driver)
    await_settled(own.kafka, [driver.topic.topic])
    driver.task(packed[10])  # the files of this host suffice
    driver.host.lose()
    with pytest.raises(StateDamaged, match=says):
        driver.task(packed[10])
    report = drill(driver.kafka, driver.settings, SCHEMA)
    assert not report.right
    assert report.faults[0].startswith("key group 0: ")


def test_a_drill_is_right_while_the_detector_writes(
    own: OwnTopics, packed: list[bytes], answers: list[Answer], tmp_path: Path
) -> None:
    driver = detector(own, tmp_path)
    found, done = [driver.evaluate(packed[0])], threading.Event()
    reports: list[DrillReport] = []

    def work() -> None:
        for number, blob in enumerate(packed[1:], 1):
            if number < PACED:
                until(lambda wanted=number: len(reports) >= wanted, "a drill has ended")
            found.append(driver.evaluate(blob))
        done.set()

    with ThreadPoolExecutor(1) as others:
        working = others.submit(work)
        while not done.is_set() and not working.done():
            reports.append(drill(own.kafka, driver.settings, SCHEMA))
        working.result()
    assert found == answers
    assert [report.faults for report in reports] == [[]] * len(reports)
    assert len({report.batch_id for report in reports}) > 1
    await_settled(own.kafka, [driver.topic.topic, own.names.detector_marker])
    last = drill(own.kafka, driver.settings, SCHEMA)
    assert (last.faults, last.batch_id, last.key_groups) == ([], BATCHES - 1, 1)
    assert min(last.chunks, last.grouping_states, last.events) > 0
    assert last.live_bytes == last.bytes_read > last.orphans == 0
    assert last.log_bytes is None or last.log_bytes > last.live_bytes


def test_a_drill_without_a_state_is_named(own: OwnTopics, tmp_path: Path) -> None:
    with pytest.raises(StateDamaged, match="no state yet"):
        drill(own.kafka, detector(own, tmp_path).settings, SCHEMA)


def admin_of(topics: OwnTopics) -> AdminClient:
    return AdminClient({"bootstrap.servers": topics.bootstrap, "log_level": 0})


def recreated(topics: OwnTopics, _: StateDriver) -> None:
    recreate_state(topics)


def truncated(topics: OwnTopics, _: StateDriver) -> None:
    """Remove the oldest records, which Kafka allows in a topic that it may delete from."""
    configure_state(topics, cleanup_policy="compact,delete")
    admin = admin_of(topics)

    def is_removed() -> bool:
        place = TopicPartition(topics.names.detector_state, 0, 3)
        (removed,) = admin.delete_records([place]).values()
        try:
            removed.result()
        except KafkaException as error:  # the change is not in effect yet
            assert "POLICY_VIOLATION" in str(error), error
            return False
        return True

    until(is_removed, "records are removed")


def deleted(topics: OwnTopics, _: StateDriver) -> None:
    delete_topics(topics.kafka, [topic for topic in topics.declared if topic.name == topics.names.detector_state])


def more_partitions(topics: OwnTopics, _: StateDriver) -> None:
    admin = admin_of(topics)
    for done in admin.create_partitions([NewPartitions(topics.names.detector_state, 3)]).values():
        done.result()


def ends_earlier(topics: OwnTopics, driver: StateDriver) -> None:
    """The marker was restored without the topic: it names offsets that the topic has not reached."""
    known = marker_of(driver)
    assert known.state is not None
    later = replace_state(known, ends=[end + 1_000 for end in known.state.ends])
    record = OutRecord(topics.names.detector_marker, later.encode(), driver.settings.detector.encode())
    driver.writer().write([record])


def replace_state(marker: Marker, **changed: Any) -> Marker:
    assert marker.state is not None
    return msgspec.structs.replace(marker, state=msgspec.structs.replace(marker.state, **changed))


def marker_of(driver: StateDriver) -> Marker:
    names = driver.settings.topics
    await_settled(driver.kafka, [names.detector_marker])
    text = last_record(driver.kafka, names.detector_marker, driver.settings.detector.encode())
    assert text is not None
    return Marker.decode(text)


@pytest.mark.parametrize(
    ("lose", "says"),
    [
        (recreated, "was created again"),
        (truncated, "-0 was truncated: it has the offsets 3 to"),
        (ends_earlier, "-0 was truncated"),
        (deleted, "was deleted"),
        (more_partitions, "has 3 partitions, but the state was written with 2"),
    ],
)
def test_a_lost_topic_is_refused_by_name(
    lose: Loss, says: str, own: OwnTopics, packed: list[bytes], tmp_path: Path
) -> None:
    driver = detector(own, tmp_path)
    for blob in packed[:3]:
        driver.evaluate(blob)
    check_state(own.kafka, driver.settings, marker_of(driver))
    lose(own, driver)
    marker = marker_of(driver)
    refusal = until(lambda: refused(own, driver, marker), "the loss is visible")
    assert says in str(refusal)
    assert own.names.detector_state in str(refusal)
    assert "fraud detector rebuild" in str(refusal)


def test_records_from_before_a_change_of_partitions_are_not_read(own: OwnTopics, tmp_path: Path) -> None:
    before = detector(own, tmp_path)
    assert (before.topic.partitions, before.topic.partition_of(3)) == (2, 1)
    write_records(own, before.topic, {(3, HEAD): b"old", (3, "1-a"): b"chunk"})
    more_partitions(own, before)
    after = replace(before.topic, partitions=3)
    write_records(own, after, {(3, HEAD): b"new"})
    await_settled(own.kafka, [after.topic])
    assert after.read_all() == {3: {HEAD: b"new"}}
    assert after.read(3) == {HEAD: b"new"}
    keys = {after.key_of(3, HEAD), after.key_of(3, "1-a")}
    assert set(after.stale_keys()) == {(1, key) for key in keys}


def refused(topics: OwnTopics, driver: StateDriver, marker: Marker) -> FraudError | None:
    try:
        check_state(topics.kafka, driver.settings, marker)
    except StateDamaged as error:
        return error
    return None


def fault_of(topics: OwnTopics) -> str:
    """The fault that the check of the topics names, as soon as the broker shows a changed setting."""

    def found() -> str:
        try:
            check_topics(topics.kafka, topics.names)
        except TopicUnsuitable as error:
            return str(error)
        return ""

    return until(found, "the broker shows the change")


def test_a_state_with_another_number_of_key_groups_is_refused(
    shared: OwnTopics, packed: list[bytes], tmp_path: Path
) -> None:
    driver = detector(shared, tmp_path)
    driver.evaluate(packed[0])
    with pytest.raises(CheckpointForeign, match="the state of 1 key groups, but the settings say 4"):
        check_state(shared.kafka, replace(driver.settings, key_groups=4), marker_of(driver))


@pytest.mark.parametrize(
    ("setting", "value", "fault"),
    [
        ("cleanup_policy", "delete", "cleanup.policy=delete, so Kafka may remove state in use"),
        ("cleanup_policy", "compact,delete", "cleanup.policy=compact,delete"),
        ("max_message_bytes", "1048588", "max.message.bytes=1048588, too little for a chunk"),
    ],
)
def test_settings_that_would_lose_state_are_refused(setting: str, value: str, fault: str, topics: OwnTopics) -> None:
    check_topics(topics.kafka, topics.names)
    configure_state(topics, **{setting: value})

    assert f"{topics.names.detector_state} has {fault}" in fault_of(topics)


def test_a_topic_of_markers_without_compaction_is_refused(topics: OwnTopics) -> None:
    """A detector that is stopped for longer than the retention would lose its marker."""
    name = topics.names.detector_marker
    set_topic(topics.bootstrap, name, "cleanup.policy", "delete")
    assert f"{name} has cleanup.policy=delete, so Kafka may remove markers in use; set compact" in fault_of(topics)


@pytest.mark.parametrize("role", ["warm_ups", "quarantine"])
def test_a_topic_of_large_records_with_a_low_limit_is_refused(role: str, topics: OwnTopics) -> None:
    name = getattr(topics.names, role)
    set_topic(topics.bootstrap, name, "max.message.bytes", "1048588")
    said = f"{name} has max.message.bytes=1048588, too little for a large record; set 8388608"
    assert said in fault_of(topics)


def test_the_declared_settings_of_the_state_have_no_fault() -> None:
    assert not list(faults_of_state("state", {"cleanup.policy": "compact", "max.message.bytes": "8388608"}))
    assert len(list(faults_of_state("state", {}))) == 2


def test_a_marker_of_an_earlier_version_is_refused_with_the_remedy(shared: OwnTopics, tmp_path: Path) -> None:
    """Such a version kept the state in its checkpoint. A start must not continue with an empty state."""
    driver = detector(shared, tmp_path)
    marker = Marker("query", 7, {}, Pin(7, 0))
    with pytest.raises(StateDamaged, match=r"an earlier version wrote batch 7 .*fraud detector rebuild"):
        check_state(shared.kafka, driver.settings, marker)
