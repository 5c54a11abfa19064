"""The two topics of deployment: intents, and the reports of agents and supervisors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from fraud_rules.deploy.attempt import AgentStatus, Attempt, AttemptStatus, DeploymentReports, Supervision
from fraud_rules.deploy.intent import SIGNATURE, Intent, IntentLog, IntentRecord, read_intents
from fraud_rules.deploy.intent_keys import IntentKeys
from fraud_rules.errors import Superseded
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import ends_of, settled_ends
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.kafka.record_writer import append_records
from fraud_rules.kafka.tail import TopicsTail
from fraud_rules.kafka.transactional_ids import agent_id
from fraud_rules.kafka.writer import BatchWriter, OutRecord

_AGENT = "agent"
_SUPERVISION = "supervision"
_decode_attempt = msgspec.json.Decoder(AttemptStatus).decode
_decode_agent = msgspec.json.Decoder(AgentStatus).decode
_decode_supervision = msgspec.json.Decoder(Supervision).decode
_encode = msgspec.json.encode
_POLL_S = 0.2


def read_intent_log(kafka: KafkaConnection, topic: str, detector: str) -> IntentLog:
    """All intents about a detector. Raises TransactionOpen, BrokerUnavailable."""
    with TopicReader(kafka, topic) as reader:
        return read_intents(detector, reader.read(*settled_ends(reader)[0]))


def append_intent(kafka: KafkaConnection, topic: str, intent: Intent, keys: IntentKeys) -> IntentRecord:
    """Append a signed intent and return its record, once it is known to be valid.

    Raises Superseded if another intent came first; then this one is void. Raises BrokerUnavailable if the write may or
    may not have succeeded: before a new decision, read the log and search for the attempt id.
    """
    content = intent.encode()
    headers = [(SIGNATURE, keys.sign(content))]
    (epoch,) = append_records(kafka, topic, [(intent.detector.encode(), content)], headers)
    log = read_intent_log(kafka, topic, intent.detector)
    record = log.at(epoch)
    if record is None or record.void:
        raise Superseded(
            f"another decision about {intent.detector} came first (epoch {log.epoch}): check it, then decide again"
        )
    return record


def read_deployment(kafka: KafkaConnection, topic: str, detector: str, *, settled: bool = False) -> DeploymentReports:
    """The reports of agents and supervisors about a detector. Raises BrokerUnavailable.

    Without `settled`, an open transaction may hide newer reports. With it, raises TransactionOpen too.
    """
    with TopicReader(kafka, topic) as reader:
        return deployment_after(DeploymentReports(), topic, detector, reader.read(*ends_of(reader, settled=settled)[0]))


def deployment_after(
    seen: DeploymentReports, topic: str, detector: str, records: Iterable[Record]
) -> DeploymentReports:
    """Fold new records into the reports that were read before.

    A tombstone removes nothing. An unreadable record is skipped; the last readable record of its key stays in force.
    """
    attempts, agent, supervision = dict(seen.attempts), seen.agent, seen.supervision
    for record in records:
        of, _, part = (record.key or b"").decode("utf-8", "replace").partition("/")
        if of != detector or record.value is None:
            continue
        if part == _AGENT:
            heartbeat = decode_or_skip(topic, record, _decode_agent)
            agent = agent if heartbeat is None else (record.append_ms, heartbeat)
        elif part == _SUPERVISION:
            look = decode_or_skip(topic, record, _decode_supervision)
            supervision = supervision if look is None else (record.append_ms, look)
        elif (status := decode_or_skip(topic, record, _decode_attempt)) is not None:
            attempts[part] = Attempt(record.append_ms, status)
    return DeploymentReports(attempts, agent, supervision)


def observe_deployment(
    kafka: KafkaConnection,
    topic: str,
    detector: str,
    listen_ms: int,
    wall_ms: Callable[[], int],
) -> tuple[DeploymentReports, int]:
    """The deployment records of a detector, and the broker's time in epoch ms. Raises BrokerUnavailable.

    A live agent writes every few seconds. So the append time of the next record is the broker's time, whatever this
    host's clock says. If no record arrives within `listen_ms`, the broker's time is the host's, but at least the newest
    append time plus `listen_ms`. A detector without any records is not listened to, because it has no ages.
    """
    with TopicsTail(kafka, {topic: None}) as tail:
        records = tail.new()[topic]
        seen = deployment_after(DeploymentReports(), topic, detector, records)
        ends_s = time.monotonic() + listen_ms / 1_000
        if seen == DeploymentReports():
            return seen, wall_ms()
        while time.monotonic() < ends_s:
            time.sleep(_POLL_S)
            if arrived := tail.new()[topic]:
                return deployment_after(seen, topic, detector, arrived), arrived[-1].append_ms
    return seen, max(wall_ms(), records[-1].append_ms + listen_ms)


def write_supervision(kafka: KafkaConnection, topic: str, supervision: Supervision) -> None:
    """Report a supervisor's check. Raises BrokerUnavailable."""
    append_records(kafka, topic, [(_key(supervision.detector, _SUPERVISION), _encode(supervision))])


@dataclass(frozen=True, slots=True)
class DeploymentLog:
    """The agent's writer of reports about a detector. Opening it fences the writers of earlier agents."""

    topic: str
    writer: BatchWriter

    @classmethod
    def open(cls, kafka: KafkaConnection, topic: str, detector: str) -> DeploymentLog:
        """Open the log and fence the previous agent. Raises BrokerUnavailable, Fenced."""
        writer = BatchWriter(kafka, agent_id(detector))
        writer.open()
        return cls(topic, writer)

    def write(self, agent: AgentStatus, attempts: Sequence[AttemptStatus] = ()) -> None:
        """Write a heartbeat and the changed attempts in one transaction. Raises Fenced, BrokerUnavailable."""
        records = [OutRecord(self.topic, _encode(each), _key(each.detector, each.attempt_id)) for each in attempts]
        heartbeat = OutRecord(self.topic, _encode(agent), _key(agent.detector, _AGENT))
        self.writer.write([*records, heartbeat])


def _key(detector: str, part: str) -> bytes:
    return f"{detector}/{part}".encode()
