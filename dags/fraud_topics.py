"""Creates and changes the topics as config/topics.yaml declares them."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_rules_airflow.dag_defaults import TAGS, deadline, defaults
from fraud_rules_airflow.operators.topics import ApplyTopicsOperator

DOC = """
### Topics
Creates the missing topics of `config/topics.yaml`, and makes changes that lose no data. If a change would delete
records or change their meaning (fewer partitions, a shorter retention, another clean-up), the DAG names and refuses it.
It then makes no change at all.
"""

with DAG(
    dag_id="fraud_topics",
    description="Creates and checks the topics",
    doc_md=DOC,
    schedule=timedelta(hours=6),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    tags=[*TAGS, "topics"],
    default_args=defaults(),
    deadline=deadline(timedelta(minutes=30), "the topics were not checked in time"),
):
    ApplyTopicsOperator(
        task_id="apply",
        doc_md="Creates and changes topics, or refuses.",
        execution_timeout=timedelta(minutes=5),
    )
