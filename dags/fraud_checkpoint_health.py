"""Looks at the detector's checkpoint every five minutes, from outside."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.checkpoint import CheckCheckpointOperator

DOC = """
### The checkpoint, looked at from outside
Reads the files of the checkpoint as they are, without Spark and without changing anything: the age of the last commit,
gaps in the logs of offsets and commits, the state files of the last batch, checksums, size and growth, free disk, lag,
whether Kafka still has what the next batch begins with, and the rates of late and quarantined transactions.

The findings are a table in the task's log and an event of the asset `fraud_checkpoint`. A bad one fails the task and
raises an alarm, whose runbook says what to do.
"""

with DAG(
    dag_id="fraud_checkpoint_health",
    description="Checks the checkpoint without touching it",
    doc_md=DOC,
    schedule=timedelta(minutes=5),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "checkpoint"],
    default_args=defaults(retries=1, alarm=None),
    deadline=deadline(timedelta(minutes=10), "the checkpoint could not be checked"),
):
    CheckCheckpointOperator(
        task_id="check",
        doc_md="A table of findings; fails where one is bad.",
        execution_timeout=timedelta(minutes=4),
    )
