"""Removes closed cases and rows of the audit log beyond their retention, every day."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions, DagSchedule
from fraud_rules_airflow.operators.retention import RetentionOperator

DOC = """
### Retention
Lets the control plane remove closed cases with their comments, ended snoozes, and rows of the audit log that are older
than `retention` in `config/control-plane.yaml` permits. Without these settings, nothing is removed. The audit log then
starts at the hash of the last removed row, and still verifies.

The connection `fraud_retention` has the address of the control plane and a token of an admin. See docs/privacy.md.
"""

SCHEDULE = CronTriggerTimetable("40 2 * * *", timezone="UTC", run_immediately=timedelta(0))


def create_dag(
    options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_retention", schedule: DagSchedule = SCHEDULE
) -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Removes data beyond its retention",
        DOC,
        tag="privacy",
        schedule=schedule,
        deadline=options.deadline(timedelta(minutes=30), "data beyond its retention was not removed in time"),
    ) as dag:
        RetentionOperator(
            task_id="remove",
            doc_md="Removes data beyond its retention.",
            execution_timeout=timedelta(minutes=5),
        )
    return dag
