"""Reads the checkpoint of a detector from Kafka, without a JVM and without changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

from airflow.sdk import BaseHook

from fraud_ops.verdicts.checkpoint import CheckpointFacts, TopicFacts
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign, StateDamaged
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.ends import TopicEnds
from fraud_rules.kafka.reader import TopicReader, topic_ids
from fraud_rules.kafka.suitable import checkpoint_faults, partitions_short_of_replicas
from fraud_rules.kafka.topics import log_bytes, retentions_ms
from fraud_rules.kafka.unread import open_transactions
from fraud_rules.logs.batch_history import last_batch
from fraud_rules.logs.losses import find_losses


class CheckpointHook(BaseHook):
    """The checkpoint of one detector. Every method can raise BrokerUnavailable."""

    def __init__(self, kafka: KafkaConnection, settings: DetectorSettings) -> None:
        super().__init__()
        self.kafka = kafka
        self.settings = settings
        names = settings.topics
        self._own = (names.detector_marker, names.detector_progress, names.detector_state)

    def facts(self, now_ms: int, *, open_ms: int) -> CheckpointFacts:
        """The facts at `now_ms`, the broker's time. A transaction that is open for `open_ms` counts as stuck."""
        stuck = [each for each in open_transactions(self.kafka, self._own) if each.age_ms(now_ms) > open_ms]
        found = self._facts(now_ms, settled=False)
        if found.fault is not None and not stuck:
            # The transaction of a working detector can hide the record that is missing here.
            found = self._facts(now_ms, settled=True)
        return replace(found, stuck=[each.describe(now_ms) for each in stuck], now_ms=now_ms)

    def topics(self, facts: CheckpointFacts, now_ms: int) -> TopicFacts:
        """The facts of the input topics of the checkpoint. `now_ms` is the broker's time."""
        names, ends = list(facts.next_offsets), TopicEnds(self.kafka)
        written = ends.written({name: ends.partitions(name) for name in names})
        return TopicFacts(
            {name: {int(at): end for at, end in written[name].items()} for name in names},
            {name: dict(_unread_ages_ms(self.kafka, name, facts.next_offsets[name], now_ms)) for name in names},
            retentions_ms(self.kafka, names),
        )

    def _facts(self, now_ms: int, *, settled: bool) -> CheckpointFacts:
        try:
            found = self._checked(now_ms, settled=settled)
        except (CheckpointDamaged, StateDamaged) as error:
            return CheckpointFacts(fault=str(error))
        except CheckpointForeign as error:
            return CheckpointFacts(fault=str(error), foreign=True)
        return replace(
            found,
            unsuitable=checkpoint_faults(self.kafka, self.settings.topics),
            short_of_replicas=partitions_short_of_replicas(self.kafka, self._own),
            size_bytes=log_bytes(self.kafka, self.settings.topics.detector_state),
        )

    def _checked(self, now_ms: int, *, settled: bool) -> CheckpointFacts:
        """The facts of the marker. Raises CheckpointDamaged, CheckpointForeign or StateDamaged as a start would."""
        from fraud_rules.stream.checkpoint.identity import check_history, check_new, check_topics, is_recreated
        from fraud_rules.stream.checkpoint.marker import newest_marker
        from fraud_rules.stream.driver.state_guard import check_state

        kafka, names = self.kafka, self.settings.topics
        inputs = (names.transactions, names.rules)
        if missing := TopicEnds(kafka).missing([*inputs, names.detector_marker, names.detector_progress]):
            raise CheckpointDamaged(f"the topic {', '.join(missing)} was deleted: restore it from a backup")
        # A working detector writes batches meanwhile, so the marker is read after the records that must not be newer.
        last = last_batch(kafka, self.settings, settled=settled)
        newest = newest_marker(kafka, self.settings, settled=settled)
        if newest is None:
            check_new(kafka, self.settings, last, settled=settled)
            return CheckpointFacts()
        append_ms, marker = newest
        check_history(self.settings, marker, last)
        topics = topic_ids(kafka, inputs)
        check_topics(marker, topics, names.transactions)
        check_state(kafka, self.settings, marker, settled=settled)
        recreated = is_recreated(marker, topics, names.transactions)
        lost = find_losses(kafka, marker.end_offsets, names.transactions, recreated=recreated)
        return CheckpointFacts(
            batch_id=marker.batch_id,
            progress_batch_id=None if last is None else last.batch_id,
            age_ms=max(0, now_ms - append_ms),
            lost=[str(each) for each in lost],
            next_offsets={
                topic: {int(partition): end for partition, end in each.items()}
                for topic, each in marker.end_offsets.items()
                if topic in topics
            },
        )


def _unread_ages_ms(
    kafka: KafkaConnection, topic: str, next_offsets: Mapping[int, int], now_ms: int
) -> Iterator[tuple[int, int]]:
    """By partition, the age of the oldest record that no written batch has read. Other partitions are missing."""
    with TopicReader(kafka, topic) as reader:
        for partition in reader.partitions():
            first, end = reader.ends(partition)
            with closing(reader.read(max(first, next_offsets.get(partition, 0)), end, partition)) as unread:
                if (oldest := next(unread, None)) is not None:
                    yield partition, now_ms - oldest.append_ms
