"""Starts Python workers: Spark's daemon, with the workers' libraries loaded before the first fork.

Without this module each worker loads pyarrow, numba and the compiled kernel after the fork, which takes seconds, and
Spark starts several workers at once. Here the workers share the loaded libraries and their memory. No thread may start
before the fork, so the workers open the Kafka clients themselves.
"""

from __future__ import annotations

import gc
import importlib
import os
from typing import Final

from fraud_rules.replay.kernel_cache import load_kernel
from fraud_rules.runtime.allocator import keep_freed_memory
from fraud_rules.stream.worker.preparation import preparation_reported

_SINGLE_THREADED: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_KEPT_BYTES: Final = 536_870_912
"""Freed memory that each worker keeps. The arrays of a large batch need some hundred megabytes."""

_PRELOADED: Final = (
    "pyspark.worker",
    "pyspark.testing.utils",
    "fraud_rules.stream.worker.evaluator_task",
)


def preload() -> None:
    """Load the workers' libraries and freeze them, because Spark runs the garbage collector after every task."""
    for name in _PRELOADED:
        importlib.import_module(name)
    load_kernel()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    os.environ.update(_SINGLE_THREADED)
    keep_freed_memory(_KEPT_BYTES)
    with preparation_reported():
        preload()
    from pyspark.daemon import manager

    manager()
