"""The JSON Schemas of the output topics: generated from the writers' types, complete and committed.

Tests of running detectors and jobs validate their records: `validate_outputs`.
"""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from fraud_rules.configuration.project import Project
from fraud_rules.kafka.access import ACCESS, KafkaComponent
from fraud_rules.logs.output_schemas import DOCUMENTS, schema_files, schema_of
from tests.support.records.output_schemas import validate

NO_DOCUMENTS = {"transactions", "quarantine", "latency", "detector_marker", "detector_state"}
"""Payments, raw bytes, a number as text, and the state, which only detectors read."""


def test_the_committed_schemas_are_those_of_the_types(project: Project) -> None:
    folder = project.root / "docs" / "schemas"
    committed = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert committed == schema_files(), "run make schemas"


@pytest.mark.parametrize("role", DOCUMENTS)
def test_a_schema_is_valid(role: str) -> None:
    Draft202012Validator.check_schema(schema_of(role))


def test_each_topic_of_the_detector_and_of_consumers_has_a_schema() -> None:
    read, written = ACCESS[KafkaComponent.CONSUMER].reads, ACCESS[KafkaComponent.DETECTOR].writes
    assert {*read, *written} - NO_DOCUMENTS == DOCUMENTS.keys()


def test_a_member_that_is_encoded_already_has_its_type() -> None:
    definition = schema_of("decisions")["$defs"]["DecisionDocument"]
    assert definition["properties"]["transaction"] == {"$ref": "#/$defs/TransactionDocument"}


@pytest.mark.parametrize(
    "change", [{"since": "1"}, {"ruleId": None}, {"key": {"payeeId": [1]}}, {"liftedBy": "somebody"}], ids=str
)
def test_another_record_does_not_fit(change: dict[str, object]) -> None:
    restriction = {"key": {"payeeId": 1}, "since": 1, "alertId": "a", "ruleId": 1, "unknown": 1}
    validate("restrictions", json.dumps(restriction).encode())
    with pytest.raises(AssertionError, match="restrictions"):
        validate("restrictions", json.dumps(restriction | change).encode())
