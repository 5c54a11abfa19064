"""The link from a task to its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey
from fraud_ops.airflow_ui.address import base_url

__all__ = ["REPORTS_PATH", "Report", "report_path"]

REPORTS_PATH = "/fraud-reports"


@attrs.define()
class Report(BaseOperatorLink):
    """The report of a re-evaluation or a what-if."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return XCom.get_value(ti_key=ti_key, key=self.xcom_key) or ""


def report_path(kind: str, name: str) -> str:
    """The URL of a report. `kind` is `nights`, with a day as `name`, or `whatif`, with the name of its folder."""
    return f"{base_url()}{REPORTS_PATH}/{kind}/{name}/report.html"
