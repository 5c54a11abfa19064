"""Creates and changes the topics as config/topics.yaml declares them."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions, DagSchedule
from fraud_rules_airflow.operators.topics import ApplyTopicsOperator

DOC = """
### Topics
Creates the missing topics of `config/topics.yaml`, and makes changes that lose no data. If a change would delete
records or change their meaning (fewer partitions, a shorter retention, another clean-up), the DAG names and refuses it.
It then makes no change at all.
"""


def create_dag(
    options: DagOptions = DEFAULTS,
    *,
    dag_id: str = "fraud_topics",
    schedule: DagSchedule = timedelta(hours=6),
) -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Creates and checks the topics",
        DOC,
        tag="topics",
        schedule=schedule,
        deadline=options.deadline(timedelta(minutes=30), "the topics were not checked in time"),
    ) as dag:
        ApplyTopicsOperator(
            task_id="apply",
            doc_md="Creates and changes topics, or refuses.",
            execution_timeout=timedelta(minutes=5),
        )
    return dag
