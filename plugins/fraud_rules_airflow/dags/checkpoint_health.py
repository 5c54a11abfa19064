"""Checks the detector's checkpoint and its state every five minutes, from outside."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions, DagSchedule
from fraud_rules_airflow.operators.checkpoint import CheckCheckpointOperator

DOC = """
### The checkpoint, checked from outside
The checkpoint of the detector is its newest record in `detector-marker`. The check reads it and the topics that it
names, without Spark and without changes: the age of the marker; whether the progress, the inputs, the settings and
the topic `detector-state` fit it, as a start would check; open transactions that hide records of these topics; the
size, the live share and the settings of `detector-state`; the newest restore drill; replicas in sync; the lag; whether
Kafka still has the first records of the next batch, and for how long; and the rates of late and quarantined
transactions. The daily `fraud_checkpoint_drill` reads the content of the state.

The findings are a table in the task's log and an event of the asset `fraud_checkpoint`. A bad finding fails the task
and raises an alarm with a runbook.
"""

# A new installation has no checkpoint yet, so the first run need not be at once, beside the detector's start.
SCHEDULE = CronTriggerTimetable("*/5 * * * *", timezone="UTC", run_immediately=timedelta(0))


def create_dag(
    options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_checkpoint_health", schedule: DagSchedule = SCHEDULE
) -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Checks the checkpoint and the state without changing them",
        DOC,
        tag="checkpoint",
        schedule=schedule,
        starts_paused=False,
        retries=1,
        alarm=None,
        deadline=options.deadline(timedelta(minutes=10), "the checkpoint was not checked in time"),
    ) as dag:
        CheckCheckpointOperator(
            task_id="check",
            doc_md="Writes a table of findings; fails if one is bad.",
            execution_timeout=timedelta(minutes=4),
        )
    return dag
