"""The ends of the inputs, as a real broker reports them: they decide what the next batch reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined] # stub

from fraud_rules.errors import BrokerUnavailable, OffsetsLost
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.model.lost_records import Offsets
from fraud_rules.stream import inputs as inputs_module
from fraud_rules.stream.inputs import InputTopics
from tests.support.kafka.own_topics import OwnTopics, delete_topics
from tests.support.kafka.records import produce
from tests.support.ports import free_ports
from tests.support.waiting import until

pytestmark = [pytest.mark.integration]
TOPIC_ROLES = ("rules", "transactions")

MOST = 1_000


@pytest.fixture
def inputs(topics: OwnTopics, monkeypatch: pytest.MonkeyPatch) -> InputTopics:
    monkeypatch.setattr(inputs_module, "_LOOK_S", 0.0)
    names = topics.names
    return InputTopics(TopicEnds(topics.kafka), (names.transactions, names.rules), unlimited=[names.rules])


def _ends(topics: OwnTopics, *transactions: int, rules: int = 0) -> Offsets:
    places = {str(number): end for number, end in enumerate(transactions)}
    return {topics.names.transactions: places, topics.names.rules: {"0": rules}}


def _add_partition(topics: OwnTopics) -> None:
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    for done in admin.create_partitions([NewPartitions(topics.names.transactions, 3)]).values():
        done.result(180)
    ends = TopicEnds(topics.kafka)
    until(lambda: len(ends.partitions(topics.names.transactions)) == 3, "the broker knows the partition")


def _delete_records(topics: OwnTopics, partition: int, before: int) -> None:
    def delete() -> bool:
        place = TopicPartition(topics.names.transactions, partition, before)
        try:
            for done in admin.delete_records([place]).values():
                done.result(180)
        except KafkaException as error:  # a new partition has no leader at first
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return False
        return True

    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    until(delete, "the records are deleted")


def _new_ends(inputs: InputTopics, starts: Offsets, wanted: Callable[[Offsets], bool]) -> Offsets:
    """The new ends, as soon as the broker knows them."""

    def look() -> Offsets | None:
        found = inputs.new_ends(starts, MOST)
        return found if found is not None and wanted(found) else None

    return until(look, "the new ends are known")


def test_a_new_detector_starts_at_the_first_records(topics: OwnTopics, inputs: InputTopics) -> None:
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * 5, partition=1)
    _delete_records(topics, partition=1, before=2)
    assert inputs.first() == _ends(topics, 0, 2)


def test_a_backlog_of_payments_delays_no_rule(topics: OwnTopics, inputs: InputTopics) -> None:
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * 40, partition=0)
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * 60, partition=1)
    produce(topics.bootstrap, topics.names.rules, [b"{}"] * 30)
    found = until(lambda: inputs.new_ends(_ends(topics, 0, 0), 10), "the new ends are known")
    assert found == _ends(topics, 4, 6, rules=30)


def test_new_records_of_any_input_make_a_batch(topics: OwnTopics, inputs: InputTopics) -> None:
    assert inputs.new_ends(_ends(topics, 0, 0), MOST) is None
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * 5, partition=1)
    assert inputs.new_ends(_ends(topics, 0, 0), MOST) == _ends(topics, 0, 5)
    produce(topics.bootstrap, topics.names.rules, [b"{}"], partition=0)
    assert inputs.new_ends(_ends(topics, 0, 5), MOST) == _ends(topics, 0, 5, rules=1)


def test_records_of_an_open_transaction_wait(topics: OwnTopics, inputs: InputTopics) -> None:
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topics.prefix + "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topics.names.transactions, b"{}", partition=0)
    producer.flush(30)
    assert inputs.new_ends(_ends(topics, 0, 0), MOST) is None
    producer.commit_transaction(30)
    _new_ends(inputs, _ends(topics, 0, 0), lambda found: found[topics.names.transactions]["0"] > 0)


def test_an_added_partition_is_read_from_its_first_record(topics: OwnTopics, inputs: InputTopics) -> None:
    inputs.first()
    _add_partition(topics)
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * 3, partition=2)
    found = _new_ends(inputs, _ends(topics, 0, 0), lambda ends: "2" in ends[topics.names.transactions])
    assert found == _ends(topics, 0, 0, 3)


def test_the_lost_beginning_of_an_added_partition_is_named(topics: OwnTopics, inputs: InputTopics) -> None:
    _add_partition(topics)
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * 3, partition=2)
    _delete_records(topics, partition=2, before=1)
    with pytest.raises(OffsetsLost, match=f"{topics.names.transactions}-2 from 0.*begins at 1"):
        _new_ends(inputs, _ends(topics, 0, 0), lambda ends: "2" in ends[topics.names.transactions])


def test_a_log_that_ends_before_the_read_records_is_named(topics: OwnTopics, inputs: InputTopics) -> None:
    produce(topics.bootstrap, topics.names.transactions, [b"{}"] * 3, partition=0)
    with pytest.raises(OffsetsLost, match=f"{topics.names.transactions}-0 from 4, but the log ends at 3"):
        inputs.new_ends(_ends(topics, 4, 0), MOST)


def test_a_deleted_topic_is_named(topics: OwnTopics, inputs: InputTopics) -> None:
    inputs.first()
    delete_topics(topics.kafka, [each for each in topics.declared if each.name == topics.names.transactions])

    def named() -> bool:
        try:
            inputs.new_ends(_ends(topics, 0, 0), MOST)
        except BrokerUnavailable as error:
            return "there is no topic" in str(error)
        return False

    until(named, "the deleted topic is named")


def test_a_topic_that_was_created_again_is_named_although_it_has_grown_beyond_the_read_records(
    topics: OwnTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.names.transactions
    client = TopicEnds(topics.kafka)
    monkeypatch.setattr(inputs_module, "_LOOK_S", 0.0)
    inputs = InputTopics(client, (name,), client.ids([name]))
    produce(topics.bootstrap, name, [b"{}"] * 3)
    starts = _new_ends(inputs, {name: {"0": 0, "1": 0}}, lambda found: found[name]["0"] == 3)
    declared = [each for each in topics.declared if each.name == name]
    delete_topics(topics.kafka, declared)
    topic_admin.apply(topics.kafka, declared)
    produce(topics.bootstrap, name, [b"{}"] * 9)
    with pytest.raises(OffsetsLost, match=f"{name}: deleted and created again"):
        _new_ends(inputs, starts, lambda _: True)


def test_an_absent_broker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr("fraud_rules.kafka.reader._TIMEOUT_S", 1.0)
    with pytest.raises(BrokerUnavailable, match=str(port)):
        TopicEnds(KafkaConnection(f"127.0.0.1:{port}")).partitions("transactions")
