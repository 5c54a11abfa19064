"""Append times of Kafka's records in Spark's queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fraud_rules.codec.transactions.codec import NO_APPEND_TIME

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["append_ms_of_column", "append_time"]

_LOG_APPEND_TIME: Final = 1
"""The type of the broker's timestamps in Spark's column `timestampType`."""

_US_A_MS: Final = 1_000


def append_time(transactions: str, *, producer_times: bool) -> Column:
    """The column `timestamp`. Unless the settings accept `producer_times`, it is null for a record of the topic
    `transactions` whose timestamp is its producer's.
    """
    from pyspark.sql import functions as f

    timestamp = f.col("timestamp")
    if producer_times:
        return timestamp
    is_known = (f.col("topic") != transactions) | (f.col("timestampType") == _LOG_APPEND_TIME)
    return f.when(is_known, timestamp).alias("timestamp")


def append_ms_of_column(timestamps: pa.Array) -> NDArray[np.int64]:
    """The append times in epoch ms, int64[n]. `NO_APPEND_TIME` for a null."""
    append_us = timestamps.cast(pa.int64())
    known_us = append_us.fill_null(NO_APPEND_TIME * _US_A_MS) if append_us.null_count else append_us
    append_ms: NDArray[np.int64] = known_us.to_numpy() // _US_A_MS
    return append_ms
