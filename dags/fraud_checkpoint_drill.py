"""Tries, daily, whether the checkpoint could be restored."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.drill import RestoreDrillOperator

DOC = """
### The restore drill
A checkpoint that nobody has ever restored is a hope. Daily, the last finished batch is pinned and its files are copied;
the copy is read through Spark's state reader, the windows of each key group are made from it, as a start would, and
what was read is compared, by digest, with the original. The detector goes on meanwhile: nothing is written to its
checkpoint, and no producer is opened, so that its epoch is not touched.
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
    deadline=deadline(timedelta(hours=2), "the restore drill has not ended"),
):
    RestoreDrillOperator(
        task_id="restore",
        doc_md="Copies, restores and compares.",
        execution_timeout=timedelta(hours=1),
    )
