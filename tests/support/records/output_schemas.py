"""Validates the records of output topics against the JSON Schemas of docs/schemas."""

from __future__ import annotations

import json
from functools import cache

from jsonschema import Draft202012Validator

from fraud_rules.logs.output_schemas import DOCUMENTS, schema_of
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import read_all


def validate_outputs(topics: OwnTopics) -> set[str]:
    """Validate every record of the output topics that exist. Return the roles of the topics with records."""
    found = set()
    for role in DOCUMENTS:
        name = getattr(topics.names, role)
        for message in read_all(topics.bootstrap, name) if name in {topic.name for topic in topics.declared} else ():
            validate(role, message.value())
            found.add(role)
    return found


def validate(role: str, value: bytes) -> None:
    """Raise AssertionError with each difference between a record and the schema of its topic."""
    faults = [f"{fault.json_path}: {fault.message}" for fault in _validator(role).iter_errors(json.loads(value))]
    assert not faults, (role, faults, value)


@cache
def _validator(role: str) -> Draft202012Validator:
    return Draft202012Validator(schema_of(role))
