"""The alarm for hosts of Airflow that declare different releases, as in a rolling upgrade that has stopped halfway."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from fraud_ops.alarms import Alarm
from fraud_rules.runtime.clock import now_ms
from fraud_rules_airflow.operators.standing_alarms import StandingAlarms

if TYPE_CHECKING:
    from airflow.sdk import Context

MIXED_RELEASES: Final = "MIXED_RELEASES"

_KEEP_MS: Final = 3 * 3_600_000
"""The hosts take turns, so a run without a difference does not end the alarm at once."""

_FOUND_MS: Final = "mixed_releases_ms"


def report_mixed_releases(context: Context, task_id: str, kafka_conn_id: str, detector: str, found: str | None) -> None:
    """Report a difference that this run of the task has found, or with None that it has found none."""
    ti, alarms = context["ti"], StandingAlarms(context, task_id, kafka_conn_id, key=MIXED_RELEASES)
    if found is not None:
        ti.xcom_push(key=_FOUND_MS, value=now_ms())
        said = f"{found} (host {socket.gethostname()})"
        alarms.report({MIXED_RELEASES: Alarm(MIXED_RELEASES, detector, said, part=task_id)})
        return
    # Without `map_indexes`, Airflow returns a list if two earlier runs have pushed a value.
    last_ms = ti.xcom_pull(task_ids=task_id, key=_FOUND_MS, include_prior_dates=True, map_indexes=-1)
    if last_ms is not None and now_ms() - int(last_ms) >= _KEEP_MS:
        alarms.report({})
