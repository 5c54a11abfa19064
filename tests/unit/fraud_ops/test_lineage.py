"""The datasets of the batch jobs, as Airflow's OpenLineage provider asks operators for them. Nothing is sent."""

from __future__ import annotations

import json

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from upath import UPath

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import TopicNames
from fraud_rules_airflow.lineage import job_lineage
from fraud_rules_airflow.operators.batch import ArchiveOperator, ReevaluateOperator, WarmUpOperator


def test_the_provider_gets_the_topics_and_folders_of_each_job(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"bootstrap.servers": "one:9092, two:9092"}
    monkeypatch.setenv("AIRFLOW_CONN_FRAUD_KAFKA", json.dumps({"conn_type": "kafka", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_VAR_FRAUD_ARCHIVE", "/archive")
    monkeypatch.setenv("FRAUD_HOME", str(project.root))
    expected = {
        ArchiveOperator(task_id="archive"): ("kafka://one:9092/quarantine", "file//archive/data/transactions"),
        ReevaluateOperator(task_id="reevaluate", day=""): (
            "file//archive/data/rules", "kafka://one:9092/alert-corrections",
        ),
        WarmUpOperator(task_id="warm_up"): ("file//archive/data/transactions", "kafka://one:9092/warm-ups"),
    }  # fmt: skip
    for operator, (read, written) in expected.items():
        found = DefaultExtractor(operator).extract_on_complete(None)
        assert found is not None
        assert read in {f"{each.namespace}/{each.name}" for each in found.inputs}
        assert written in {f"{each.namespace}/{each.name}" for each in found.outputs}


def test_a_bucket_is_a_namespace() -> None:
    lineage = job_lineage("reevaluate", TopicNames(), "one:9092", UPath("s3://bank/fraud/archive"))
    assert {each.namespace for each in lineage.inputs} == {"s3://bank"}
    assert "fraud/archive/data/alerts" in {each.name for each in lineage.inputs}
