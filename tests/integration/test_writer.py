"""The transactional writer and the readers of topics, on a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer

from fraud_rules.errors import BrokerUnavailable, ConfigError, Fenced, TopicUnsuitable, TransactionExpired
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.consume import await_settled, read_topic
from fraud_rules.kafka.reader import TopicReader, topic_ids
from fraud_rules.kafka.suitable import check_topics, faults_of, settings_of_topic
from fraud_rules.kafka.writer import BatchWriter, OutRecord, last_record
from fraud_rules.logs.rule_log import check_rule_log
from fraud_rules.runtime.process import start_detached
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce, read_all
from tests.support.kafka.timed_topics import date_by_producer, set_topic
from tests.support.processes.ends import await_end
from tests.support.waiting import until

TOPIC_ROLES = (
    "alerts", "decisions", "detector_marker", "detector_state", "quarantine", "rules", "rules_cdc", "transactions",
    "warm_ups",
)  # fmt: skip


def values(topics: OwnTopics, topic: str) -> list[bytes | None]:
    await_settled(topics.kafka, [topic])
    return [message.value() for message in read_all(topics.bootstrap, topic)]


def test_readers_see_a_whole_batch_in_order(topics: OwnTopics) -> None:
    writer = BatchWriter(topics.kafka, topics.prefix)
    writer.open()
    alerts = [OutRecord(topics.names.alerts, b"%d" % i, headers=[("h", b"1")]) for i in range(2_500)]
    assert writer.write([*alerts, OutRecord(topics.names.detector_marker, b"m", b"d")]) == 2_501
    assert values(topics, topics.names.alerts) == [b"%d" % i for i in range(2_500)]
    await_settled(topics.kafka, [topics.names.detector_marker])
    assert last_record(topics.kafka, topics.names.detector_marker, b"d") == b"m"


def test_the_plainest_consumer_of_kafka_python_reads_a_batch(topics: OwnTopics) -> None:
    writer = BatchWriter(topics.kafka, topics.prefix)
    writer.open()
    writer.write(OutRecord(topics.names.alerts, b"the same text again and again " * 20) for _ in range(100))
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
    with closing(KafkaConsumer(topics.names.alerts, bootstrap_servers=topics.bootstrap, **settings)) as consumer:
        assert [next(consumer).offset for _ in range(100)] == list(range(100))


def test_readers_see_no_record_of_a_failed_batch(topics: OwnTopics) -> None:
    def records() -> object:
        yield OutRecord(topics.names.alerts, b"first")
        raise ZeroDivisionError

    writer = BatchWriter(topics.kafka, topics.prefix)
    writer.open()
    with pytest.raises(ZeroDivisionError):
        writer.write(records())  # type: ignore[arg-type]
    successor = BatchWriter(topics.kafka, topics.prefix)
    successor.open()
    successor.write([OutRecord(topics.names.alerts, b"second")])
    assert values(topics, topics.names.alerts) == [b"second"]


def test_a_new_writer_fences_the_previous_one_of_its_name(topics: OwnTopics) -> None:
    first, second = BatchWriter(topics.kafka, topics.prefix), BatchWriter(topics.kafka, topics.prefix)
    first.open()
    first.write([OutRecord(topics.names.alerts, b"1")])
    second.open()
    with pytest.raises(Fenced, match=topics.prefix):
        first.write([OutRecord(topics.names.alerts, b"zombie")])
    second.write([OutRecord(topics.names.alerts, b"2")])
    assert values(topics, topics.names.alerts) == [b"1", b"2"]


SUSPENDED = """
import os, signal, sys
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.writer import BatchWriter, OutRecord

def records():
    yield OutRecord(topic, b"1")
    writer._producer.flush()
    os.kill(os.getpid(), signal.SIGSTOP)
    yield OutRecord(topic, b"2")

bootstrap, name, topic, timeout_s = sys.argv[1:]
writer = BatchWriter(KafkaConnection(bootstrap), name, timeout_s=float(timeout_s))
writer.open()
try:
    writer.write(records())
except FraudError as error:
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize(("replaced", "error"), [(False, TransactionExpired), (True, Fenced)])
def test_a_suspended_writer_tells_an_expired_transaction_from_a_takeover(
    replaced: bool, error: type[Fenced], topics: OwnTopics, tmp_path: Path
) -> None:
    """Only the first one is repaired by a new start without a decision."""
    timeout_s = "120" if replaced else "2"
    command = [sys.executable, "-c", SUSPENDED, topics.bootstrap, topics.prefix, topics.names.alerts, timeout_s]
    log = tmp_path / "log"
    suspended = start_detached(command, log)
    try:
        process = psutil.Process(suspended.pid)
        until(lambda: process.status() == psutil.STATUS_STOPPED, "the writer is suspended in its transaction")
        if replaced:
            BatchWriter(topics.kafka, topics.prefix).open()
        await_settled(topics.kafka, [topics.names.alerts])
        process.resume()
        assert await_end(suspended, log) == error.exit_code, log.read_text()
    finally:
        suspended.kill()
        suspended.wait()
    assert values(topics, topics.names.alerts) == []


FENCED_OFTEN = """
import sys
from fraud_rules.errors import Fenced
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.writer import BatchWriter, OutRecord

bootstrap, name, topic, rules = sys.argv[1:]
kafka = KafkaConnection(bootstrap)

def records():
    for count in range(20):
        if count == 3:
            writer._producer.flush()
            BatchWriter(kafka, name).open()
        yield OutRecord(topic, b"1" * 100)
        yield OutRecord(rules, b"2", b"%d" % count)

for _ in range(12):
    writer = BatchWriter(kafka, name)
    writer.open()
    try:
        writer.write(records())
    except Fenced:
        print("fenced", flush=True)
"""


def test_a_process_survives_its_fenced_writers(topics: OwnTopics) -> None:
    """librdkafka corrupts the heap if it destroys a fenced producer: without `keep_until_exit`, the process aborts."""
    names = topics.names
    command = [sys.executable, "-c", FENCED_OFTEN, topics.bootstrap, topics.prefix, names.transactions, names.rules]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (ended.returncode, ended.stdout.count("fenced")) == (0, 12), ended.stderr[-2_000:]


def test_a_record_above_the_limit_of_its_topic_fails_the_batch_by_name(topics: OwnTopics) -> None:
    writer = BatchWriter(topics.kafka, topics.prefix)
    writer.open()
    with pytest.raises(BrokerUnavailable):
        writer.write([OutRecord(topics.names.alerts, os.urandom(17_000_000))])
    assert values(topics, topics.names.alerts) == []


def test_a_topic_with_a_lower_limit_than_a_record_is_named_with_the_setting(topics: OwnTopics) -> None:
    writer = BatchWriter(topics.kafka, topics.prefix)
    writer.open()
    alerts = topics.names.alerts
    set_topic(topics.bootstrap, alerts, "max.message.bytes", "1000")
    until(lambda: settings_of_topic(topics.kafka, alerts)["max.message.bytes"] == "1000", "the limit is set")
    said = f"raise its max.message.bytes .*{alerts} "
    with pytest.raises(TopicUnsuitable, match=said):
        writer.write([OutRecord(alerts, os.urandom(2_000))])


def test_readers_wait_for_the_end_of_a_decided_transaction(topics: OwnTopics) -> None:
    """A writer continues before its transaction has ended in all partitions. Until then readers see none of it."""
    topic, writer = (
        topics.names.transactions,
        Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topics.prefix}),
    )
    writer.init_transactions()
    writer.begin_transaction()
    for partition in range(2):
        writer.produce(topic, b"1", partition=partition)
    writer.flush()
    await_settled(topics.kafka, [topics.names.alerts])
    with ThreadPoolExecutor(1) as others:
        settled = others.submit(await_settled, topics.kafka, [topic])
        with pytest.raises(TimeoutError):
            settled.result(1.0)
        writer.commit_transaction()
        settled.result(180.0)
    assert {partition: len(records) for partition, records in read_topic(topics.kafka, topic).items()} == {0: 1, 1: 1}


def test_a_read_ends_also_if_the_topic_ends_with_transaction_markers(topics: OwnTopics) -> None:
    topic = topics.names.rules
    produce(topics.bootstrap, topic, [b"0", b"1"])
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topics.prefix})
    producer.init_transactions()
    for value, ends in ((b"2", producer.commit_transaction), (b"gone", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        ends()
    await_settled(topics.kafka, [topic])
    with TopicReader(topics.kafka, topic) as reader:
        first, end = reader.ends()
        records = list(reader.read(first, end))
        assert (first, end) == (0, 6)
        assert [(record.offset, record.value) for record in records] == [(0, b"0"), (1, b"1"), (2, b"2")]
        assert [record.value for record in reader.read(1, 2)] == [b"1"]
        assert list(reader.read(4, 6)) == []
        assert all(record.append_ms > 1_600_000_000_000 for record in records)


def test_the_newest_record_of_a_key_is_found_among_others(topics: OwnTopics) -> None:
    topic = topics.names.detector_marker
    assert last_record(topics.kafka, topic, b"a") is None
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4")):
        produce(topics.bootstrap, topic, [value], key=key)
    assert last_record(topics.kafka, topic, b"a") == b"3"


def test_a_rule_log_has_one_partition(topics: OwnTopics) -> None:
    with TopicReader(topics.kafka, topics.names.rules) as reader:
        check_rule_log(reader)
    with TopicReader(topics.kafka, topics.names.transactions) as reader, pytest.raises(ConfigError, match="one"):
        check_rule_log(reader)


def test_topics_have_ids_and_a_missing_topic_is_named(topics: OwnTopics) -> None:
    names = [topics.names.rules, topics.names.transactions]
    ids = topic_ids(topics.kafka, names)
    assert sorted(ids) == sorted(names)
    assert len(set(ids.values())) == 2
    assert topic_ids(topics.kafka, names) == ids
    with TopicReader(topics.kafka, "nowhere") as reader, pytest.raises(BrokerUnavailable, match="nowhere"):
        reader.partitions()


def test_topics_that_cause_wrong_results_are_named_with_the_command(topics: OwnTopics) -> None:
    check_topics(topics.kafka, topics.names)
    transactions = topics.names.transactions
    date_by_producer(topics, transactions)
    declared = [topic for topic in topics.declared if topic.name == transactions]
    with pytest.raises(TopicUnsuitable, match="fraud kafka topics apply") as found:
        check_topics(topics.kafka, topics.names)
    assert str(found.value).startswith(f"{transactions} has message.timestamp.type=CreateTime")
    check_topics(topics.kafka, topics.names, producer_times=True)
    topic_admin.apply(topics.kafka, declared)
    check_topics(topics.kafka, topics.names)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}, ""),
        ({"message.timestamp.type": "CreateTime", "cleanup.policy": "delete"}, "set LogAppendTime"),
        ({"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact,delete"}, "set delete"),
        ({}, "message.timestamp.type=None"),
    ],
)
def test_faults_of_topic_settings_are_named(settings: dict[str, str | None], fault: str) -> None:
    assert fault in "; ".join(faults_of("rules", settings))
    assert bool(list(faults_of("rules", settings))) is bool(fault)
