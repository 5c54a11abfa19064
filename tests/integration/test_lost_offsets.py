"""Records that are lost before the detector reads them. A start names the loss, and continues if a user accepts it.

The checkpoints are handmade; Kafka is real. test_wrong_starts has a whole detector with two kinds
of loss.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.engine.statelog import EMPTY_LOG
from fraud_rules.errors import CheckpointForeign, FraudError, HistoryLost, OffsetsLost
from fraud_rules.kafka import topics as topic_admin
from fraud_rules.kafka.broker import Broker
from fraud_rules.kafka.consume import await_settled
from fraud_rules.kafka.declared import load_topics
from fraud_rules.kafka.reader import TopicReader, topic_ids
from fraud_rules.kafka.writer import BatchWriter, OutRecord, last_record
from fraud_rules.model.lost_records import LossReason, LostRecords
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.spark.session import SparkOptions, build_session
from fraud_rules.spark.shutdown import stop_spark
from fraud_rules.spark.storage import DiskFolder
from fraud_rules.stream import checkpoint
from fraud_rules.stream.driver import admission, losses, rebuild
from fraud_rules.stream.driver.admission import Admission, admit, check
from fraud_rules.stream.driver.job import DetectorJob, RebuildOrder
from fraud_rules.stream.driver.marker import Marker
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.pins import Pin, PinStore
from fraud_rules.stream.work import WorkReport
from tests.support.kafka.open_transaction import open_transaction
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce

QUERY = "5b8bf551-4353-4c42-9e48-d17a75685ffe"
READ, THERE = 60, 100
"""Offsets of partition 0: the end of the finished batches, and the end of the topic."""


class Site:
    """A detector that has read `READ` of `THERE` transactions in two batches, and was stopped."""

    def __init__(self, topics: OwnTopics, project: Project, path: Path) -> None:
        self.topics, self.folder = topics, DiskFolder(path / "checkpoint")
        self._spark: SparkSession | None = None
        settings = DetectorSettings(detector=topics.prefix.rstrip("-"), topics=topics.names)
        schema = TransactionSchema.load(project.config / "schema.yaml")
        options = SparkOptions(str(path / "checkpoint"), project.jars / "connector")
        self.job = DetectorJob(settings, schema, topics.kafka, options)
        produce(topics.bootstrap, topics.names.transactions, [b"{}"] * THERE, partition=0)
        ids = topic_ids(topics.kafka, [topics.names.transactions, topics.names.rules, topics.names.detector_ticks])
        checkpoint.claim(self.folder, checkpoint.manifest(settings, schema, ids))
        self.folder.create("metadata", json.dumps({"id": QUERY}).encode())
        self.folder.create("sources/0/0", b"\0v1\n" + json.dumps(self.ends(0)).encode())
        self.plan(0, 30)
        self.plan(1, READ)
        self.commit(0)
        self.commit(1)
        self.write(0, 30)
        self.write(1, READ)

    def ends(self, read: int) -> dict[str, dict[str, int]]:
        names = self.topics.names
        return {names.transactions: {"0": read, "1": 0}, names.rules: {"0": 0}, names.detector_ticks: {"0": 0}}

    def plan(self, batch: int, read: int) -> None:
        self.folder.create(f"offsets/{batch}", f"v1\n{{}}\n{json.dumps(self.ends(read))}".encode())
        # Hadoop's checksum of the file, which must not outlive its content.
        self.folder.create(f"offsets/.{batch}.crc", b"crc")
        PinStore(self.folder).create(Pin(batch, 0))

    def commit(self, batch: int) -> None:
        self.folder.create(f"commits/{batch}", b"v1\n{}")

    def write(self, batch: int, read: int) -> None:
        self.send(batch, read)
        await_settled(self.topics.kafka, [self.topics.names.detector_marker, self.topics.names.detector_progress])

    def send(self, batch: int, read: int) -> None:
        names, detector = self.topics.names, self.job.settings.detector.encode()
        ids = topic_ids(self.topics.kafka, [names.transactions, names.rules, names.detector_ticks])
        state = new_position(self.topics.kafka, self.job.settings)
        marker = Marker(QUERY, batch, self.ends(read), Pin(batch, 0), topics=ids, state=state)
        progress = {"queryId": QUERY, "batchId": batch, "endOffsets": self.ends(read), "rulesEnd": 0}
        writer = BatchWriter(self.topics.kafka, self.topics.prefix + "test")
        writer.open()
        writer.write(
            [
                OutRecord(names.detector_progress, json.dumps(progress).encode(), detector),
                OutRecord(names.detector_marker, marker.encode(), detector),
            ]
        )

    def remove_up_to(self, offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.topics.bootstrap})
        place = TopicPartition(self.topics.names.transactions, 0, offset)
        for done in admin.delete_records([place]).values():
            done.result()

    def recreate(self, name: str) -> None:
        declared = [topic for topic in self.topics.declared if topic.name == name]
        topic_admin.delete(self.topics.kafka, declared)
        topic_admin.apply(self.topics.kafka, declared)

    def start(self, **options: Any) -> Admission:
        job = replace(self.job, **options)
        with TopicReader(job.kafka, job.settings.topics.rules) as rules:
            try:
                return admit(job, self.folder, rules, WorkReport(), lambda: self._session(job.spark))
            finally:
                if self._spark is not None:
                    stop_spark(self._spark)
                    self._spark = None
                self.folder.release()

    def _session(self, options: SparkOptions) -> SparkSession:
        self._spark = build_session(options)
        return self._spark

    def refusal(self, error: type[FraudError] = OffsetsLost, **options: Any) -> str:
        """The reason why a start and its check are refused. Neither changes anything."""
        before = self.content()
        with pytest.raises(error) as checked:
            check(replace(self.job, **options), self.folder)
        with pytest.raises(error):
            self.start(**options)
        assert self.content() == before
        return str(checked.value)

    def content(self) -> dict[str, bytes]:
        root = Path(self.folder.root)
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def next_offset(self, batch: int) -> int | None:
        return checkpoint.end_offsets(self.folder, batch)[self.topics.names.transactions].get("0")

    def marker(self) -> Marker:
        await_settled(self.topics.kafka, [self.topics.names.detector_marker])
        text = last_record(self.topics.kafka, self.topics.names.detector_marker, self.job.settings.detector.encode())
        assert text is not None
        return Marker.decode(text)


READ_AND_WRITTEN = ("transactions", "rules", "detector-ticks", "detector-marker", "detector-progress", "detector-state")


@pytest.fixture
def site(broker: Broker, project: Project, tmp_path: Path) -> Iterator[Site]:
    prefix = f"l{uuid.uuid4().hex[:8]}-"
    wanted = {prefix + name for name in READ_AND_WRITTEN}
    declared = [topic for topic in load_topics(project.config / "topics.yaml", prefix) if topic.name in wanted]
    names = TopicNames(**{field.name: prefix + str(field.default) for field in fields(TopicNames)})
    topic_admin.apply(broker.kafka, declared)
    yield Site(OwnTopics(broker.bootstrap, prefix, names, tuple(declared)), project, tmp_path)
    topic_admin.delete(broker.kafka, declared)


def test_a_release_with_another_number_of_tasks_continues(site: Site) -> None:
    admitted = site.start(spark=replace(site.job.spark, tasks=7))
    assert admitted.marker == site.marker()


def test_a_start_waits_for_a_transaction_that_hides_the_newest_marker(site: Site) -> None:
    """The visible marker is that of another query, so that the start would be refused."""
    other = msgspec.structs.replace(site.marker(), query_id="other")
    marker, detector = site.topics.names.detector_marker, site.job.settings.detector.encode()
    produce(site.topics.bootstrap, marker, [other.encode()], key=detector)
    assert "query other wrote the outputs" in site.refusal(CheckpointForeign)
    with ThreadPoolExecutor(2) as others:
        with open_transaction(site.topics, marker):
            site.plan(2, 70)
            site.send(2, 70)
            site.commit(2)
            checked = others.submit(check, site.job, site.folder)
            started = others.submit(site.start)
            for waiting in (checked, started):
                with pytest.raises(TimeoutError):
                    waiting.result(1.0)
        checked.result(60.0)
        admitted = started.result(60.0)
    assert admitted.marker is not None
    assert admitted.marker.batch_id == 2


def test_nothing_is_lost_while_the_next_record_is_there(site: Site) -> None:
    site.remove_up_to(READ)
    admitted = site.start(accept_loss=True)
    assert (admitted.new_losses, admitted.loss) == ([], None)


@pytest.mark.parametrize(
    ("planned", "written", "reported_by"),
    [
        pytest.param(None, False, 2, id="between batches"),
        pytest.param(70, False, 2, id="planned", marks=pytest.mark.long),
        pytest.param(90, False, 2, id="planned beyond the loss", marks=pytest.mark.long),
        pytest.param(70, True, 3, id="written", marks=pytest.mark.long),
        pytest.param(90, True, 3, id="written beyond the loss"),
    ],
)
def test_removed_records_are_named_accepted_and_reported(
    planned: int | None, written: bool, reported_by: int, site: Site
) -> None:
    if planned is not None:
        site.plan(2, planned)
    if written:
        site.write(2, planned or 0)
    site.remove_up_to(80)
    refusal = site.refusal()
    assert f"{site.topics.names.transactions}-0 from 60 to 80: 20 records" in refusal
    assert "--accept-loss" in refusal

    admitted = site.start(accept_loss=True)

    lost = [LostRecords(site.topics.names.transactions, 0, 60, 80, LossReason.REMOVED, 20)]
    assert admitted.new_losses == lost
    assert admitted.loss is not None
    assert (admitted.loss.batch_id, admitted.loss.lost) == (reported_by, lost)
    assert site.next_offset(1) == 80
    assert "offsets/.1.crc" not in site.content()
    if planned is not None:
        assert site.next_offset(2) == max(80, planned)
    assert site.marker().end_offsets == site.ends(max(80, planned or 0) if written else 80)
    again = site.start()
    assert (again.new_losses, again.loss) == ([], admitted.loss)


@pytest.mark.long
def test_a_second_loss_before_the_first_is_reported_is_added_to_it(site: Site) -> None:
    site.remove_up_to(80)
    site.start(accept_loss=True)
    site.remove_up_to(85)
    admitted = site.start(accept_loss=True)
    assert admitted.loss is not None
    assert [(each.start, each.end) for each in admitted.loss.lost] == [(60, 80), (80, 85)]


def test_the_next_start_completes_an_interrupted_acceptance(site: Site) -> None:
    site.remove_up_to(80)
    progress = checkpoint.read_progress(site.folder)
    lost = [LostRecords(site.topics.names.transactions, 0, 60, 80, LossReason.REMOVED, 20)]
    losses.accept(site.folder, progress, site.marker(), lost, checkpoint.topics_of(site.folder))
    check(site.job, site.folder)
    admitted = site.start()
    assert (admitted.new_losses, site.next_offset(1), site.marker().end_offsets) == ([], 80, site.ends(80))


def test_the_first_batch_of_a_checkpoint_can_lose_records_too(site: Site) -> None:
    for name in ("offsets/0", "offsets/1", "commits/0", "commits/1"):
        site.folder.delete(name)
    site.folder.create("beginning", json.dumps({"marker": json.loads(site.marker().encode())}).encode())
    site.folder.create("sources/0/0", b"\0v1\n" + json.dumps(site.ends(READ)).encode(), replace=True)
    site.remove_up_to(80)
    site.refusal()
    site.start(accept_loss=True)
    assert checkpoint.initial_offsets(site.folder) == site.ends(80)
    assert site.content()["sources/0/0"].startswith(b"\0v1\n")


Gone = Callable[[Site], None]


def removed(site: Site) -> None:
    site.remove_up_to(80)


def recreated(site: Site) -> None:
    site.recreate(site.topics.names.transactions)
    produce(site.topics.bootstrap, site.topics.names.transactions, [b"{}"] * 20, partition=0)
    site.remove_up_to(7)


@pytest.mark.parametrize(
    ("way", "gone", "first"),
    [
        ("adopt", removed, 80),
        pytest.param("adopt", recreated, 7, marks=pytest.mark.long),
        pytest.param("rebuild", removed, 80, marks=pytest.mark.long),
        ("rebuild", recreated, 7),
    ],
)
def test_a_fresh_checkpoint_starts_after_the_loss(way: str, gone: Gone, first: int, site: Site) -> None:
    gone(site)
    options: dict[str, Any] = {"adopt": True}
    if way == "adopt":
        site.folder.remove()
        site.refusal(CheckpointForeign, accept_loss=True)
    else:
        site.refusal(HistoryLost, rebuild=RebuildOrder("order"), accept_loss=True)
        options = {"rebuild": RebuildOrder("order", partial=True)}
    site.refusal(**options)

    admitted = site.start(**options, accept_loss=True)

    assert admitted.starting_offsets[site.topics.names.transactions]["0"] == first
    assert admitted.loss is not None
    assert admitted.loss.batch_id == 0
    assert admitted.loss.lost[0].end == first
    assert site.start(**options).starting_offsets == admitted.starting_offsets
    if way == "rebuild" and gone is recreated:
        assert admitted.state.versions == [EMPTY_LOG] * site.job.settings.key_groups


def test_the_loss_of_a_recreated_topic_is_named(site: Site) -> None:
    recreated(site)
    refusal = site.refusal()
    assert f"{site.topics.names.transactions}-0 from 60: the topic was created again and begins at 7" in refusal
    admitted = site.start(accept_loss=True)
    assert [(each.partition, each.start, each.end) for each in admitted.new_losses] == [(0, 60, 7), (1, 0, 0)]
    assert (site.next_offset(1), site.marker().end_offsets) == (7, site.ends(7))
    assert site.start().new_losses == []


def test_a_recreated_rule_log_is_never_accepted(site: Site) -> None:
    site.recreate(site.topics.names.rules)
    assert "an earlier topic" in site.refusal(CheckpointForeign, accept_loss=True)


def test_a_log_that_ends_before_the_read_offset_is_named(site: Site) -> None:
    site.plan(2, THERE + 40)
    assert f"from {THERE} to {THERE + 40}: the log ends before" in site.refusal()
    site.start(accept_loss=True)
    assert (site.next_offset(1), site.next_offset(2)) == (READ, THERE)


def test_a_rebuild_that_died_after_its_transaction_only_replaces_the_folder(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(Exception):
        pass

    def die(*_: object, **__: object) -> None:
        raise Died

    before, order = site.marker(), RebuildOrder("order")
    with monkeypatch.context() as patch:
        patch.setattr(admission, "begin_rebuild", die)
        with pytest.raises(Died):
            site.start(rebuild=order)
    rebuilt = site.marker()
    assert (before.rebuild, rebuilt.rebuild) == (None, "order")
    assert rebuilt.batch_id == before.batch_id
    assert site.start().marker == rebuilt, "the old folder fits the recomputed state too"
    monkeypatch.setattr(rebuild, "_recompute", die)
    admitted = site.start(rebuild=order)
    assert admitted.state == rebuilt.state
    assert admitted.starting_offsets == site.ends(READ)
    assert len(list(Path(site.folder.root).parent.glob("checkpoint.aside-*"))) == 1
