"""Checks daily that the checkpoint can be restored."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.drill import RestoreDrillOperator

DOC = """
### The restore drill
Only a restore proves that a checkpoint is usable. Each day the drill pins the last finished batch and copies its files.
It reads the copy with Spark's state reader, restores the windows of each key group as a start does, and compares
digests with the original. The detector continues. The drill writes nothing to its checkpoint and opens no producer,
so it does not fence the detector.
"""

with DAG(
    dag_id="fraud_checkpoint_drill",
    description="Restores a copy of the checkpoint and compares it",
    doc_md=DOC,
    schedule="30 3 * * *",
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "checkpoint"],
    default_args=defaults(retries=1),
    deadline=deadline(timedelta(hours=2), "the restore drill has not ended in time"),
):
    RestoreDrillOperator(
        task_id="restore",
        doc_md="Copies the checkpoint, restores it, and compares digests.",
        execution_timeout=timedelta(hours=1),
    )
