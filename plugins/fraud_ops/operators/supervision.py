"""Raises an alarm when nothing supervises the detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from fraud_ops.airflow_ui.links import publish_links
from fraud_ops.alarms import Alarm
from fraud_ops.error_mapping import airflow_errors
from fraud_ops.hooks.alarms import AlarmHook
from fraud_ops.operators.detector import DetectorOperator
from fraud_ops.verdicts.health import health, unsupervised

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["CheckSupervisionOperator"]


class CheckSupervisionOperator(DetectorOperator):
    """Fails with an alarm if the detector should run and has had no supervisor for a while."""

    def execute(self, context: Context) -> str:
        with airflow_errors():
            seen, limits = self.hook().observe(), self.health_limits()
        found = health(seen, limits, seen.at_ms)
        verdict = unsupervised(seen, limits, seen.at_ms)
        publish_links(context, seen, (verdict or found).health)
        if verdict is None:
            return str(found)
        AlarmHook().raise_alarm(Alarm(verdict.health.value, seen.detector, "; ".join(verdict.reasons)))
        raise AirflowFailException(str(verdict))
