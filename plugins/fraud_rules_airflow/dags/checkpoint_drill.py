"""Checks daily that the detector's state can be restored."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions, DagSchedule
from fraud_rules_airflow.operators.drill import RestoreDrillOperator

DOC = """
### The restore drill
Only a restore proves that the state is usable. Each day the drill reads the topic `detector-state` from outside, as a
host without views does. It checks each chunk against the digest in its name, restores the windows of each key group
into a scratch folder, and compares the versions with the markers before and after the read. The detector continues.
The drill writes nothing to Kafka and opens no producer, so it does not fence the detector.

The task's log and an event of the asset `fraud_checkpoint_drill` have the report as JSON: `batchId`, `markerMs` (the
time of its marker), `keyGroups`, `chunks`, `groupingStates`, `events`, `bytesRead`, `tookMs`, `faults`, `digest` (of
the whole state), `orphans` (chunks that no key group needs), `liveBytes` (without orphans) and `logBytes` (one copy of
the topic in Kafka). Any fault fails the task. `fraud_checkpoint_health` shows the newest drill, and raises the alarm
DRILL_OVERDUE if there was none for 26 hours.
"""

# By default, the first run can be about a time before the installation, which is past its deadline.
SCHEDULE = CronTriggerTimetable("30 3 * * *", timezone="UTC", run_immediately=timedelta(0))


def create_dag(
    options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_checkpoint_drill", schedule: DagSchedule = SCHEDULE
) -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Restores a copy of the state and compares it",
        DOC,
        tag="checkpoint",
        schedule=schedule,
        retries=1,
        deadline=options.deadline(timedelta(hours=2), "the restore drill has not ended in time"),
    ) as dag:
        RestoreDrillOperator(
            task_id="restore",
            doc_md="Restores the state from its topic, and compares digests.",
            execution_timeout=timedelta(hours=1),
        )
    return dag
