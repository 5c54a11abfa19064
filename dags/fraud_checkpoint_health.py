"""Checks the detector's checkpoint and its state every five minutes, from outside."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from fraud_rules_airflow.dag_defaults import TAGS, deadline, defaults
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

with DAG(
    dag_id="fraud_checkpoint_health",
    description="Checks the checkpoint and the state without changing them",
    doc_md=DOC,
    # A new installation has no checkpoint yet, so the first run need not be at once, beside the detector's start.
    schedule=CronTriggerTimetable("*/5 * * * *", timezone="UTC", run_immediately=timedelta(0)),
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
