"""Raises UNSUPERVISED: a detector that is to run, and nobody looks after it."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.supervision import CheckSupervisionOperator

DOC = """
### Who looks after the supervisor
A paused `fraud_detector`, or one whose runs keep failing, harms nothing at first: the detector goes on. But nobody
would start it again. This DAG reads when somebody looked last, and fails with an alarm when that is more than two
minutes ago. That Airflow as a whole is dead it cannot tell: `fraud heartbeat` does, from outside.
"""

with DAG(
    dag_id="fraud_supervision",
    description="Alarms when nobody supervises the detector",
    doc_md=DOC,
    schedule=timedelta(minutes=2),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "supervision"],
    default_args=defaults(retries=1, alarm=None),
    deadline=deadline(timedelta(minutes=10), "the check of the supervision has not ended"),
):
    CheckSupervisionOperator(
        task_id="check_supervision",
        doc_md="Fails where the last look is too long ago.",
        execution_timeout=timedelta(minutes=2),
    )
