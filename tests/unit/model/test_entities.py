"""Entities of a schema: valid and invalid declarations, and the schema of the rows of a grouping."""

from __future__ import annotations

from typing import Any

import pytest

from fraud_rules.errors import ConfigError
from fraud_rules.model.schema import Field, FieldType, TransactionSchema
from fraud_rules.runtime.yaml_file import parse_yaml

FIELDS: list[dict[str, Any]] = [
    {"name": "transactionId", "type": "long"},
    {"name": "eventTime", "type": "timestamp"},
    {"name": "payeeId", "type": "long", "aliases": ["payerId"], "nullable": True},
    {"name": "beneficiaryId", "type": "long", "nullable": True},
    {"name": "country", "type": "string"},
    {"name": "amount", "type": "decimal", "precision": 18, "scale": 2},
    {"name": "fee", "type": "decimal", "precision": 18, "scale": 4},
]
ACCOUNT: dict[str, Any] = {"name": "account", "roles": {"out": "payerId", "in": "beneficiaryId"}}


def schema_of(*entities: dict[str, Any]) -> TransactionSchema:
    return TransactionSchema.parse({"fields": FIELDS, "entities": list(entities)})


def test_a_role_may_name_its_field_by_an_alias() -> None:
    (account,) = schema_of(ACCOUNT).entities
    assert account.roles == (("out", "payeeId"), ("in", "beneficiaryId"))


def test_a_schema_reads_the_entities_of_its_own_text() -> None:
    schema = schema_of(ACCOUNT)
    assert TransactionSchema.parse(parse_yaml(schema.text(), "the text")) == schema
    assert "entities" not in schema_of().text()


def test_the_rows_of_an_entity_have_two_more_fields() -> None:
    schema = schema_of(ACCOUNT)
    rows = schema.of_rows(("account", "country"))
    assert rows.fields[-2:] == (Field("account", FieldType.LONG), Field("role", FieldType.STRING))
    assert rows is schema.of_rows(("account",)), "plans are remembered by the identity of their schema"
    assert schema.of_rows(("country",)) is schema
    assert [each.name for each in schema.of_expressions(("account",)).fields] == [*schema.names, "role"]


FAULTS: dict[str, tuple[Any, str]] = {
    "no list": ({"name": "account"}, "a list of at most 4"),
    "too many": ([{**ACCOUNT, "name": f"e{i}"} for i in range(5)], "a list of at most 4"),
    "no mapping": (["account"], r"entities\[0\] must be a mapping"),
    "unknown key": ([{**ACCOUNT, "label": "Account"}], "unknown key 'label'"),
    "no name": ([{"roles": ACCOUNT["roles"]}], "`name` must be"),
    "called role": ([{**ACCOUNT, "name": "role"}], "not 'role'"),
    "called like a field": ([{**ACCOUNT, "name": "country"}], "'country' is both an entity and a field"),
    "called like an alias": ([{**ACCOUNT, "name": "payerId"}], "'payerId' is both an entity and a field"),
    "twice": ([ACCOUNT, ACCOUNT], "'account' is declared twice"),
    "one role": ([{**ACCOUNT, "roles": {"out": "payeeId"}}], "2 to 4 names of roles"),
    "a role that YAML reads as a boolean": (
        [{**ACCOUNT, "roles": {True: "payeeId", "in": "beneficiaryId"}}],
        "True is no name of a role",
    ),
    "unknown field": ([{**ACCOUNT, "roles": {"out": "payeeId", "in": "b"}}], "'b' is not a declared field"),
    "one field": ([{**ACCOUNT, "roles": {"out": "payeeId", "in": "payerId"}}], "two roles have one field"),
    "two types": ([{**ACCOUNT, "roles": {"out": "payeeId", "in": "country"}}], "must have one type"),
    "two scales": ([{**ACCOUNT, "roles": {"out": "amount", "in": "fee"}}], "must have one type"),
}


@pytest.mark.parametrize(("entities", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(entities: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransactionSchema.parse({"fields": FIELDS, "entities": entities})


def test_role_is_no_name_of_a_field_beside_entities() -> None:
    fields = [*FIELDS, {"name": "role", "type": "string"}]
    assert TransactionSchema.parse({"fields": fields}).field("role")
    with pytest.raises(ConfigError, match="no field can have the name 'role'"):
        TransactionSchema.parse({"fields": fields, "entities": [ACCOUNT]})


def test_a_schema_with_entities_leaves_room_for_their_rows() -> None:
    fields = [*FIELDS, *({"name": f"f{i}", "type": "long"} for i in range(62 - len(FIELDS)))]
    assert len(TransactionSchema.parse({"fields": fields, "entities": [ACCOUNT]}).of_rows(["account"]).fields) == 64
    more = [*fields, {"name": "g", "type": "long"}]
    with pytest.raises(ConfigError, match="at most 62 fields"):
        TransactionSchema.parse({"fields": more, "entities": [ACCOUNT]})
