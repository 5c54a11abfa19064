"""Defaults of all DAGs: owner, tags, retries and alarms."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference  # type: ignore[attr-defined] # not in its stub

from fraud_rules_airflow.notifiers import FraudAlarm, FraudAlarmEnd

__all__ = ["DEADLINE", "OWNER", "SINCE", "TAGS", "TASK_FAILED", "deadline", "defaults"]

OWNER = "fraud-platform"
TAGS = ("fraud",)
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
"""The start date of a schedule whose first run covers past days. Other DAGs have no start date, so their first run and
its deadline count from the installation."""

TASK_FAILED = "TASK_FAILED"
DEADLINE = "DEADLINE"


def defaults(*, retries: int = 2, alarm: str | None = TASK_FAILED) -> dict[str, Any]:
    """The default arguments of a DAG's tasks. A task that fails after its last retry raises `alarm`,
    and the next success of the task ends it.

    The variables FRAUD_POOL and FRAUD_QUEUE of the environment name the pool and the queue of all tasks, so that they
    do not wait behind the tasks of other teams in a shared Airflow.
    """
    places = {name: os.environ.get(f"FRAUD_{name.upper()}", "") for name in ("pool", "queue")}
    return {name: place for name, place in places.items() if place} | {
        "owner": OWNER,
        "retries": retries,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": timedelta(minutes=5),
        "on_failure_callback": [] if alarm is None else [FraudAlarm(alarm)],
        "on_success_callback": [] if alarm is None else [FraudAlarmEnd(alarm)],
    }


def deadline(after: timedelta, said: str, *, of_queueing: bool = False) -> DeadlineAlert:
    """An alarm for a run that has not ended at its logical date plus `after`. `said` is the text of the alarm.

    The reference is not the time of queueing: Airflow 3.3.2 would then answer every clear of a task or a run with an
    error while the deadline lies ahead, because it expects a number and gets the serialized interval. A run of a
    partition or of an asset has no logical date, so its reference is the time of queueing.
    """
    reference = DeadlineReference.DAGRUN_QUEUED_AT if of_queueing else DeadlineReference.DAGRUN_LOGICAL_DATE
    return DeadlineAlert(
        reference=reference, interval=after, callback=AsyncCallback(FraudAlarm, {"name": DEADLINE, "said": said})
    )
