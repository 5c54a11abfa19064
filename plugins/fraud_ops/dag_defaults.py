"""What all DAG pages share: who owns them, how tasks are tried again, and who is told when one fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference  # type: ignore[attr-defined] # not in its stub

from fraud_ops.notifiers import FraudAlarm

__all__ = ["DEADLINE", "OWNER", "SINCE", "TAGS", "TASK_FAILED", "deadline", "defaults"]

OWNER = "fraud-platform"
TAGS = ("fraud",)
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
"""The start of a schedule whose first run is about the past. Other DAGs have no start date: their first run, and its
deadline, count from the installation."""

TASK_FAILED = "TASK_FAILED"
DEADLINE = "DEADLINE"


def defaults(*, retries: int = 2, alarm: str | None = TASK_FAILED) -> dict[str, Any]:
    """The default arguments of a DAG's tasks. `alarm` is raised when a task has failed for good."""
    return {
        "owner": OWNER,
        "retries": retries,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": timedelta(minutes=5),
        "on_failure_callback": [] if alarm is None else [FraudAlarm(alarm)],
    }


def deadline(after: timedelta, said: str, *, of_partition: bool = False) -> DeadlineAlert:
    """An alarm when a run has not ended so long after its logical date.

    Not after it was queued: Airflow 3.3.2 then answers every clear of a task or a run with an error, while the deadline
    lies ahead (it takes the serialized interval for a number). A run of a partition has no logical date, and would have
    no deadline: there it is the time it was queued.
    """
    reference = DeadlineReference.DAGRUN_QUEUED_AT if of_partition else DeadlineReference.DAGRUN_LOGICAL_DATE
    return DeadlineAlert(
        reference=reference, interval=after, callback=AsyncCallback(FraudAlarm, {"name": DEADLINE, "said": said})
    )
