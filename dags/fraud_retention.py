"""Removes closed cases and rows of the audit log beyond their retention, every day."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from fraud_rules_airflow.dag_defaults import TAGS, deadline, defaults
from fraud_rules_airflow.operators.retention import RetentionOperator

DOC = """
### Retention
Lets the control plane remove closed cases with their comments, ended snoozes, and rows of the audit log that are older
than `retention` in `config/control-plane.yaml` permits. Without these settings, nothing is removed. The audit log then
starts at the hash of the last removed row, and still verifies.

The connection `fraud_retention` has the address of the control plane and a token of an admin. See docs/privacy.md.
"""

with DAG(
    dag_id="fraud_retention",
    description="Removes data beyond its retention",
    doc_md=DOC,
    schedule=CronTriggerTimetable("40 2 * * *", timezone="UTC", run_immediately=timedelta(0)),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    tags=[*TAGS, "privacy"],
    default_args=defaults(),
    deadline=deadline(timedelta(minutes=30), "data beyond its retention was not removed in time"),
):
    RetentionOperator(
        task_id="remove",
        doc_md="Removes data beyond its retention.",
        execution_timeout=timedelta(minutes=5),
    )
