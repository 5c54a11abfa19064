"""Holds and releases payments by the detector's decisions: an example of a consumer that never releases too early.

A payment may go when the detector has evaluated it and no decision holds it. The gate reads four topics, and writes one
status per payment to a compacted topic of its own (`--output`):

- `transactions`: the payments. They wait here until the detector has evaluated them.
- `detector-progress`: each batch's end offsets. The detector has evaluated every payment before them.
- `decisions`: REVIEW and DECLINE hold a payment. NOTE, and no decision, release it.
- `quarantine`: the detector has not evaluated these records, so the gate holds them too.

The decisions of a batch are in the Kafka transaction of its progress record, but a broker shows the parts of a
transaction one partition after the other. So after a progress record the gate asks for the ends of `decisions` and
`quarantine`, uncommitted records included, and waits until it has read up to there. Only then does the record count.

Statuses and positions change in one Kafka transaction, and its transactional id fences an older gate of the same name.
So each payment gets its status once, whatever is killed. Standard library and confluent-kafka only: copy it.
"""

from __future__ import annotations

import argparse
import json
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

HOLDING: Final = ("REVIEW", "DECLINE")
TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.1
BUNDLE: Final = 500
MOST_STATUSES: Final = 10_000

Place = tuple[int, int]
"""The partition and the offset of a payment."""


@dataclass(frozen=True, slots=True)
class Status:
    """The answer to one payment. `reason` is the outcome of its decision, QUARANTINED, or empty for a release."""

    transaction_id: str
    held: bool
    reason: str

    def encode(self) -> bytes:
        """Encode as JSON."""
        status = "HELD" if self.held else "RELEASED"
        return json.dumps({"transactionId": self.transaction_id, "status": status, "reason": self.reason}).encode()


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A progress record: the ends of the evaluated payments, and the ends that the gate must have read before them."""

    offset: int
    payments: Mapping[int, int]
    required: Mapping[str, int]


@dataclass(slots=True)
class Gate:
    """The gate without Kafka: the records that it has read, and the statuses that follow from them.

    `settled` is the offset after the last payment with a status, by partition. `held` are the ids of all held payments.
    """

    decisions: str
    quarantine: str
    settled: dict[int, int] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    positions: dict[str, int] = field(default_factory=dict)
    """The next offset of `decisions` and of `quarantine`."""
    _waiting: dict[int, deque[tuple[int, str | None]]] = field(default_factory=dict)
    _holds: dict[str, tuple[int, str]] = field(default_factory=dict)
    _unread: dict[Place, int] = field(default_factory=dict)
    _announced: deque[Evaluated] = field(default_factory=deque)
    _evaluated: Evaluated | None = None

    def add_payment(self, partition: int, offset: int, transaction_id: str | None) -> None:
        """A payment arrived. Without an id it is no payment, and never gets a status."""
        self._waiting.setdefault(partition, deque()).append((offset, transaction_id))

    def add_decision(self, offset: int, transaction_id: str, outcome: str) -> None:
        """A decision arrived. The decision about a payment that is held already changes nothing."""
        if outcome in HOLDING and transaction_id not in self.held:
            self._holds.setdefault(transaction_id, (offset, outcome))

    def add_quarantined(self, offset: int, place: Place) -> None:
        """A record arrived that the detector could not evaluate."""
        if place[1] >= self.settled.get(place[0], 0):
            self._unread[place] = offset

    def add_evaluated(self, evaluated: Evaluated) -> None:
        """A progress record arrived. It counts once the positions have reached its required ends."""
        self._announced.append(evaluated)

    def settle(self) -> Iterator[Status]:
        """Yield the statuses of all payments that the detector has evaluated. The caller may stop at any status."""
        while self._announced and self._has_read(self._announced[0]):
            self._evaluated = self._announced.popleft()
        ends = {} if self._evaluated is None else self._evaluated.payments
        for partition, waiting in self._waiting.items():
            while waiting and waiting[0][0] < ends.get(partition, 0):
                offset, transaction_id = waiting.popleft()
                self.settled[partition] = offset + 1
                unread = self._unread.pop((partition, offset), None) is not None
                if transaction_id is not None and transaction_id not in self.held:
                    yield self._status(transaction_id, unread=unread)

    def resume_at(self) -> dict[str, int]:
        """The offsets of decisions and quarantine at which a restarted gate must begin: the oldest that still count."""
        holds = (offset for offset, _ in self._holds.values())
        return {
            self.decisions: min(holds, default=self.positions[self.decisions]),
            self.quarantine: min(self._unread.values(), default=self.positions[self.quarantine]),
        }

    @property
    def last_evaluated(self) -> int:
        """The offset of the last progress record that counts. A restarted gate reads it again."""
        return 0 if self._evaluated is None else self._evaluated.offset

    def _has_read(self, evaluated: Evaluated) -> bool:
        return all(self.positions.get(topic, 0) >= end for topic, end in evaluated.required.items())

    def _status(self, transaction_id: str, *, unread: bool) -> Status:
        _, outcome = self._holds.pop(transaction_id, (0, "QUARANTINED" if unread else ""))
        if outcome:
            self.held.add(transaction_id)
        return Status(transaction_id, bool(outcome), outcome)


class KafkaGate:
    """The gate on Kafka. One process of a name works at a time; the next one continues where it ended."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        base = {"bootstrap.servers": options.bootstrap, "group.id": options.name, "enable.auto.commit": False}
        committed = {"isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**base, **committed})
        self._ends = Consumer({**base, "isolation.level": "read_uncommitted"})
        self._producer = Producer({"bootstrap.servers": options.bootstrap, "transactional.id": f"gate-{options.name}"})
        self._gate = Gate(options.decisions, options.quarantine)
        self._wanted = True

    def run(self) -> None:
        """Work until SIGTERM or SIGINT. Raises KafkaException, for example if a newer gate of this name has started."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self._producer.init_transactions(TIMEOUT_S)  # fences an older gate and ends its transaction
        self._create_output()
        self._gate.held = self._held_before()
        self._consumer.assign(self._starts())
        print("gate: running", flush=True)  # noqa: T201
        while self._wanted:
            progress = [message for message in self._consumer.consume(BUNDLE, POLL_S) if self._accept(message)]
            if progress:
                self._gate.add_evaluated(self._evaluated(progress[-1]))
            while statuses := list(islice(self._gate.settle(), MOST_STATUSES)):
                self._write(statuses)
        self._consumer.close()
        self._ends.close()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._wanted = False

    def _create_output(self) -> None:
        topic = NewTopic(self._options.output, 1, 1, config={"cleanup.policy": "compact"})
        admin = AdminClient({"bootstrap.servers": self._options.bootstrap})
        (created,) = admin.create_topics([topic]).values()
        try:
            created.result(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _held_before(self) -> set[str]:
        """The ids that earlier gates of this name held: a second delivery of such a payment stays held."""
        partition = TopicPartition(self._options.output, 0, 0)
        self._consumer.assign([partition])
        held: set[str] = set()
        while True:
            for message in self._consumer.consume(BUNDLE, POLL_S):
                if _is_end(message):
                    return held
                if json.loads(message.value() or b"{}").get("status") == "HELD":
                    held.add((message.key() or b"").decode())

    def _starts(self) -> list[TopicPartition]:
        """The committed positions, or the beginning of each topic."""
        options = self._options
        metadata = self._consumer.list_topics(options.transactions, TIMEOUT_S).topics[options.transactions]
        wanted = [TopicPartition(options.transactions, number) for number in metadata.partitions]
        wanted += [TopicPartition(topic, 0) for topic in (options.decisions, options.quarantine, options.progress)]
        found = self._consumer.committed(wanted, TIMEOUT_S)
        starts = [TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in found]
        for each in starts:
            if each.topic == options.transactions:
                self._gate.settled[each.partition] = each.offset
            elif each.topic != options.progress:
                self._gate.positions[each.topic] = each.offset
        return starts

    def _accept(self, message: Message) -> bool:
        """Pass a record to the gate. Return whether it is a progress record of the detector."""
        options, topic, offset = self._options, message.topic() or "", message.offset() or 0
        if _is_end(message):  # behind the markers of transactions, which are no records
            if topic in self._gate.positions:
                self._gate.positions[topic] = max(self._gate.positions[topic], offset)
            return False
        if topic == options.transactions:
            self._gate.add_payment(message.partition() or 0, offset, _payment_id(message.value()))
        elif topic == options.decisions:
            document = json.loads(message.value() or b"{}")
            self._gate.add_decision(offset, str(document["transactionId"]), document["outcome"])
        elif topic == options.quarantine:
            self._gate.add_quarantined(offset, _place(dict(message.headers() or ())))
        else:
            return bool(message.key() == options.detector.encode())
        if topic in self._gate.positions:
            self._gate.positions[topic] = offset + 1
        return False

    def _evaluated(self, progress: Message) -> Evaluated:
        """The ends in a progress record, and the current ends of the topics that its batch may have written."""
        ends = json.loads(progress.value() or b"{}")["endOffsets"].get(self._options.transactions, {})
        required = {
            topic: self._ends.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)[1]
            for topic in self._gate.positions
        }
        return Evaluated(progress.offset() or 0, {int(number): end for number, end in ends.items()}, required)

    def _write(self, statuses: Iterable[Status]) -> None:
        """Write statuses and positions in one transaction."""
        options, gate = self._options, self._gate
        self._producer.begin_transaction()
        for status in statuses:
            self._producer.produce(options.output, status.encode(), status.transaction_id.encode())
        positions = [TopicPartition(options.transactions, number, offset) for number, offset in gate.settled.items()]
        positions += [TopicPartition(topic, 0, offset) for topic, offset in gate.resume_at().items()]
        positions.append(TopicPartition(options.progress, 0, gate.last_evaluated))
        self._producer.send_offsets_to_transaction(positions, self._consumer.consumer_group_metadata(), TIMEOUT_S)
        self._producer.commit_transaction(TIMEOUT_S)


def _is_end(message: Message) -> bool:
    """Whether the message reports the end of a partition. Raises KafkaException for an error."""
    error = message.error()
    if error is None:
        return False
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return True


def _payment_id(value: bytes | None) -> str | None:
    """The transactionId of a payment; None for a record without a readable one."""
    try:
        document: Any = json.loads(value or b"")
        return str(document["transactionId"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _place(headers: Mapping[str, Any]) -> Place:
    """The origin of a quarantined record."""
    return int(headers["partition"]), int(headers["offset"])


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the options. Topic names default to those of `config/topics.yaml`."""
    parser = argparse.ArgumentParser(description="Hold and release payments by the detector's decisions.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", help="Kafka's bootstrap servers")
    parser.add_argument("--name", default="payment-gate", help="consumer group, and part of the transactional id")
    parser.add_argument("--detector", default="detector", help="the name of the detector")
    for topic in ("transactions", "decisions", "quarantine"):
        parser.add_argument(f"--{topic}", default=topic)
    parser.add_argument("--progress", default="detector-progress")
    parser.add_argument("--output", default="payment-status", help="the topic of the statuses; created if missing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    KafkaGate(parse()).run()
