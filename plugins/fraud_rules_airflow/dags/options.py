"""What an installation chooses for all its DAGs: connections, owner, tags, retries, pool and queue."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, AsyncCallback, DeadlineAlert, DeadlineReference  # type: ignore[attr-defined] # not in its stub
from airflow.sdk.definitions.dag import ScheduleArg as DagSchedule

from fraud_rules_airflow.archive_place import ARCHIVE_VARIABLE
from fraud_rules_airflow.hooks.connections import KAFKA, SPARK
from fraud_rules_airflow.notifiers import FraudAlarm, FraudAlarmEnd

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

__all__ = ["DEADLINE", "DEFAULTS", "SINCE", "TASK_FAILED", "DagOptions", "DagSchedule"]

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
"""The start date of a schedule whose first run covers past days. Other DAGs have no start date, so their first run and
its deadline count from the installation."""

TASK_FAILED = "TASK_FAILED"
DEADLINE = "DEADLINE"


@dataclass(frozen=True, slots=True)
class DagOptions:
    """The options of all DAGs of an installation.

    `retries` replaces the retries of each DAG's tasks. Without `pool` and `queue`, the variables FRAUD_POOL and
    FRAUD_QUEUE of the environment name them, so that the tasks do not wait behind those of other teams.

    `batch_operator` creates the tasks of the batch jobs, for workers without Java: from the name of an entry script of
    the wheel (`archive`, `reevaluate`, `warm_up`), its arguments as templates, and the arguments of the task. The
    environment of the script has FRAUD_HOME, and the credentials of Kafka and S3.
    """

    kafka_conn_id: str = KAFKA
    spark_conn_id: str = SPARK
    owner: str = "fraud-platform"
    tags: Sequence[str] = ("fraud",)
    retries: int | None = None
    pool: str = ""
    queue: str = ""
    batch_operator: Callable[..., BaseOperator] | None = None

    def batch_task(
        self, own: Callable[..., BaseOperator], script: str, arguments: Sequence[str] = (), **task: Any
    ) -> BaseOperator:
        """The task that runs a batch job: `own`, or that of `batch_operator` with these and the common arguments."""
        if self.batch_operator is None:
            return own(**task)
        kafka = f"conn.get({self.kafka_conn_id!r}).extra_dejson['bootstrap.servers']"
        common = [f"--bootstrap={{{{ {kafka} }}}}", f"--archive={{{{ var.value.{ARCHIVE_VARIABLE} }}}}"]
        return self.batch_operator(script, [*common, *arguments], **task)

    def dag(
        self,
        dag_id: str,
        description: str,
        doc: str,
        *,
        tag: str,
        schedule: DagSchedule,
        deadline: DeadlineAlert,
        starts_paused: bool = True,
        retries: int = 2,
        alarm: str | None = TASK_FAILED,
        **further: Any,
    ) -> DAG:
        """A DAG whose runs follow each other. `tag` joins those of the installation, `retries` and `alarm` are those of
        `default_args`, and `further` are further arguments of the DAG.
        """
        return DAG(
            dag_id=dag_id,
            description=description,
            doc_md=doc,
            schedule=schedule,
            catchup=False,
            max_active_runs=1,
            is_paused_upon_creation=starts_paused,
            tags=[*self.tags, tag],
            default_args=self.default_args(retries=retries, alarm=alarm),
            deadline=deadline,
            **further,
        )

    def default_args(self, *, retries: int = 2, alarm: str | None = TASK_FAILED) -> dict[str, Any]:
        """The default arguments of a DAG's tasks. A task that fails after its last retry raises `alarm`, and the next
        success of the task ends it."""
        pool = self.pool or os.environ.get("FRAUD_POOL", "")
        queue = self.queue or os.environ.get("FRAUD_QUEUE", "")
        return {name: place for name, place in (("pool", pool), ("queue", queue)) if place} | {
            "owner": self.owner,
            "retries": retries if self.retries is None else self.retries,
            "retry_delay": timedelta(seconds=10),
            "retry_exponential_backoff": 2.0,
            "max_retry_delay": timedelta(minutes=5),
            "on_failure_callback": [] if alarm is None else [FraudAlarm(alarm, kafka_conn_id=self.kafka_conn_id)],
            "on_success_callback": [] if alarm is None else [FraudAlarmEnd(alarm, kafka_conn_id=self.kafka_conn_id)],
            "kafka_conn_id": self.kafka_conn_id,
            "spark_conn_id": self.spark_conn_id,
        }

    def deadline(self, after: timedelta, said: str, *, of_queueing: bool = False) -> DeadlineAlert:
        """An alarm for a run that has not ended at its logical date plus `after`. `said` is the text of the alarm.

        The reference is not the time of queueing: Airflow 3.3.2 would then answer every clear of a task or a run with
        an error while the deadline lies ahead, because it expects a number and gets the serialized interval. A run of a
        partition or of an asset has no logical date, so its reference is the time of queueing.
        """
        reference = DeadlineReference.DAGRUN_QUEUED_AT if of_queueing else DeadlineReference.DAGRUN_LOGICAL_DATE
        alarm = {"name": DEADLINE, "said": said, "kafka_conn_id": self.kafka_conn_id}
        return DeadlineAlert(reference=reference, interval=after, callback=AsyncCallback(FraudAlarm, alarm))


DEFAULTS = DagOptions()
