"""Registers the links and pages of the provider with Airflow. It has no logic, and imports nothing heavy."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from fraud_rules_airflow.airflow_ui.links import LINKS, Report
from fraud_rules_airflow.airflow_ui.web_parts import DeferredParts, applications, pages_address


class FraudPlugin(AirflowPlugin):
    """The links on task pages, which Airflow deserializes by name, and the pages that Airflow serves."""

    name = "fraud_rules"
    operator_extra_links: list[Any] = [*LINKS, Report()]  # noqa: RUF012 -- Airflow reads lists
    fastapi_apps: Any = DeferredParts(applications)
    external_views: list[Any] = [  # noqa: RUF012
        {
            "name": "Fraud rules",
            "href": pages_address(),
            "destination": "nav",
            "url_route": "fraud-rules",
            "nav_top_level": True,
        }
    ]
