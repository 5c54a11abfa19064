"""Waits until the archive contains a whole day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from fraud_rules.model.day import Day
from fraud_rules.runtime.clock import now_ms
from fraud_rules_airflow.airflow_ui.links import Runbook
from fraud_rules_airflow.archive_place import archive_store
from fraud_rules_airflow.error_mapping import airflow_errors

if TYPE_CHECKING:
    from airflow.sdk import Context


class DayArchivedSensor(BaseSensorOperator):
    """Passes when the archive has all transactions of a day that are not late. An unfinished day passes at once."""

    template_fields: Sequence[str] = ("day",)
    operator_extra_links = (Runbook(),)

    def __init__(self, *, day: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.day = day

    def poke(self, context: Context) -> bool:
        """Check once."""
        from fraud_rules.configuration.project import Project
        from fraud_rules.configuration.settings import DetectorSettings

        with airflow_errors(context):
            day = Day.parse(self.day)
            settings = DetectorSettings.load(Project.find().config / "detector.yaml")
            reached_ms = archive_store().latest().complete_until_ms
        settled_ms = day.end_ms + settings.max_out_of_orderness_ms
        self.log.info("%s is complete at %d, the archive reaches to %d", day, settled_ms, reached_ms)
        return reached_ms >= settled_ms or now_ms() < day.end_ms
