"""Links on the page of a task: Spark's UI, the detector's logs, the runbook of the verdict, and the report of a job.

An operator publishes the addresses as soon as it knows them, so that the page also shows them while the task is
deferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import attrs
from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

from fraud_ops.paths import LOGS, report_path
from fraud_ops.runbooks import runbook_file, runbook_path
from fraud_rules_airflow.airflow_ui.address import base_url

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import TaskInstanceKey

    from fraud_ops.verdicts.observation import DetectorObservation
    from fraud_ops.verdicts.verdict import Health
    from fraud_rules.deploy.attempt import AttemptStatus


@attrs.define()
class _Published(BaseOperatorLink):
    """A link whose address the operator publishes under the link's XCom key."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return XCom.get_value(ti_key=ti_key, key=self.xcom_key) or ""


class SparkUi(_Published):
    """The UI of the detector's Spark, if Spark serves one."""

    name = "Spark UI"


class DetectorLogs(_Published):
    """The log of the running attempt, or of the last one."""

    name = "Detector logs"


class Runbook(_Published):
    """The runbook of the verdict or error."""

    name = "Runbook"


class Report(_Published):
    """The report of a re-evaluation or a what-if."""

    name = "Report"


LINKS = (SparkUi(), DetectorLogs(), Runbook())


def publish_links(context: Context, observation: DetectorObservation, health: Health) -> None:
    """Publish the addresses before the task ends."""
    attempt = observation.running or observation.attempt
    status = None if attempt is None else attempt.status
    ti = context["ti"]
    ti.xcom_push(key=SparkUi().xcom_key, value=(status.spark_ui if status else None) or "")
    ti.xcom_push(key=DetectorLogs().xcom_key, value=_log_address(status))
    ti.xcom_push(key=Runbook().xcom_key, value=base_url() + runbook_path(health))


def publish_runbook(context: Context, name: str) -> None:
    """Publish the runbook of an error, if the error has one."""
    if runbook_file(name).is_file():
        context["ti"].xcom_push(key=Runbook().xcom_key, value=base_url() + runbook_path(name))


def _log_address(status: AttemptStatus | None) -> str:
    if status is None or not status.log:
        return ""
    return f"{base_url()}{LOGS}?{urlencode({'path': status.log, 'host': status.host})}"


def report_address(kind: str, name: str) -> str:
    """The URL of a report (see `report_path`)."""
    return base_url() + report_path(kind, name)
