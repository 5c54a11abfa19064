"""The link from a task to its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey
from fraud_ops.paths import report_path
from fraud_rules_airflow.airflow_ui.address import base_url


@attrs.define()
class Report(BaseOperatorLink):
    """The report of a re-evaluation or a what-if."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return XCom.get_value(ti_key=ti_key, key=self.xcom_key) or ""


def report_address(kind: str, name: str) -> str:
    """The URL of a report (see `report_path`)."""
    return base_url() + report_path(kind, name)
