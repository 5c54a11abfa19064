"""Starts Python workers: Spark's own daemon, with what every worker needs loaded before the first one is forked.

A worker of Spark's own loads pyarrow, numba and the compiled kernel after the fork, seconds of work in each, and Spark
starts several at once. Forked from here they share it, memory included. Nothing may start a thread before the fork;
that is why Kafka clients are opened by the workers.
"""

from __future__ import annotations

import gc
import importlib
import os
from typing import Final

_SINGLE_THREADED: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_PRELOADED: Final = (
    "pyspark.worker",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.testing.utils",
    "fraud_rules.spark.fanout_stage",
    "fraud_rules.spark.stateful_stage",
)


def preload() -> None:
    """Load what workers use, beyond the reach of the garbage collector, which Spark runs after every task."""
    for name in _PRELOADED:
        importlib.import_module(name)
    _run_kernel()
    gc.collect()
    gc.freeze()


def _run_kernel() -> None:
    """Evaluate one rule once: the compiled kernel is read from its cache, or compiled, when it is first called."""
    from fraud_rules.replay import replay
    from fraud_rules.schema import Field, FieldType, TransactionSchema
    from fraud_rules.settings import DetectorSettings

    fields = (
        Field("transactionId", FieldType.LONG),
        Field("eventTime", FieldType.TIMESTAMP),
        Field("amount", FieldType.DECIMAL, precision=18, scale=2),
    )
    rule = {
        "ruleId": 1,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["transactionId"],
        "aggregateFieldName": "amount",
        "aggregatorFunctionType": "SUM",
        "limitOperatorType": ">",
        "limit": 0,
        "windowMinutes": 1,
    }
    transaction = {"transactionId": 1, "eventTime": 1, "amount": "1.00"}
    steps = [{"at": 1, "rule": rule}, {"at": 1, "tx": transaction}, {"at": 2, "tx": transaction}]
    replay({"steps": steps}, TransactionSchema(fields), DetectorSettings())


if __name__ == "__main__":
    os.environ.update(_SINGLE_THREADED)
    preload()
    from pyspark.daemon import manager

    manager()
