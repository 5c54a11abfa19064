"""Keeps exactly one healthy detector running: deploys what is declared, then looks after it."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, TriggerRule

from fraud_ops.dag_defaults import TAGS, deadline, defaults
from fraud_ops.operators.detector import DeployOperator
from fraud_ops.operators.supervise import SuperviseOperator

DOC = """
### The detector, deployed and supervised
Each run ensures that the release declared here (`config/`, the code of this Airflow, the connection `spark_default`)
is the one that is asked for, then looks after the detector for half an hour, deferred: no worker slot is held while
nothing happens. A changed declaration ends the run early, and the next one deploys it on the same checkpoint.

The detector is **not** a child of this DAG. Runs may be paused, cleared, marked, or deleted: it goes on, and the next
run adopts it. To stop it, use `fraud_detector_ops`; it then stays stopped until somebody starts it.

What is wrong, if anything, is the last line of the task's log, an alarm, and a runbook behind the button *Runbook*.
"""

with DAG(
    dag_id="fraud_detector",
    description="Deploys the detector and looks after it",
    doc_md=DOC,
    schedule=timedelta(seconds=5),  # at once after the run before, which `max_active_runs` waits for
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "supervision"],
    default_args=defaults(),
    deadline=deadline(timedelta(minutes=90), "a supervising run has not ended"),
):
    deploy = DeployOperator(
        task_id="deploy",
        doc_md="Asks for the declared release, unless it is asked for already.",
        execution_timeout=timedelta(minutes=5),
    )
    supervise = SuperviseOperator(
        task_id="supervise",
        doc_md="Waits, deferred, for something to do; starts the detector again when it died or hangs.",
        trigger_rule=TriggerRule.ALL_DONE,
        retries=20,
        retry_delay=timedelta(seconds=5),
    )
    deploy >> supervise
