"""A start that is killed at any point: the next start continues, as if the killed one had not been there.

The markers are handmade; Kafka is real. A killed process leaves its transaction open.

The start that waits for the state is long: `kafka/test_settled` has the same reads of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.errors import Fenced
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.transactional_ids import detector_id
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.stream.checkpoint.marker import marker_record, read_marker
from fraud_rules.stream.driver.admission import check
from fraud_rules.stream.driver.job import RebuildOrder
from tests.support.kafka.open_transaction import open_transaction
from tests.support.recovery.handmade import READ, HandmadeSite, handmade_site


class Killed(BaseException):
    """The process ends here."""


class Kills:
    """Kills starts when they write. Their writers stay alive, so that nothing ends their transactions."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._write = BatchWriter.write
        self._left: list[BatchWriter] = []

    def start(self, site: HandmadeSite, *, committed: bool, **options: Any) -> None:
        """A start that is killed after its first transaction is `committed`, or before, when the broker has it all."""
        killed = self._after_commit if committed else self._before_commit
        self._patch.setattr(BatchWriter, "write", lambda writer, records: killed(writer, records))
        try:
            with pytest.raises(Killed):
                site.start(**options)
        finally:
            self._patch.setattr(BatchWriter, "write", self._write)

    def _before_commit(self, writer: BatchWriter, records: Iterable[OutRecord]) -> int:
        def sent() -> Iterator[OutRecord]:
            yield from records
            assert writer._producer.flush(30.0) == 0
            raise Killed

        self._left.append(writer)
        return self._write(writer, sent())

    def _after_commit(self, writer: BatchWriter, records: Iterable[OutRecord]) -> int:
        self._left.append(writer)
        self._write(writer, records)
        raise Killed


@pytest.fixture
def site(broker: Broker, project: Project, session: Callable[[], SparkSession]) -> Iterator[HandmadeSite]:
    with handmade_site(broker, project, session) as site:
        yield site


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Kills:
    return Kills(monkeypatch)


@pytest.mark.parametrize("committed", [False, True])
def test_a_kill_in_the_first_marker(committed: bool, site: HandmadeSite, kills: Kills) -> None:
    settings = replace(site.job.settings, detector=f"{site.job.settings.detector}-new")
    site.job = replace(site.job, settings=settings)
    kills.start(site, committed=committed)
    marker = site.start().marker
    assert (marker.batch_id, marker.end_offsets, marker.starts) == (-1, site.ends(0), 1)
    assert site.marker() == marker


@pytest.mark.parametrize("committed", [False, True])
def test_a_kill_in_an_amendment(committed: bool, site: HandmadeSite, kills: Kills) -> None:
    before = site.marker()
    site.remove_up_to(80)
    kills.start(site, committed=committed, accept_loss=True)
    marker = site.start(accept_loss=True).marker
    assert (marker.place, marker.end_offsets, marker.starts) == (before.place, site.ends(80), 1 + committed)
    assert [(each.start, each.end) for each in marker.lost] == [(READ, 80)], "the loss is accepted once"


@pytest.mark.parametrize("committed", [False, True])
def test_a_kill_in_the_transaction_of_a_rebuild(committed: bool, site: HandmadeSite, kills: Kills) -> None:
    before, order = site.marker(), RebuildOrder("order")
    kills.start(site, committed=committed, rebuild=order)
    marker = site.start(rebuild=order).marker
    assert (marker.place, marker.end_offsets, marker.rebuild) == (before.place, before.end_offsets, "order")
    assert marker.starts == 1
    assert site.start().marker.state == marker.state


def test_a_kill_between_fencing_and_reading(site: HandmadeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start has fenced a detector in a transaction. No reader ever sees the records of that transaction."""
    before, detector = site.marker(), BatchWriter(site.topics.kafka, detector_id(site.job.settings.detector))
    detector.open()

    def unfinished() -> Iterator[OutRecord]:
        yield OutRecord(site.topics.names.rule_operations, b"hidden")
        yield marker_record(msgspec.structs.replace(before, batch_id=2), site.job.settings)
        assert detector._producer.flush(30.0) == 0
        raise Killed

    with pytest.raises(Killed):
        detector.write(unfinished())

    def killed(*arguments: Any, settled: bool = True) -> Any:
        if settled:
            raise Killed
        return read_marker(*arguments, settled=settled)

    with monkeypatch.context() as patch:
        patch.setattr("fraud_rules.stream.driver.admission.read_marker", killed)
        with pytest.raises(Killed):
            site.start()
    assert site.start().marker.place == before.place
    with pytest.raises(KafkaException, match="fenced"):
        detector._producer.commit_transaction(30.0)


def test_of_two_starts_at_once_one_writes(site: HandmadeSite) -> None:
    before = site.marker()

    def start() -> BatchWriter | None:
        try:
            return site.start().writer
        except Fenced:
            return None

    with ThreadPoolExecutor(2) as both:
        writers = [each for each in both.map(lambda _: start(), range(2)) if each is not None]
    assert writers
    marker = read_marker(site.topics.kafka, site.job.settings)
    assert marker is not None
    assert (marker.place, marker.starts) == (before.place, len(writers))
    written = [is_written(writer, site) for writer in writers]
    assert written.count(True) == 1


def is_written(writer: BatchWriter, site: HandmadeSite) -> bool:
    """Whether the writer still writes."""
    try:
        return writer.write([OutRecord(site.topics.names.rule_operations, b"{}")]) == 1
    except Fenced:
        return False


@pytest.mark.parametrize(
    "role", ["detector_marker", "detector_progress", pytest.param("detector_state", marks=pytest.mark.long)]
)
def test_a_start_waits_for_an_open_transaction_in_what_it_decides_by(role: str, site: HandmadeSite) -> None:
    before, topic = site.marker(), getattr(site.topics.names, role)
    with ThreadPoolExecutor(1) as others:
        with open_transaction(site.topics, topic):
            check(site.job)
            started = others.submit(site.start)
            with pytest.raises(TimeoutError):
                started.result(2.0)
        assert started.result(180.0).marker.place == before.place


def test_a_start_does_not_wait_for_an_open_transaction_in_other_topics(site: HandmadeSite) -> None:
    before, topic = site.marker(), site.topics.names.rule_operations
    with open_transaction(site.topics, topic):
        assert site.start().marker.place == before.place
    await_settled(site.topics.kafka, [topic])
