"""Registers what Airflow is to know of `fraud_ops`. No logic."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from fraud_ops.links import DetectorLogs, Runbook, SparkUi


class FraudPlugin(AirflowPlugin):
    """The links that operators of `fraud_ops` show; they are deserialized by these names."""

    name = "fraud_ops"
    operator_extra_links = [SparkUi(), DetectorLogs(), Runbook()]  # noqa: RUF012 -- Airflow reads a list
