"""Keeps exactly one healthy detector running: deploys the declared release, then supervises it."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, TriggerRule

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions
from fraud_rules_airflow.operators.detector import DeployOperator
from fraud_rules_airflow.operators.supervise import SuperviseOperator

DOC = """
### The detector, deployed and supervised
Each run requests the declared release (`config/`, the code of this Airflow, the connection `spark_default`), unless the
newest intent already requests it. The run then supervises the detector for half an hour. The task `supervise` is
deferred, so it needs no worker slot while it waits. If the declaration changes, the run ends early, and the next run
deploys the new release, which continues after the last batch.

The detector is **not** a child of this DAG. You may pause, clear, mark or delete runs: the detector continues, and the
next run supervises it. To stop the detector, use `fraud_detector_ops`. The detector then stays stopped until a user
starts it.

If the detector has a problem, the last line of the task's log names it, an alarm reports it, and the button *Runbook*
opens its page.
"""


def create_dag(options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_detector") -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Deploys and supervises the detector",
        DOC,
        tag="supervision",
        schedule=timedelta(seconds=5),  # with `max_active_runs`: a new run starts right after the previous one
        dagrun_timeout=timedelta(minutes=60),  # a run that never ends would prevent the next run
        deadline=options.deadline(timedelta(minutes=50), "a run of fraud_detector has not ended in time"),
    ) as dag:
        deploy = DeployOperator(
            task_id="deploy",
            doc_md="Requests the declared release, unless the newest intent already requests it.",
            execution_timeout=timedelta(minutes=5),
        )
        supervise = SuperviseOperator(
            task_id="supervise",
            deploy_task_id=deploy.task_id,
            doc_md="Supervises the detector in a deferred task; restarts a dead or stalled detector.",
            trigger_rule=TriggerRule.ALL_DONE,
            retries=20,
            retry_delay=timedelta(seconds=5),
        )
        deploy >> supervise
    return dag
