"""The restore drill: a job beside the detector that restores a copy of its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from fraud_ops.error_mapping import airflow_errors
from fraud_ops.hooks.detector import FraudDetectorHook
from fraud_ops.operators.batch import SparkJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from fraud_rules.kafka.connection import KafkaConnection

__all__ = ["RestoreDrillOperator"]

_CONF = {"spark.log.level": "WARN", "spark.ui.enabled": "false"}
_LEAST_BATCHES = 10


class RestoreDrillOperator(SparkJobOperator):
    """Restores the state from the topic `detector-state`, and compares it with the markers.

    The job opens no producer, so it does not fence the detector.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(script="drill", conf=_CONF, **kwargs)

    def execute(self, context: Context) -> None:
        """Run the drill. Skips a detector with too few batches."""
        with airflow_errors(context):
            observation = FraudDetectorHook(self.kafka_conn_id, self.spark_conn_id).observe_to_decide()
            if observation.progress is None or observation.progress.progress.batch_id < _LEAST_BATCHES:
                raise AirflowSkipException(
                    f"the detector has finished fewer than {_LEAST_BATCHES} batches: there is too little to restore"
                )
        super().execute(context)

    def _places(self, kafka: KafkaConnection, master: str) -> list[str]:
        return ["--bootstrap", kafka.bootstrap]
