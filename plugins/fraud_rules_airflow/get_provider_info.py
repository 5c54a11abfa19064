"""What Airflow shows and loads of this provider, in the form of Airflow's guide for providers."""

from __future__ import annotations

from typing import Any

_NAME = "Fraud rules"


def get_provider_info() -> dict[str, Any]:
    """The document of the entry point `apache_airflow_provider`."""
    return {
        "package-name": "fraud-rules-airflow",
        "name": _NAME,
        "description": "Deploys and supervises the detector of fraud-rules, seeds rules, runs the nightly jobs.",
        "integrations": [{"integration-name": _NAME, "external-doc-url": "", "tags": ["software"]}],
        "operators": _modules(
            "operators", "archive_checks", "batch", "checkpoint", "detector", "drill", "retention", "rules",
            "supervise", "supervision", "topics",
        ),
        "sensors": _modules("sensors", "archive", "detector"),
        "hooks": _modules("hooks", "alarms", "control_plane", "detector", "retention", "rules"),
        "triggers": _modules("triggers", "detector", "rules", "warm_up"),
        "connection-types": [
            {
                "connection-type": "fraud_control_plane",
                "hook-class-name": "fraud_rules_airflow.hooks.control_plane.ControlPlaneHook",
                "hook-name": "Fraud rules control plane",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "port", "extra"],
                    "relabeling": {"host": "URL of the server", "password": "Key of tickets"},
                    "placeholders": {"host": "http://control-plane:8090"},
                },
                "conn-fields": {
                    "url": {
                        "label": "URL of the pages",
                        "description": "Only if users open the pages at the control plane's own address.",
                        "schema": {"type": ["string", "null"]},
                    }
                },
            }
        ],
        "extra-links": [
            "fraud_rules_airflow.airflow_ui.links.DetectorLogs",
            "fraud_rules_airflow.airflow_ui.links.Runbook",
            "fraud_rules_airflow.airflow_ui.links.SparkUi",
            "fraud_rules_airflow.airflow_ui.links.Report",
        ],
        "notifications": [
            "fraud_rules_airflow.notifiers.FraudAlarm",
            "fraud_rules_airflow.notifiers.FraudAlarmEnd",
        ],
    }  # fmt: skip


def _modules(kind: str, *names: str) -> list[dict[str, Any]]:
    modules = [f"fraud_rules_airflow.{kind}.{name}" for name in names]
    return [{"integration-name": _NAME, "python-modules": modules}]
