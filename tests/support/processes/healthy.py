"""Waits for a local Airflow."""

from __future__ import annotations

from fraud_local.airflow import LocalAirflow
from tests.support.waiting import until


def await_healthy(airflow: LocalAirflow) -> None:
    """Wait until every component reports that it is healthy. Raises AirflowFailed if one has ended."""

    def is_healthy() -> bool:
        if not airflow.unhealthy():
            return True
        airflow.check()
        return False

    until(is_healthy, f"Airflow's components are healthy (logs: {airflow.logs})", 300.0, 0.1)
