"""Evaluates the previous day again, with all its data, and publishes missing and spurious alerts as corrections."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from airflow.sdk import DAG, CronPartitionTimetable, Param

from fraud_rules_airflow.dags.options import DEFAULTS, SINCE, DagOptions, DagSchedule
from fraud_rules_airflow.operators.archive_checks import DaysDueOperator, QueueDayOperator
from fraud_rules_airflow.operators.batch import ReevaluateOperator
from fraud_rules_airflow.sensors.archive import DayArchivedSensor

DOC = """
### Nightly re-evaluation
A run evaluates one day of event time (UTC): its **partition**, the previous day. *archived* waits for the archive.
*reevaluate* replays the day in event-time order, compares the result with the published alerts, and writes the
differences to `alert-corrections` in one transaction. Its summary is the task's XCom; the button **Report** opens its
page. A day that still receives data is only reported. *due* finds published days that have received data since,
reported days that are complete now, and missed days. *requeue* starts a run for each of these days.

A manual run evaluates the day in the parameter `day`, or yesterday. Airflow's backfill takes any range of days. A
second run of a day publishes nothing new. A day without data is skipped. A day that depends on erased payments gets a
report, and is skipped. See docs/data.md.
"""

DAY = "{{ partition_key or params.day or macros.ds_add(dag_run.run_after | ds, -1) }}"

SCHEDULE = CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d")


def create_dag(
    options: DagOptions = DEFAULTS, *, dag_id: str = "fraud_nightly_reevaluation", schedule: DagSchedule = SCHEDULE
) -> DAG:
    """Create the DAG."""
    with options.dag(
        dag_id,
        "Evaluates the previous day with all its data: alerts added and retracted",
        DOC,
        tag="nightly",
        schedule=schedule,
        start_date=SINCE,
        params={
            "day": Param("", type="string", title="Day", description="For example 2026-11-20, UTC. Empty: yesterday."),
            "report_only": Param(False, type="boolean", title="Report only", description="Publish nothing."),
            "requeue": Param(True, type="boolean", title="Queue days that were missed or have received later data"),
        },
        deadline=options.deadline(
            timedelta(hours=6), "a day was not re-evaluated within six hours after it was queued", of_queueing=True
        ),
    ) as dag:
        archived = DayArchivedSensor(
            task_id="archived",
            doc_md="Waits until the archive has the whole day.",
            day=DAY,
            mode="reschedule",
            poke_interval=60,
            timeout=timedelta(hours=5).total_seconds(),
        )
        reevaluate = options.batch_task(
            partial(ReevaluateOperator, day=DAY, report_only="{{ params.report_only }}"),
            "reevaluate",
            [f"--day={DAY}", "--allow-empty", "--{{ '' if params.report_only else 'no-' }}report-only"],
            task_id="reevaluate",
            doc_md="Replays the day, compares alerts, publishes corrections, writes the report.",
            execution_timeout=timedelta(hours=4),
        )
        due = DaysDueOperator(
            task_id="due",
            doc_md="Finds the days to evaluate, also after a failed night.",
            trigger_rule="all_done",
            execution_timeout=timedelta(minutes=10),
        )
        requeue = QueueDayOperator.partial(
            task_id="requeue",
            doc_md="Starts a run for each of these days.",
            map_index_template="{{ task.day }}",
            execution_timeout=timedelta(minutes=5),
        ).expand_kwargs(due.output)
        archived >> reevaluate >> due >> requeue
    return dag
