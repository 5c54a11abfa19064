"""The Spark session of a batch job, which ends with the job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from fraud_rules.spark.session import SparkOptions, build_session
from fraud_rules.spark.shutdown import stop_spark


@contextmanager
def batch_session(name: str, master: str, driver_memory: str) -> Iterator[SparkSession]:
    """Start Spark. Raises the ConfigErrors of `build_session`."""
    spark = build_session(SparkOptions(master=master, driver_memory=driver_memory, name=name))
    try:
        yield spark
    finally:
        stop_spark(spark)
