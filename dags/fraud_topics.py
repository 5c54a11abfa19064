"""Keeps the topics as config/topics.yaml declares them."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.topics import ApplyTopicsOperator

DOC = """
### Topics
Creates what `config/topics.yaml` declares and is missing, and makes changes that lose nothing. A difference that would
delete records or change their meaning (fewer partitions, a shorter retention, another clean-up) is refused by name, and
then nothing at all is changed.
"""

with DAG(
    dag_id="fraud_topics",
    description="Creates and checks the topics",
    doc_md=DOC,
    schedule=timedelta(hours=6),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "topics"],
    default_args=defaults(),
    deadline=deadline(timedelta(minutes=30), "the topics could not be checked"),
):
    ApplyTopicsOperator(
        task_id="apply",
        doc_md="Creates, changes, or refuses.",
        execution_timeout=timedelta(minutes=5),
    )
