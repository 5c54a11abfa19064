"""Copies the logs to the archive every hour, and checks its lead over their retention, and the nights."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from fraud_rules_airflow.dags.options import DEFAULTS, DagOptions, DagSchedule
from fraud_rules_airflow.operators.archive_checks import ArchiveAheadOperator, DaysEvaluatedOperator
from fraud_rules_airflow.operators.batch import ArchiveOperator

DOC = """
### The archive
*archive* copies new records of `transactions`, `rules`, `alerts`, `detector-progress` and related topics to Parquet,
exactly once. A killed run commits nothing, and the next run continues. *ahead* raises **ArchiveBehind** when half of a
topic's retention has passed since the archive was complete, before any record is lost. *evaluated* raises
**DAYS_MISSED** while an archived day has no evaluation a day after its end.

The archive is in `var/archive`, or in the folder that the Airflow variable `fraud_archive` names. See docs/data.md.
"""

# Not at the full hour: at ten past midnight, the previous day is complete. By default, the first run can be about a
# time before the installation.
SCHEDULE = CronTriggerTimetable("10 * * * *", timezone="UTC", run_immediately=timedelta(0))


def create_dag(
    options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_archive", schedule: DagSchedule = SCHEDULE
) -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "The logs as Parquet, transactions by event day",
        DOC,
        tag="nightly",
        schedule=schedule,
        deadline=options.deadline(timedelta(minutes=50), "the archive was not updated within the hour"),
    ) as dag:
        archive = options.batch_task(
            ArchiveOperator,
            "archive",
            task_id="archive",
            doc_md="Copies new records of the logs.",
            execution_timeout=timedelta(minutes=45),
        )
        ahead = ArchiveAheadOperator(
            task_id="ahead",
            doc_md="Fails before retention removes records that are not archived.",
            trigger_rule="all_done",
            execution_timeout=timedelta(minutes=2),
        )
        evaluated = DaysEvaluatedOperator(
            task_id="evaluated",
            doc_md="Raises an alarm while past days have no evaluation.",
            trigger_rule="all_done",
            execution_timeout=timedelta(minutes=2),
        )
        archive >> [ahead, evaluated]
    return dag
