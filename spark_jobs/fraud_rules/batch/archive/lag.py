"""How far the archive is behind Kafka: whether retention removes records before their copy, and what hides records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fraud_rules.batch.archive.manifest import Manifest
from fraud_rules.configuration.settings import TopicNames
from fraud_rules.errors import ArchiveBehind, TransactionOpen
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import settled_ends, topic_starts
from fraud_rules.kafka.reader import TopicReader, first_uncommitted

_WITHIN_S: Final = 30.0


def used_share(manifest: Manifest, retention_ms: Mapping[str, int | None], now_ms: int) -> dict[str, float]:
    """The share of each topic's retention that has passed since the archive was complete. At 1.0 records are lost."""
    behind_ms = max(0, now_ms - manifest.complete_until_ms)
    kept = {topic: retention_ms.get(topic) for topic in manifest.ends}
    return {topic: round(behind_ms / kept_ms, 4) for topic, kept_ms in kept.items() if kept_ms}


def check_kept(kafka: KafkaConnection, topics: TopicNames, manifest: Manifest) -> None:
    """Raise ArchiveBehind if retention has removed transactions before they were archived."""
    archived = manifest.ends.get(topics.transactions, {})
    for partition, first in topic_starts(kafka, topics.transactions).items():
        end = archived.get(str(partition))
        if end is not None and first > end:
            raise ArchiveBehind(
                f"{topics.transactions}-{partition}: records {end} to {first} were removed before they were archived"
            )


def readable_until(kafka: KafkaConnection, topic: str, started_ms: int, within_s: float = _WITHIN_S) -> tuple[int, str]:
    """The time before which all records of a topic can be read now, at most `started_ms`, and the reason if it is less.

    Waits for open transactions, because most of them end at once. Raises BrokerUnavailable.
    """
    with TopicReader(kafka, topic) as reader:
        try:
            settled_ends(reader, within_s)
        except TransactionOpen as error:
            hidden = [first_uncommitted(kafka, topic, at, reader.ends(at)[1]) for at in reader.partitions()]
            return min([started_ms, *(each.append_ms for each in hidden if each is not None)]), str(error)
    return started_ms, ""
