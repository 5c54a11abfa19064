"""Has the workers prepare the result of a warm-up while batches continue, so that the batch which adds it is short."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from fraud_rules.logs.warm_up_log import WarmUpResult
from fraud_rules.stream.driver.placement import SteadyExecutor, one_task
from fraud_rules.stream.driver.rule_pinning import RulePinner
from fraud_rules.stream.worker.context import PIN_PROPERTY, WorkerContext
from fraud_rules.stream.worker.prepare_stage import PrepareStage

__all__ = ["WarmUpPreparation"]

_log = logging.getLogger(__name__)


class WarmUpPreparation:
    """Prepares results on the executor of small batches.

    Each key group is a job of its own with one task, so that a batch waits for one key group at most.
    """

    def __init__(self, spark: SparkSession, context: WorkerContext, pinner: RulePinner) -> None:
        self._spark = spark.sparkContext
        self._context = context
        self._pinner = pinner
        self._executor = SteadyExecutor(self._spark)
        self._sweeps = True

    def prepare(self, offset: int, result: WarmUpResult) -> None:
        """Prepare a result that no batch has added. After an error, the batch adds it without preparation."""
        pin = self._pinner.newest_pin()
        if result.refused or str(result.version) in pin.warm_ups:
            return
        try:
            self._spark.setLocalProperty(PIN_PROPERTY, pin.encode().decode())  # of this thread
            for part in result.parts:
                if part.rows:
                    stage = PrepareStage(self._context, offset, result.digest, part.key_group, self._sweeps)
                    self._sweeps = False
                    one_task(self._spark, self._executor.choose()).mapPartitions(stage.run).collect()
        except Exception:  # noqa: BLE001 - the batch reads the rows itself
            _log.exception("the warm-up of rule version %d is added without preparation", result.version)
