"""Topics whose append times a test controls: the two logs carry the producer's timestamps.

A detector refuses to start on such topics. Therefore the broker sets the timestamps while a detector starts, and tests
append records before or after that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.declared import Timestamp, Topic
from tests.support.kafka.own_topics import OwnTopics, create_topics
from tests.support.waiting import until

_MAX_RECORD_BYTES = 12_000_000
_ANY_TIME = ("message.timestamp.after.max.ms", str(2**63 - 1))
"""Allows records from the future, as a broker with a wrong clock appends them."""
_TIMED = ("transactions", "rules", "rules_cdc")
_KINDS = {"CreateTime": TIMESTAMP_CREATE_TIME, "LogAppendTime": TIMESTAMP_LOG_APPEND_TIME}

Place = tuple[int, int]
"""Partition and offset."""
Headers = Sequence[tuple[str, bytes | None]]


def timed_topics(broker: Broker, project: Project) -> OwnTopics:
    """Create all declared topics under a unique prefix, with producer timestamps for transactions and rules.

    `rules-cdc` has producer timestamps too: `_date` uses it to see that a change is in effect.
    """

    def changed(role: str, topic: Topic) -> Topic:
        settings = (*topic.settings, _ANY_TIME)
        return (
            replace(topic, timestamp=Timestamp.CREATE, retention_ms=None, settings=settings)
            if role in _TIMED
            else topic
        )

    return create_topics(broker, project, changed=changed, timed=True)


class Logs:
    """The two logs that a detector reads. The test is their only writer, so this class knows their end offsets.

    A transaction is sent after the rules that were appended before it, so a detector that reads it can pin them.
    """

    def __init__(self, topics: OwnTopics) -> None:
        self._names = topics.names
        self._failed: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": topics.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.max.bytes": _MAX_RECORD_BYTES,
                "log_level": 0,
            }
        )
        self.ends: dict[int, int] = defaultdict(int)
        self.rules_end = 0
        self._rules_stored = 0

    def append_rule(self, record: bytes | None, at_ms: int) -> int:
        """Append a record to the rule log and return its rule version."""
        self._append(self._names.rules, record, 0, at_ms)
        self.rules_end += 1
        return self.rules_end - 1

    def append(
        self,
        record: bytes | None,
        at_ms: int,
        partition: int = 0,
        headers: Headers = (),
        key: bytes | None = None,
    ) -> Place:
        """Append a transaction and return its partition and offset."""
        if self._rules_stored < self.rules_end:
            self.flush()
        self._append(self._names.transactions, record, partition, at_ms, headers, key)
        self.ends[partition] += 1
        return partition, self.ends[partition] - 1

    def flush(self) -> None:
        """Return once the broker has stored every record."""
        left = self._producer.flush(60.0)
        assert not self._failed, self._failed[:3]
        assert left == 0, f"{left} records not delivered"
        self._rules_stored = self.rules_end

    def _append(
        self,
        topic: str,
        record: bytes | None,
        partition: int,
        at_ms: int,
        headers: Headers = (),
        key: bytes | None = None,
    ) -> None:
        self._producer.produce(
            topic, record, key, partition, on_delivery=self._delivered, timestamp=at_ms, headers=list(headers)
        )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)


def detector_starts(topics: OwnTopics) -> None:
    """Let the broker set the timestamps of the two logs, so that a detector can start."""
    if topics.timed:
        _date_logs(topics, "LogAppendTime")


def detector_has_started(topics: OwnTopics) -> None:
    """Let the test set the timestamps of the two logs again."""
    if topics.timed:
        _date_logs(topics, "CreateTime")


def _date_logs(topics: OwnTopics, clock: str) -> None:
    _date(topics, (topics.names.rules, topics.names.transactions), clock)


def _date(topics: OwnTopics, names: Sequence[str], clock: str) -> None:
    """Change the timestamp type of topics and return once the change is in effect.

    A broker applies batches of changes in turn, but the changes of one batch in any order. Therefore the probe topic
    changes twice: the topics have changed once it shows a change that was requested after its earlier one was visible.
    """
    probe = topics.names.rules_cdc
    for name in names:
        _date_by(topics.bootstrap, name, clock)
    (other,) = _KINDS.keys() - {clock}
    for shown in (clock, other, clock):
        _date_by(topics.bootstrap, probe, shown)
        until(partial(_has_kind, topics.bootstrap, probe, _KINDS[shown]), f"{probe} has {shown}")


def _has_kind(bootstrap: str, topic: str, kind: int) -> bool:
    """Check whether the next record of a topic carries this kind of timestamp."""
    kinds: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.produce(topic, b"a probe", on_delivery=lambda _, message: kinds.append(message.timestamp()[0]))
    producer.flush(60.0)
    return kinds[0] == kind


def date_by_producer(topics: OwnTopics, name: str) -> None:
    """Use the producer's timestamps as the append times of a topic from now on."""
    _date(topics, (name,), "CreateTime")


def _date_by(bootstrap: str, topic: str, clock: str) -> None:
    set_topic(bootstrap, topic, "message.timestamp.type", clock)


def set_topic(bootstrap: str, topic: str, setting: str, value: str) -> None:
    """Change one setting of a topic."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
