"""Registers what Airflow is to know of `fraud_ops`. No logic."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from fraud_ops.airflow_ui.links import LINKS
from fraud_ops.airflow_ui.pages import app
from fraud_ops.airflow_ui.report_links import REPORTS_PATH, Report
from fraud_ops.airflow_ui.report_pages import app as reports
from fraud_ops.control_plane.web.app import PREFIX
from fraud_ops.control_plane.web.app import app as control_plane


class FraudPlugin(AirflowPlugin):
    """The links that operators show, which are deserialized by name, and the pages that Airflow serves."""

    name = "fraud_ops"
    operator_extra_links: list[Any] = [*LINKS, Report()]  # noqa: RUF012 -- Airflow reads lists
    # The first whose prefix fits answers: the control plane's lies below that of the runbooks.
    fastapi_apps: list[Any] = [  # noqa: RUF012
        {"app": control_plane, "url_prefix": PREFIX, "name": "Fraud rules"},
        {"app": app, "url_prefix": "/fraud", "name": "Fraud"},
        {"app": reports, "url_prefix": REPORTS_PATH, "name": "Fraud reports"},
    ]
    external_views: list[Any] = [  # noqa: RUF012
        {
            "name": "Fraud rules",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "url_route": "fraud-rules",
            "nav_top_level": True,
        }
    ]
