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

from fraud_rules.replay.kernel_cache import load_kernel

_SINGLE_THREADED: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_PRELOADED: Final = (
    "pyspark.worker",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.testing.utils",
    "fraud_rules.stream.worker.fanout_stage",
    "fraud_rules.stream.worker.stateful_stage",
)


def preload() -> None:
    """Load what workers use, beyond the reach of the garbage collector, which Spark runs after every task."""
    for name in _PRELOADED:
        importlib.import_module(name)
    load_kernel()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    os.environ.update(_SINGLE_THREADED)
    preload()
    from pyspark.daemon import manager

    manager()
