"""Records that are lost before the detector reads them. A start names the loss, and continues if a user accepts it.

The markers are handmade; Kafka is real. test_wrong_starts has a whole detector with two kinds of loss.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Any

import msgspec
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.engine.statelog import EMPTY_LOG
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign, FraudError, HistoryLost, OffsetsLost
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
from fraud_rules.stream.checkpoint.identity import declared_fields
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.driver import admission
from fraud_rules.stream.driver.admission import Admission, admit, check
from fraud_rules.stream.driver.job import DetectorJob, RebuildOrder
from fraud_rules.stream.driver.state_guard import new_position
from fraud_rules.stream.pins import NO_PIN, Pin
from fraud_rules.stream.work import WorkReport
from tests.support.kafka.open_transaction import open_transaction
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce

QUERY = "5b8bf551-4353-4c42-9e48-d17a75685ffe"
READ, THERE = 60, 100
"""Offsets of partition 0: the end of the finished batches, and the end of the topic."""


class Site:
    """A detector that has read `READ` of `THERE` transactions in two batches, and was stopped."""

    def __init__(self, topics: OwnTopics, project: Project) -> None:
        self.topics = topics
        self._spark: SparkSession | None = None
        settings = DetectorSettings(detector=topics.prefix.rstrip("-"), topics=topics.names)
        schema = TransactionSchema.load(project.config / "schema.yaml")
        self.job = DetectorJob(settings, schema, topics.kafka, SparkOptions(project.jars / "connector"))
        produce(topics.bootstrap, topics.names.transactions, [b"{}"] * THERE, partition=0)
        self.write(0, 30)
        self.write(1, READ)

    def ends(self, read: int) -> dict[str, dict[str, int]]:
        names = self.topics.names
        return {names.transactions: {"0": read, "1": 0}, names.rules: {"0": 0}, names.detector_ticks: {"0": 0}}

    def write(self, batch: int, read: int) -> None:
        self.send(batch, read)
        await_settled(self.topics.kafka, [self.topics.names.detector_marker, self.topics.names.detector_progress])

    def write_progress(self, batch: int, read: int) -> None:
        """Write only the progress record of a batch."""
        record = json.dumps(self.progress(batch, read)).encode()
        detector = self.job.settings.detector.encode()
        produce(self.topics.bootstrap, self.topics.names.detector_progress, [record], key=detector)

    def progress(self, batch: int, read: int) -> dict[str, Any]:
        return {"queryId": QUERY, "batchId": batch, "endOffsets": self.ends(read), "rulesEnd": 0}

    def send(self, batch: int, read: int) -> None:
        names, detector = self.topics.names, self.job.settings.detector.encode()
        ids = topic_ids(self.topics.kafka, [names.transactions, names.rules, names.detector_ticks])
        state = new_position(self.topics.kafka, self.job.settings)
        marker = Marker(QUERY, batch, self.ends(read), Pin(batch, 0), topics=ids, state=state)
        progress = self.progress(batch, read)
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
                return admit(job, rules, WorkReport(), lambda: self._session(job.spark))
            finally:
                if self._spark is not None:
                    stop_spark(self._spark)
                    self._spark = None

    def _session(self, options: SparkOptions) -> SparkSession:
        self._spark = build_session(options)
        return self._spark

    def refusal(self, error: type[FraudError] = OffsetsLost, **options: Any) -> str:
        """The reason why a start and its check are refused. Neither changes anything."""
        before = self.marker()
        with pytest.raises(error) as checked:
            check(replace(self.job, **options))
        with pytest.raises(error):
            self.start(**options)
        assert self.marker() == before
        return str(checked.value)

    def marker(self) -> Marker:
        await_settled(self.topics.kafka, [self.topics.names.detector_marker])
        text = last_record(self.topics.kafka, self.topics.names.detector_marker, self.job.settings.detector.encode())
        assert text is not None
        return Marker.decode(text)


def later(marker: Marker, starts: int = 1) -> Marker:
    """The marker after further starts without a batch."""
    return msgspec.structs.replace(marker, starts=marker.starts + starts)


READ_AND_WRITTEN = ("transactions", "rules", "detector-ticks", "detector-marker", "detector-progress", "detector-state")


@pytest.fixture
def site(broker: Broker, project: Project) -> Iterator[Site]:
    prefix = f"l{uuid.uuid4().hex[:8]}-"
    wanted = {prefix + name for name in READ_AND_WRITTEN}
    declared = [topic for topic in load_topics(project.config / "topics.yaml", prefix) if topic.name in wanted]
    names = TopicNames(**{field.name: prefix + str(field.default) for field in fields(TopicNames)})
    topic_admin.apply(broker.kafka, declared)
    yield Site(OwnTopics(broker.bootstrap, prefix, names, tuple(declared)), project)
    topic_admin.delete(broker.kafka, declared)


def test_a_release_with_another_number_of_tasks_continues(site: Site) -> None:
    before = site.marker()
    admitted = site.start(spark=replace(site.job.spark, tasks=7))
    assert admitted.marker == site.marker()
    assert (admitted.marker.place, admitted.marker.end_offsets) == (before.place, before.end_offsets)
    assert admitted.marker.fields == declared_fields(site.job.schema), "an earlier release wrote none"
    assert site.start().marker == later(admitted.marker)


def test_a_start_waits_for_a_transaction_that_hides_the_newest_marker(site: Site) -> None:
    """The visible marker is an older copy, so that the start would be refused."""
    site.write_progress(2, 70)
    assert "the marker is an older copy" in site.refusal(CheckpointDamaged)
    with ThreadPoolExecutor(2) as others:
        with open_transaction(site.topics, site.topics.names.detector_marker):
            site.send(2, 70)
            checked = others.submit(check, site.job)
            started = others.submit(site.start)
            for waiting in (checked, started):
                with pytest.raises(TimeoutError):
                    waiting.result(1.0)
        checked.result(60.0)
        admitted = started.result(60.0)
    assert admitted.marker.batch_id == 2


def test_the_check_of_a_start_is_right_while_the_detector_writes(site: Site) -> None:
    """The progress that the check has read must not be newer than the marker."""

    def work() -> None:
        for batch in range(2, 30):
            site.send(batch, READ)

    with ThreadPoolExecutor(1) as others:
        working = others.submit(work)
        while not working.done():
            check(site.job)
        working.result()
    assert site.start().marker.batch_id == 29


@pytest.mark.parametrize("kept", ["progress", "state"])
def test_a_lost_marker_is_no_first_start(kept: str, site: Site) -> None:
    """A first start would write all alerts again."""
    names, detector = site.topics.names, site.job.settings.detector
    site.recreate(names.detector_marker)
    if kept == "state":
        site.recreate(names.detector_progress)
        key = f"{detector}/3/head".encode()
        produce(site.topics.bootstrap, names.detector_state, [b"head"], key=key, partition=0)
        await_settled(site.topics.kafka, [names.detector_state])
    for refused in (check, lambda job: site.start()):
        with pytest.raises(CheckpointDamaged, match=f"has no marker of {detector}.*write all alerts again"):
            refused(site.job)


def test_a_new_detector_begins_with_a_marker_before_its_first_batch(site: Site) -> None:
    """So records that are lost before its first commit are named, too."""
    site.remove_up_to(20)
    site.job = replace(site.job, settings=replace(site.job.settings, detector=f"{site.job.settings.detector}-new"))
    admitted = site.start()
    marker = admitted.marker
    assert (marker.batch_id, marker.pin, marker.end_offsets) == (-1, NO_PIN, site.ends(20))
    assert admitted.state.versions == [EMPTY_LOG] * site.job.settings.key_groups
    assert site.start().marker == later(marker)
    site.remove_up_to(40)
    assert "-0 from 20 to 40: 20 records" in site.refusal()


def test_nothing_is_lost_while_the_next_record_is_there(site: Site) -> None:
    site.remove_up_to(READ)
    admitted = site.start(accept_loss=True)
    assert (admitted.new_losses, admitted.marker.lost) == ([], [])


def test_removed_records_are_named_accepted_and_reported(site: Site) -> None:
    site.remove_up_to(80)
    refusal = site.refusal()
    assert f"{site.topics.names.transactions}-0 from 60 to 80: 20 records" in refusal
    assert "--accept-loss" in refusal

    admitted = site.start(accept_loss=True)

    lost = [LostRecords(site.topics.names.transactions, 0, 60, 80, LossReason.REMOVED, 20)]
    assert (admitted.new_losses, admitted.marker.lost) == (lost, lost)
    assert site.marker() == admitted.marker
    assert site.marker().end_offsets == site.ends(80)
    again = site.start()
    assert (again.new_losses, again.marker.lost) == ([], lost), "the next batch reports it"


def test_a_second_loss_before_the_first_is_reported_is_added_to_it(site: Site) -> None:
    site.remove_up_to(80)
    site.start(accept_loss=True)
    site.remove_up_to(85)
    admitted = site.start(accept_loss=True)
    assert [(each.start, each.end) for each in admitted.marker.lost] == [(60, 80), (80, 85)]


Gone = Callable[[Site], None]


def removed(site: Site) -> None:
    site.remove_up_to(80)


def recreated(site: Site) -> None:
    site.recreate(site.topics.names.transactions)
    produce(site.topics.bootstrap, site.topics.names.transactions, [b"{}"] * 20, partition=0)
    site.remove_up_to(7)


@pytest.mark.parametrize(("gone", "first"), [pytest.param(removed, 80, marks=pytest.mark.long), (recreated, 7)])
def test_a_rebuild_continues_after_the_loss(gone: Gone, first: int, site: Site) -> None:
    gone(site)
    site.refusal(HistoryLost, rebuild=RebuildOrder("order"), accept_loss=True)
    options: dict[str, Any] = {"rebuild": RebuildOrder("order", partial=True)}
    site.refusal(**options)

    admitted = site.start(**options, accept_loss=True)

    assert admitted.marker.end_offsets[site.topics.names.transactions]["0"] == first
    assert admitted.marker.lost[0].end == first
    assert site.start(**options).marker == later(admitted.marker)
    if gone is recreated:
        assert admitted.state.versions == [EMPTY_LOG] * site.job.settings.key_groups


def test_the_loss_of_a_recreated_topic_is_named(site: Site) -> None:
    recreated(site)
    refusal = site.refusal()
    assert f"{site.topics.names.transactions}-0 from 60: the topic was created again and begins at 7" in refusal
    admitted = site.start(accept_loss=True)
    assert [(each.partition, each.start, each.end) for each in admitted.new_losses] == [(0, 60, 7), (1, 0, 0)]
    assert site.marker().end_offsets == site.ends(7)
    assert site.start().new_losses == []


def test_a_recreated_rule_log_is_never_accepted(site: Site) -> None:
    site.recreate(site.topics.names.rules)
    assert "an earlier topic" in site.refusal(CheckpointForeign, accept_loss=True)


def test_a_log_that_ends_before_the_read_offset_is_named(site: Site) -> None:
    site.write(2, THERE + 40)
    assert f"from {THERE} to {THERE + 40}: the log ends before" in site.refusal()
    site.start(accept_loss=True)
    assert site.marker().end_offsets == site.ends(THERE)


def test_a_rebuild_is_executed_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    before, order = site.marker(), RebuildOrder("order")
    rebuilt = site.start(rebuild=order).marker
    assert (before.rebuild, rebuilt.rebuild) == (None, "order")
    assert (rebuilt.place, rebuilt.end_offsets) == (before.place, before.end_offsets)

    def fails(*_: object, **__: object) -> None:
        raise AssertionError("the order was executed before")

    monkeypatch.setattr(admission, "replace_state", fails)
    assert site.start(rebuild=order).marker == later(rebuilt)
    assert site.start().marker == later(rebuilt, 2)
