"""Reads Kafka's records between two offsets as a table of Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.lost_records import Offsets

__all__ = ["records_between"]

_MAX_FETCH_BYTES: Final = "16777216"
_OPTIONS: Final = {
    "failOnDataLoss": "true",
    "kafka.isolation.level": "read_committed",
    "kafka.max.poll.records": "5000",
    "kafka.fetch.max.bytes": _MAX_FETCH_BYTES,
    "kafka.max.partition.fetch.bytes": _MAX_FETCH_BYTES,
}


def records_between(
    spark: SparkSession, kafka: KafkaConnection, starts: Offsets, ends: Offsets, further: Mapping[str, str]
) -> DataFrame:
    """The committed records from `starts` to below `ends`, with the columns of Spark's Kafka source. The query fails if
    Kafka no longer has one of them. `further` are more options of the source.
    """
    options = {
        **kafka.spark(),
        **_OPTIONS,
        "assign": json.dumps({topic: [int(partition) for partition in places] for topic, places in ends.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        **further,
    }
    return spark.read.format("kafka").options(**options).load()
