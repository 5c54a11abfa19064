"""Evaluates the day that ended again, with all its data, and publishes what the live answer lacked."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronPartitionTimetable, Param

from fraud_ops.dag_defaults import SINCE, TAGS, deadline, defaults
from fraud_ops.operators.archive_checks import DaysDueOperator, QueueDayOperator
from fraud_ops.operators.batch import ReevaluateOperator
from fraud_ops.sensors.archive import DayArchivedSensor

DOC = """
### Nightly re-evaluation
A run is about one day of event time (UTC): its **partition**, the day that ended. *archived* waits for the archive.
*reevaluate* replays the day in the order in which things happened, compares with the alerts published, and sends what
differs to `alert-corrections` in one transaction; its summary is the task's XCom, its page behind the button
**Report**. A day that still receives data is only reported. *due* looks for days that have received data since they
were published, and for reported ones that are over now; *requeue* starts a run for each.

Triggered by hand, a run takes the parameter `day`, else yesterday. Airflow's backfill takes any range of days. Running
a day again publishes nothing new; a day without data is skipped. See docs/nightly.md.
"""

DAY = "{{ partition_key or params.day or '' }}"

with DAG(
    dag_id="fraud_nightly_reevaluation",
    description="The day that ended, with all data known: alerts added and retracted",
    doc_md=DOC,
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d"),
    start_date=SINCE,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=[*TAGS, "nightly"],
    params={
        "day": Param("", type="string", title="Day", description="As 2026-11-20, UTC. Empty: yesterday."),
        "report_only": Param(False, type="boolean", title="Report only", description="Publish nothing."),
        "requeue": Param(True, type="boolean", title="Queue days that have received later data"),
    },
    default_args=defaults(),
    deadline=deadline(
        timedelta(hours=6), "a day has not been re-evaluated six hours after it was queued", of_partition=True
    ),
):
    archived = DayArchivedSensor(
        task_id="archived",
        doc_md="Waits until the archive reaches behind the day.",
        day=DAY,
        mode="reschedule",
        poke_interval=60,
        timeout=timedelta(hours=5).total_seconds(),
    )
    reevaluate = ReevaluateOperator(
        task_id="reevaluate",
        doc_md="Replays the day, compares, publishes, reports.",
        day=DAY,
        report_only="{{ params.report_only }}",
        execution_timeout=timedelta(hours=4),
    )
    due = DaysDueOperator(
        task_id="due",
        doc_md="Finds days that are to be evaluated again.",
        trigger_rule="none_failed",
        execution_timeout=timedelta(minutes=10),
    )
    requeue = QueueDayOperator.partial(
        task_id="requeue",
        doc_md="A run for each of them.",
        map_index_template="{{ task.day }}",
        execution_timeout=timedelta(minutes=5),
    ).expand_kwargs(due.output)
    archived >> reevaluate >> due >> requeue
