"""The restore drill: restores a copy of the detector's state beside the detector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from fraud_rules_airflow.airflow_ui.links import Runbook, publish_runbook
from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.operators.detector import DetectorOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

DRILL = Asset(name="fraud_checkpoint_drill", uri="fraud://detector/checkpoint/drill", group="fraud")
"""The asset of the drills. Each event has the report of a drill that has restored the state."""

_LEAST_BATCHES = 10


class RestoreDrillOperator(DetectorOperator):
    """Restores the state from the topic `detector-state` into a scratch folder, and compares it with the markers.

    The drill opens no producer, so it does not fence the detector. A fault fails the task without a retry.
    """

    operator_extra_links = (Runbook(),)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(outlets=[DRILL], **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the drill and return its report. Skips a detector with too few batches."""
        from fraud_rules.model.schema import TransactionSchema
        from fraud_rules.stream.drill import drill

        hook = self.hook()
        with airflow_errors(context):
            observation = hook.observe_to_decide()
            if observation.progress is None or observation.progress.progress.batch_id < _LEAST_BATCHES:
                raise AirflowSkipException(
                    f"the detector has finished fewer than {_LEAST_BATCHES} batches: there is too little to restore"
                )
            schema = TransactionSchema.load(hook.project.config / "schema.yaml")
            report = drill(hook.kafka, hook.settings, schema)
        document: dict[str, Any] = msgspec.to_builtins(report)
        self.log.info("%s", msgspec.json.encode(document).decode())
        if not report.right:
            publish_runbook(context, "StateDamaged")
            raise AirflowFailException(f"StateDamaged: {'; '.join(report.faults[:3])}")
        context["outlet_events"][DRILL].extra = document
        return document
