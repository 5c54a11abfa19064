"""The restore drill: a Spark batch job beside the detector that restores a copy of its checkpoint."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowSkipException

from fraud_ops.error_mapping import airflow_errors
from fraud_ops.hooks.connections import KAFKA, SPARK, connection, master_of
from fraud_ops.hooks.detector import FraudDetectorHook
from fraud_ops.operators.decisions import last_release

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["RestoreDrillOperator"]

_CONF = {"spark.log.level": "WARN", "spark.ui.enabled": "false"}
_LEAST_BATCHES = 10


class RestoreDrillOperator(SparkSubmitOperator):
    """Restores a copy of the last finished batch and compares it with the original, through the Spark connection.

    The job opens no producer, so it does not fence the detector.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, kafka_conn_id: str = KAFKA, spark_conn_id: str = SPARK, **kwargs: Any) -> None:
        super().__init__(application="", conn_id=spark_conn_id, name="fraud-restore-drill", conf=_CONF, **kwargs)
        self.kafka_conn_id = kafka_conn_id
        self.spark_conn_id = spark_conn_id

    def execute(self, context: Context) -> None:
        with airflow_errors():
            master_of(
                connection(self.spark_conn_id)
            )  # without this, the hook only logs a missing connection, and uses YARN
            observation = FraudDetectorHook(self.kafka_conn_id, self.spark_conn_id).observe_to_decide()
            if observation.progress is None or observation.progress.progress.batch_id < _LEAST_BATCHES:
                raise AirflowSkipException(
                    f"the detector has finished fewer than {_LEAST_BATCHES} batches: there is too little to restore"
                )
            release = last_release(observation)
        found = importlib.util.find_spec("drill")
        assert found is not None, "the entry script is part of the wheel"
        self.application = str(found.origin)
        self.application_args = ["--checkpoint", release.checkpoint]
        super().execute(context)
