"""Registers the links and pages of `fraud_ops` with Airflow. It has no logic."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from fraud_ops.airflow_ui.links import LINKS
from fraud_ops.airflow_ui.pages import create_app as create_pages
from fraud_ops.airflow_ui.report_links import REPORTS_PATH, Report
from fraud_ops.airflow_ui.report_pages import create_app as create_reports
from fraud_ops.control_plane.web.app import PREFIX
from fraud_ops.control_plane.web.app import app as control_plane
from fraud_ops.control_plane.web.front_gate import FrontGate
from fraud_ops.control_plane.web.pages import protected


class FraudPlugin(AirflowPlugin):
    """The links on task pages, which Airflow deserializes by name, and the pages that Airflow serves."""

    name = "fraud_ops"
    operator_extra_links: list[Any] = [*LINKS, Report()]  # noqa: RUF012 -- Airflow reads lists
    # Airflow uses the first app whose prefix matches. The prefix of the control plane extends that of the runbooks.
    fastapi_apps: list[Any] = [  # noqa: RUF012
        {"app": control_plane, "url_prefix": PREFIX, "name": "Fraud rules"},
        {"app": protected(create_pages, control_plane), "url_prefix": "/fraud", "name": "Fraud"},
        {"app": protected(create_reports, control_plane), "url_prefix": REPORTS_PATH, "name": "Fraud reports"},
    ]
    fastapi_root_middlewares: list[Any] = [  # noqa: RUF012
        {
            "middleware": FrontGate,
            "kwargs": {"control_plane": control_plane, "prefix": PREFIX},
            "name": "Rate limits of the control plane",
        }
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
