"""The button that leads from a task to the report it made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from airflow.sdk import BaseOperatorLink, conf
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

__all__ = ["REPORTS_PATH", "Report", "report_path"]

REPORTS_PATH = "/fraud-reports"


@attrs.define()
class Report(BaseOperatorLink):
    """The page of a night, or of a what-if."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return XCom.get_value(ti_key=ti_key, key=self.xcom_key) or ""


def report_path(kind: str, name: str) -> str:
    """The address of a report: `nights` by day, `whatif` by the name of its folder. Its numbers lie beside it."""
    base = str(conf.get("api", "base_url", fallback="")).rstrip("/")
    return f"{base}{REPORTS_PATH}/{kind}/{name}/report.html"
