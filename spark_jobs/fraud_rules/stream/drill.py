"""A restore drill: tests whether the state of a detector can be restored, while the detector works.

The drill reads the topic `detector-state` from outside, as a host without views does, and builds each key group's view
from its chunks in a scratch folder. Each chunk must have the digest in its name, and each head must fit the markers
before and after the read. The drill writes nothing to Kafka and opens no producer, so it fences nothing.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.state.head import Head, decode_head
from fraud_rules.engine.statelog import EMPTY_LOG, MemoryStateLog, StateVersion, is_content_of
from fraud_rules.errors import StateDamaged
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.topics import log_bytes
from fraud_rules.logs.state_topic import HEAD, StateTopic
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.stream.checkpoint.marker import Marker, newest_marker

if TYPE_CHECKING:
    from fraud_rules.engine.state.store import ViewStore

_TRIES = 3


class DrillReport(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a drill. `batch_id` is the last written batch before the read, and `marker_ms` the broker's time of
    its marker. `faults` is empty if the state can be restored. `digest` is a digest of all heads, whose digests cover
    the chunks: two drills of the same batch have the same one.

    `orphans` counts the chunks that no head names: those of the batch in work, and those that an earlier attempt left.
    `live_bytes` are the bytes without the orphans. `log_bytes` is the size of one copy of the topic in Kafka, None if
    it is unknown. It has deleted records too, until Kafka compacts the log.
    """

    batch_id: int
    marker_ms: int
    key_groups: int
    chunks: int
    grouping_states: int
    events: int
    bytes_read: int
    took_ms: int
    faults: list[str]
    digest: str
    orphans: int = 0
    live_bytes: int = 0
    log_bytes: int | None = None

    @property
    def right(self) -> bool:
        """Whether the state can be restored."""
        return not self.faults


def drill(kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema) -> DrillReport:
    """Restore the newest state. A fault counts only if three reads in a row find one, because the detector replaces
    chunks meanwhile.

    Raises StateDamaged if there is no state, StorageFull for a full disk of the scratch folder, and BrokerUnavailable.
    """
    for _ in range(_TRIES - 1):
        report = _drill(kafka, settings, schema)
        if report.right:
            return report
    return _drill(kafka, settings, schema)


def _drill(kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema) -> DrillReport:
    with tempfile.TemporaryDirectory(prefix="fraud-drill-") as scratch:
        return _drill_in(Path(scratch), kafka, settings, schema)


def _drill_in(
    scratch: Path, kafka: KafkaConnection, settings: DetectorSettings, schema: TransactionSchema
) -> DrillReport:
    from fraud_rules.engine.state.store import MappedViews

    began_s, views, digest = time.monotonic(), MappedViews(scratch, schema), hashlib.blake2b(digest_size=16)
    marker_ms, before = _marker(kafka, settings)
    assert before.state is not None
    topic = StateTopic(kafka, settings.topics.detector_state, settings.detector, before.state.partitions)
    logs = topic.read_all()
    _, after = _marker(kafka, settings)
    assert after.state is not None
    faults: list[str] = []
    chunks = states = events = orphans = live_bytes = 0
    for key_group, (first, last) in enumerate(zip(before.state.versions, after.state.versions, strict=True)):
        log = logs.get(key_group, {})
        try:
            head, restored = _restore(key_group, log, schema, views)
            _check_version(head, first, last)
        except StateDamaged as error:
            faults.append(f"key group {key_group}: {error}")
            continue
        digest.update(f"{head.state_version}\n".encode())
        chunks, states, events = chunks + len(head.chunks), states + len(head.states), events + restored
        live = {HEAD, *(info.name for info in head.chunks)}
        orphans += len(log.keys() - live)
        live_bytes += sum(len(blob) for name, blob in log.items() if name in live)
    return DrillReport(
        before.batch_id,
        marker_ms,
        len(before.state.versions),
        chunks,
        states,
        events,
        sum(len(blob) for log in logs.values() for blob in log.values()),
        round((time.monotonic() - began_s) * 1_000),
        faults,
        digest.hexdigest(),
        orphans,
        live_bytes,
        log_bytes(kafka, topic.topic),
    )


def _marker(kafka: KafkaConnection, settings: DetectorSettings) -> tuple[int, Marker]:
    """The newest marker, and its append time."""
    found = newest_marker(kafka, settings)
    if found is None or found[1].state is None:
        raise StateDamaged(f"the detector {settings.detector} has written no state yet: there is nothing to restore")
    return found


def _restore(key_group: int, log: Mapping[str, bytes], schema: TransactionSchema, views: ViewStore) -> tuple[Head, int]:
    """Build a key group's view from its records, as a start does. Return its head and the number of its events."""
    from fraud_rules.engine.state.journal import Journal

    if HEAD not in log:
        return Head(), 0
    memory = MemoryStateLog()
    memory.put_head(log[HEAD], EMPTY_LOG)
    for name, blob in _named_chunks(log):
        memory.put_chunk(name, blob)
    with views.hold(key_group) as view:
        journal = Journal(schema, memory, view)
        events = sum(journal.open(state).retained_rows for state in journal.head.states)
        view.clear()  # the scratch folder holds one key group at a time
        return journal.head, events


def _named_chunks(log: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for info in decode_head(log[HEAD]).chunks:
        blob = log.get(info.name)
        if blob is None:
            raise StateDamaged(f"chunk {info.name} is missing")
        if not is_content_of(info.name, blob):
            raise StateDamaged(f"chunk {info.name} has another content")
        yield info.name, blob


def _check_version(head: Head, first: StateVersion, last: StateVersion) -> None:
    found = head.state_version
    if not first.version <= found.version <= last.version:
        raise StateDamaged(f"the head has version {found.version}, the markers {first.version} to {last.version}")
    for known in (first, last):
        if known.version == found.version and known != found:
            raise StateDamaged(f"version {found.version} has digest {found.digest:x}, the marker {known.digest:x}")
