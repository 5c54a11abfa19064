"""The format keys of a schema file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fraud_rules.model.declared import record_format
from fraud_rules.model.declared.record_format import FormatName, FormatSettings, RegistrySettings, parse_format

REGISTRY = {"url": "https://registry:8081"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "payment.avsc").write_bytes(b"content")
    (tmp_path / "empty.avsc").touch()
    return tmp_path


def parsed(document: dict[str, Any], folder: Path | None) -> FormatSettings:
    faults: list[str] = []
    settings = parse_format(document, folder, faults)
    assert faults == []
    return settings


VALID: list[tuple[dict[str, Any], FormatSettings]] = [
    ({}, FormatSettings()),
    ({"format": "json"}, FormatSettings(FormatName.JSON)),
    ({"format": "avro", "registry": REGISTRY}, FormatSettings(FormatName.AVRO, RegistrySettings(REGISTRY["url"]))),
    ({"format": "avro", "schema_file": "payment.avsc"}, FormatSettings(FormatName.AVRO, None, b"content")),
    (
        {"format": "avro", "schema_file": "payment.avsc", "registry": REGISTRY},
        FormatSettings(FormatName.AVRO, RegistrySettings(REGISTRY["url"]), b"content"),
    ),
    (
        {"format": "protobuf", "schema_file": "payment.avsc", "message": "shop.Payment"},
        FormatSettings(FormatName.PROTOBUF, None, b"content", "shop.Payment"),
    ),
    ({"format": "json_schema"}, FormatSettings(FormatName.JSON_SCHEMA)),
    (
        {"format": "protobuf", "registry": {**REGISTRY, "auth": {"ssl.ca.location": "/ca.pem"}}},
        FormatSettings(FormatName.PROTOBUF, RegistrySettings(REGISTRY["url"], (("ssl.ca.location", "/ca.pem"),))),
    ),
]


@pytest.mark.parametrize(("document", "expected"), VALID, ids=[str(document) for document, _ in VALID])
def test_settings_are_read_and_read_again_without_the_file(
    document: dict[str, Any], expected: FormatSettings, folder: Path
) -> None:
    settings = parsed(document, folder)
    assert settings == expected
    assert parsed(settings.document(), None) == settings


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"format": "xml"}, "`format` must be one of json, csv, avro, protobuf, json_schema"),
        ({"format": "avro"}, "format avro needs a `registry` or a `schema_file`"),
        ({"format": "json", "registry": REGISTRY}, "`registry` is for format avro, protobuf, json_schema only"),
        ({"format": "csv", "schema_file": "payment.avsc"}, "`schema_file` is for format avro, protobuf only"),
        ({"schema_file": "payment.avsc"}, "`schema_file` is for format avro, protobuf only"),
        ({"format": "avro", "schema_file": "absent.avsc"}, "No such file"),
        ({"format": "avro", "schema_file": "empty.avsc"}, "is empty"),
        ({"format": "avro", "schema_file": 7}, "`schema_file` must be the path of a file"),
        ({"format": "avro", "schema_file": "a\0"}, "cannot be read"),
        ({"format": "avro", "schema_content": "%"}, "`schema_content` must be base64"),
        ({"format": "avro", "schema_file": "payment.avsc", "schema_content": "aaaa"}, "exclude each other"),
        (
            {"format": "protobuf", "schema_file": "payment.avsc", "registry": REGISTRY, "message": "A"},
            "either a `registry` or a `schema_file`",
        ),
        ({"format": "protobuf", "schema_file": "payment.avsc"}, "`message` is required"),
        ({"format": "protobuf", "registry": REGISTRY, "message": "A"}, "`message` is required for a `schema_file`"),
        ({"format": "avro", "registry": REGISTRY, "message": 7}, "`message` must be the full name"),
        ({"format": "avro", "registry": {"url": "registry:8081"}}, "must have a `url`"),
        ({"format": "avro", "registry": {"url": "http://user:secret@registry"}}, "without user and password"),
        ({"format": "avro", "registry": "http://registry"}, "must have a `url`"),
        ({"format": "avro", "registry": {**REGISTRY, "user": "a"}}, "unknown key 'user'"),
        ({"format": "avro", "registry": {**REGISTRY, "auth": "basic"}}, "`auth` must be a mapping"),
        ({"format": "avro", "registry": {**REGISTRY, "auth": {"timeout": "5"}}}, "'timeout' in `auth` must be one of"),
        (
            {"format": "avro", "registry": {**REGISTRY, "auth": {"basic.auth.user.info": "a:b"}}},
            "basic.auth.user.info is secret: set FRAUD_REGISTRY_BASIC_AUTH_USER_INFO",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_every_fault_is_named(document: dict[str, Any], fault: str, folder: Path) -> None:
    faults: list[str] = []
    assert parse_format(document, folder, faults) == FormatSettings()
    assert [each for each in faults if fault in each], faults


def test_a_file_needs_a_folder_and_has_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[str] = []
    parse_format({"format": "avro", "schema_file": "payment.avsc"}, None, faults)
    monkeypatch.setattr(record_format, "MAX_SCHEMA_BYTES", 6)
    parse_format({"format": "avro", "schema_file": "payment.avsc"}, folder, faults)
    assert len(faults) == 2
    assert "has 7 bytes; at most 6" in faults[1]
