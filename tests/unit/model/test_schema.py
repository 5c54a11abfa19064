"""The transaction schema: valid and invalid declarations."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml

from fraud_rules.errors import ConfigError
from fraud_rules.model.schema import Field, FieldType, TextStep, TransactionSchema
from fraud_rules.runtime.yaml_file import parse_yaml
from tests.support.places import ROOT

CONFIG = ROOT / "config" / "schema.yaml"
ID: dict[str, Any] = {"name": "transactionId", "type": "long"}
TIME: dict[str, Any] = {"name": "eventTime", "type": "timestamp"}
TEXT = {"name": "a", "type": "string"}


def test_the_default_schema() -> None:
    schema = TransactionSchema.load(CONFIG)
    assert schema.fields == (
        Field("transactionId", FieldType.LONG),
        Field("eventTime", FieldType.TIMESTAMP),
        Field("payeeId", FieldType.LONG, aliases=("payerId",)),
        Field("beneficiaryId", FieldType.LONG),
        Field("paymentType", FieldType.STRING),
        Field("paymentAmount", FieldType.DECIMAL, precision=18, scale=2),
        Field("ingestionTimestamp", FieldType.TIMESTAMP, nullable=True),
    )
    assert [field.name for field in schema.fields if field.numeric] == [
        "transactionId",
        "payeeId",
        "beneficiaryId",
        "paymentAmount",
    ]


def test_a_field_is_found_by_name_or_alias() -> None:
    schema = TransactionSchema.load(CONFIG)
    assert schema.field("payerId") == schema.field("payeeId") == schema.fields[2]
    assert schema.field("payer") is None
    assert schema.names[2] == "payeeId"


def test_equal_schemas_are_one_key_also_after_pickling() -> None:
    schema = TransactionSchema.load(CONFIG)
    assert {schema: 1}[pickle.loads(pickle.dumps(schema))] == 1


FAULTS: dict[str, tuple[Any, str]] = {
    "not a mapping": ([], "must hold a list `fields`"),
    "empty file": (None, "must hold a list `fields`"),
    "no list": ({"fields": {"transactionId": "long"}}, "must hold a list `fields`"),
    "no field": ({"fields": []}, "must hold 1 to 64 fields, not 0"),
    "too many fields": ({"fields": [ID, TIME] + [{"name": f"f{i}", "type": "long"} for i in range(63)]}, "not 65"),
    "unknown key at the top": ({"fields": [ID, TIME], "version": 1}, "unknown key 'version'"),
    "not a mapping within": ({"fields": [ID, TIME, "payeeId"]}, r"fields\[2\] must be a mapping"),
    "no name": ({"fields": [ID, TIME, {"type": "long"}]}, r"fields\[2\]: `name` must be"),
    "name with a blank": ({"fields": [ID, TIME, {"name": "payee id", "type": "long"}]}, "'payee id': `name` must be"),
    "name too long": ({"fields": [ID, TIME, {"name": "x" * 65, "type": "long"}]}, "`name` must be"),
    "unknown type": (
        {"fields": [ID, TIME, {"name": "a", "type": "float"}]},
        "one of long, string, timestamp, decimal, boolean",
    ),
    "no type": ({"fields": [ID, TIME, {"name": "a"}]}, "one of long, string, timestamp, decimal, boolean"),
    "unknown key": ({"fields": [ID, TIME, {"name": "a", "type": "long", "unique": True}]}, "'a': unknown key 'unique'"),
    "nullable is a word": ({"fields": [ID, TIME, {"name": "a", "type": "long", "nullable": "no"}]}, "true or false"),
    "aliases is a word": ({"fields": [ID, TIME, {"name": "a", "type": "long", "aliases": "b"}]}, "list of names"),
    "too wide": ({"fields": [ID, TIME, {"name": "a", "type": "decimal", "precision": 19}]}, "must be 1 to 18"),
    "no precision": ({"fields": [ID, TIME, {"name": "a", "type": "decimal", "scale": 2}]}, "must be 1 to 18"),
    "scale above precision": (
        {"fields": [ID, TIME, {"name": "a", "type": "decimal", "precision": 2, "scale": 3}]},
        "`scale` must be 0 to the precision, 2",
    ),
    "precision is a word": (
        {"fields": [ID, TIME, {"name": "a", "type": "decimal", "precision": "9"}]},
        "whole numbers",
    ),
    "precision of a long": (
        {"fields": [ID, TIME, {"name": "a", "type": "long", "precision": 9}]},
        "for type decimal only",
    ),
    "normalize is a word": ({"fields": [ID, TIME, {**TEXT, "normalize": "nfc"}]}, "a list of nfc, trim"),
    "unknown step": ({"fields": [ID, TIME, {**TEXT, "normalize": ["nfkc"]}]}, "a list of nfc, trim"),
    "normalized long": ({"fields": [ID, TIME, {**TEXT, "type": "long", "normalize": ["trim"]}]}, "type string only"),
    "normalized id": (
        {"fields": [{**ID, "type": "string", "normalize": ["trim"]}, TIME]},
        "find their payment by this",
    ),
    "name twice": ({"fields": [ID, TIME, TIME]}, "'eventTime' is used twice"),
    "alias is a name": ({"fields": [ID, {**TIME, "aliases": ["transactionId"]}]}, "'transactionId' is used twice"),
    "no id": ({"fields": [TIME]}, "'transactionId' of type long or string, not nullable, is required"),
    "id may be null": (
        {"fields": [{**ID, "nullable": True}, TIME]},
        "'transactionId' of type long or string, not nullable",
    ),
    "time is a long": (
        {"fields": [ID, {**TIME, "type": "long"}]},
        "'eventTime' of type timestamp, not nullable, is required",
    ),
}


@pytest.mark.parametrize(("document", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(document: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TransactionSchema.parse(document)


def test_a_schema_reads_its_own_text_with_the_steps_in_one_order() -> None:
    schema = TransactionSchema.parse({"fields": [ID, TIME, {**TEXT, "normalize": ["trim", "nfc"]}]})
    assert schema.fields[2].normalize == (TextStep.NFC, TextStep.TRIM)
    assert TransactionSchema.parse(parse_yaml(schema.text(), "the text")) == schema


def test_all_faults_are_listed_at_once() -> None:
    fields = [{"name": "1", "type": "real", "nullable": 3}, {"name": "a", "type": "decimal"}]
    with pytest.raises(ConfigError) as caught:
        TransactionSchema.parse({"fields": fields}, "config/schema.yaml")
    message = str(caught.value)
    assert message.startswith("config/schema.yaml: field '1': `name`")
    assert message.count(";") == 5


@pytest.mark.parametrize("content", [b"fields: [", b"\xff\xfe", b"a: b: c"])
def test_a_file_that_is_not_yaml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "schema.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"schema\.yaml: cannot be read as YAML"):
        TransactionSchema.load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        TransactionSchema.load(tmp_path / "schema.yaml")


def test_the_display_of_a_field_changes_neither_equality_nor_the_text_of_a_release() -> None:
    schema = TransactionSchema.load(CONFIG)
    amount = schema.field("paymentAmount")
    assert amount is not None
    assert (amount.display.label, amount.display.unit, amount.display.minimum) == ("Amount", "EUR", 0)
    plain = TransactionSchema.parse({"fields": [{k: v for k, v in each.items() if k in PLAIN} for each in documents()]})
    assert plain == schema
    assert plain.text() == schema.text()


def test_sums_are_suggested_for_measures_only() -> None:
    schema = TransactionSchema.load(CONFIG)
    assert [field.name for field in schema.fields if field.is_measure] == ["paymentAmount"]
    points = {"name": "points", "type": "long", "measure": True}
    assert TransactionSchema.parse({"fields": [ID, TIME, points]}).fields[2].is_measure


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"label": 1}, "`label` must be a text"),
        ({"unit": "x" * 201}, "`unit` must be a text of at most 200"),
        ({"values": "CSH"}, "`values` must be a list"),
        ({"measure": "yes"}, "`measure` must be true or false"),
        ({"minimum": 0.5}, "`minimum` must be a whole number"),
        ({"display": "hidden"}, "`display` must be masked"),
    ],
)
def test_a_faulty_display_is_rejected(members: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        TransactionSchema.parse({"fields": [ID, TIME, {"name": "a", "type": "long"} | members]})


PLAIN = ("name", "type", "nullable", "aliases", "precision", "scale")


def documents() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["fields"]
    return found
