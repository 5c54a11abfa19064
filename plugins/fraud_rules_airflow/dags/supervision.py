"""Raises UNSUPERVISED when nothing supervises a detector that should run."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions, DagSchedule
from fraud_rules_airflow.operators.supervision import CheckSupervisionOperator

DOC = """
### Check of the supervisor
If `fraud_detector` is paused or its runs fail, the detector continues at first. But after a failure no supervisor would
restart it. This DAG reads the time of the last observation, and fails with an alarm when it is more than two minutes
ago. It cannot detect that Airflow itself is dead: `fraud detector heartbeat` does, from outside.
"""

# A new installation has no detector yet, so the first run need not be at once, beside the detector's start.
SCHEDULE = CronTriggerTimetable("*/2 * * * *", timezone="UTC", run_immediately=timedelta(0))


def create_dag(
    options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_supervision", schedule: DagSchedule = SCHEDULE
) -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Raises an alarm when nothing supervises the detector",
        DOC,
        tag="supervision",
        schedule=schedule,
        starts_paused=False,
        retries=1,
        alarm=None,
        deadline=options.deadline(timedelta(minutes=10), "the check of the supervisor has not ended in time"),
    ) as dag:
        CheckSupervisionOperator(
            task_id="check_supervision",
            doc_md="Fails if the last observation is too old.",
            execution_timeout=timedelta(minutes=2),
        )
    return dag
