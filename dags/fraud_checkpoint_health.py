"""Checks the detector's checkpoint every five minutes, from outside."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.checkpoint import CheckCheckpointOperator

DOC = """
### The checkpoint, checked from outside
Reads the files of the checkpoint without Spark and without changes. It checks the age of the last commit, gaps in the
logs of offsets and commits, the state files of the last batch, checksums, size and growth, free disk space, the lag,
whether Kafka still has the first records of the next batch, and the rates of late and quarantined transactions.

The findings are a table in the task's log and an event of the asset `fraud_checkpoint`. A bad finding fails the task
and raises an alarm with a runbook.
"""

with DAG(
    dag_id="fraud_checkpoint_health",
    description="Checks the checkpoint without changing it",
    doc_md=DOC,
    schedule=timedelta(minutes=5),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "checkpoint"],
    default_args=defaults(retries=1, alarm=None),
    deadline=deadline(timedelta(minutes=10), "the checkpoint was not checked in time"),
):
    CheckCheckpointOperator(
        task_id="check",
        doc_md="Writes a table of findings; fails if one is bad.",
        execution_timeout=timedelta(minutes=4),
    )
