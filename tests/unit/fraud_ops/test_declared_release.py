"""The declared release: what the extra of the Spark connection may say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from fraud_rules.configuration.project import Project
from fraud_rules.deploy.release import Release
from fraud_rules.errors import ConfigError
from fraud_rules_airflow.hooks.release import declared_release


def declared(project: Project, host: str, **extras: Any) -> Release:
    spark = Connection(conn_id="spark_default", conn_type="spark", host=host, extra=json.dumps(extras))
    kafka = Connection(conn_id="fraud_kafka", conn_type="kafka", extra=json.dumps({"bootstrap.servers": "a:1"}))
    return declared_release(project, spark, kafka)


def test_the_queue_and_the_namespace_of_the_usual_spark_connection_are_settings_of_spark(project: Project) -> None:
    assert declared(project, "yarn", queue="fraud").spark == {"spark.yarn.queue": "fraud"}
    further = {"spark.executor.cores": "2"}
    spark = declared(project, "k8s://https://host:443", namespace="risk", spark=further).spark
    assert spark == {"spark.kubernetes.namespace": "risk", **further}


def test_what_the_connection_form_of_airflow_saves_by_itself_changes_nothing(project: Project) -> None:
    form = {"deploy-mode": "client", "spark-binary": "spark-submit", "queue": "", "namespace": None, "keytab": "",
            "principal": "", "rest-scheme": "http", "rest-port": "6066"}  # fmt: skip
    assert declared(project, "yarn", **form) == declared(project, "yarn")


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        ({"deploy-mode": "cluster"}, "spark_default: deploy-mode must be client"),
        (
            {"principal": "me@BANK", "keytab": "AAA="},
            r"set spark\.kerberos\.principal .*; keytab .* spark\.kerberos\.keytab",
        ),
        ({"spark-home": "/opt/spark"}, "unknown options spark-home"),
    ],
)
def test_an_extra_that_the_detector_cannot_follow_is_refused_by_name(
    project: Project, extras: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        declared(project, "yarn", **extras)
