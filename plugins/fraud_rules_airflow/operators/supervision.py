"""Raises an alarm when nothing supervises the detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from fraud_ops.alarms import Alarm
from fraud_ops.verdicts.health import assess_detector, assess_supervision
from fraud_rules_airflow.airflow_ui.links import Runbook, publish_runbook
from fraud_rules_airflow.error_mapping import airflow_errors
from fraud_rules_airflow.operators.detector import DetectorOperator
from fraud_rules_airflow.operators.standing_alarms import StandingAlarms

if TYPE_CHECKING:
    from airflow.sdk import Context

_PART = "supervision"
"""Alarms without a part are those of the supervisor, which resolves them itself."""


class CheckSupervisionOperator(DetectorOperator):
    """Fails, with a standing alarm, if the detector should run, but no supervisor has checked it lately."""

    operator_extra_links = (Runbook(),)

    def execute(self, context: Context) -> str:
        with airflow_errors():
            observation, limits = self.hook().observe(), self.health_limits()
        found = assess_detector(observation, limits, observation.at_ms)
        verdict = assess_supervision(observation, limits, observation.at_ms)
        publish_runbook(context, (verdict or found).health)
        alarms = StandingAlarms(context, self.task_id, self.kafka_conn_id)
        if verdict is None:
            alarms.report({})
            return str(found)
        name = verdict.health.value
        alarms.report({name: Alarm(name, observation.detector, "; ".join(verdict.reasons), part=_PART)})
        raise AirflowFailException(str(verdict))
