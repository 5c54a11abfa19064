"""How the records of the transactions' topic are encoded, as the top of a schema file declares it.

The keys: `format`, `registry` (`url`, and `auth` with properties that are not secret), `schema_file` (a path from the
folder of the YAML file) and `message`. `schema_content` holds the content of a schema file in base64, because the hosts
of a detector do not have the file.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fraud_rules.runtime.file_faults import fault_of_file

FORMAT_KEYS: Final = frozenset({"format", "registry", "schema_file", "schema_content", "message"})
"""The keys of a schema file that this module reads."""

MAX_SCHEMA_BYTES: Final = 4_194_304

AUTH_PROPERTIES: Final = (
    "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "bearer.auth.credentials.source",
    "bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.scope", "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
)  # fmt: skip
"""The properties of confluent-kafka's registry client that a schema file may hold."""

SECRET_PROPERTIES: Final = (
    "basic.auth.user.info", "ssl.key.password", "bearer.auth.client.secret", "bearer.auth.token",
)  # fmt: skip
"""The properties that only the environment or a properties file may hold (see `kafka.registry`)."""


class FormatName(StrEnum):
    """The formats that a schema file can name. Without a name, each record is JSON or a CSV line, by its first byte."""

    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json_schema"


BINARY: Final = (FormatName.AVRO, FormatName.PROTOBUF)
"""The formats whose records have no text. A file can hold their schema."""

WITH_SCHEMAS: Final = (*BINARY, FormatName.JSON_SCHEMA)
"""The formats whose records have a schema of their own, which a registry can hold."""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The address of a schema registry with Confluent's API, and the properties of its client, without secrets."""

    url: str
    auth: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FormatSettings:
    """The encoding of the records.

    `schema_file` is the content of a schema file: the Avro schema as JSON, or a descriptor set of Protobuf, of which
    `message` names the message type. With a registry, an Avro schema file only supplies the defaults of members that a
    record's own schema does not have.
    """

    format: FormatName | None = None
    registry: RegistrySettings | None = None
    schema_file: bytes = b""
    message: str = ""

    def document(self) -> dict[str, object]:
        """The keys of a schema file with these settings, without those that have their default."""
        keys: dict[str, object] = {
            "format": self.format.value if self.format else "",
            "schema_content": base64.b64encode(self.schema_file).decode(),
            "message": self.message,
        }
        if self.registry is not None:
            auth = {"auth": dict(self.registry.auth)} if self.registry.auth else {}
            keys["registry"] = {"url": self.registry.url, **auth}
        return {name: value for name, value in keys.items() if value}


def parse_format(document: Mapping[str, object], folder: Path | None, faults: list[str]) -> FormatSettings:
    """Build the settings from the decoded YAML of a schema file in `folder`. Append the faults."""
    before = len(faults)
    name = _parse_name(document.get("format"), faults)
    registry = _parse_registry(document["registry"], faults) if "registry" in document else None
    content = _parse_content(document, folder, faults)
    message = document.get("message", "")
    if not isinstance(message, str):
        faults.append("`message` must be the full name of a message type, such as shop.payments.Payment")
    if len(faults) == before:
        faults += _faults_of_keys(document, name)
    if len(faults) > before:
        return FormatSettings()
    return FormatSettings(name, registry, content, str(message))


def _parse_name(name: object, faults: list[str]) -> FormatName | None:
    if name is None:
        return None
    if name not in tuple(FormatName):
        faults.append(f"`format` must be one of {', '.join(FormatName)}")
        return None
    return FormatName(str(name))


def _parse_registry(document: object, faults: list[str]) -> RegistrySettings | None:
    url = document.get("url") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(url, str) or not _is_address(url):
        faults.append("`registry` must have a `url` with http or https, and without user and password")
        return None
    faults += [f"`registry`: unknown key {key!r}" for key in document if key not in ("url", "auth")]
    auth = document.get("auth") or {}
    if not isinstance(auth, dict) or not all(isinstance(value, str) for value in auth.values()):
        faults.append("`registry`: `auth` must be a mapping of properties to texts")
        return None
    for name in auth:
        if name in SECRET_PROPERTIES:
            variable = "FRAUD_REGISTRY_" + name.upper().replace(".", "_")
            faults.append(f"`registry`: {name} is secret: set {variable}, or FRAUD_REGISTRY_PROPERTIES to a file")
        elif name not in AUTH_PROPERTIES:
            faults.append(f"`registry`: {name!r} in `auth` must be one of {', '.join(AUTH_PROPERTIES)}")
    return RegistrySettings(url, tuple(sorted(auth.items())))


def _is_address(urls: str) -> bool:
    parts = [urlsplit(url.strip()) for url in urls.split(",")]
    return all(part.scheme in ("http", "https") and part.hostname and "@" not in part.netloc for part in parts)


def _parse_content(document: Mapping[str, object], folder: Path | None, faults: list[str]) -> bytes:
    content = b""
    if "schema_content" in document:
        try:
            content = base64.b64decode(str(document["schema_content"]), validate=True)
        except (binascii.Error, ValueError):
            faults.append("`schema_content` must be base64")
    elif "schema_file" in document:
        content = _read_file(document["schema_file"], folder, faults)
    if len(content) > MAX_SCHEMA_BYTES:
        faults.append(f"the schema file has {len(content):,} bytes; at most {MAX_SCHEMA_BYTES:,} are read")
    return content


def _read_file(name: object, folder: Path | None, faults: list[str]) -> bytes:
    if not isinstance(name, str) or not name or folder is None:
        faults.append("`schema_file` must be the path of a file, from the folder of the YAML file")
        return b""
    try:
        content = (folder / name).read_bytes()
    except (OSError, ValueError) as error:
        faults.append(f"`schema_file`: {folder / name} cannot be read: {fault_of_file(error)}")
        return b""
    if not content:
        faults.append(f"`schema_file`: {folder / name} is empty")
    return content


def _faults_of_keys(document: Mapping[str, object], name: FormatName | None) -> list[str]:
    """The faults of keys that do not go together."""
    has_registry = "registry" in document
    has_file = "schema_file" in document or "schema_content" in document
    has_message = bool(document.get("message"))
    faults: list[str] = []
    if has_registry and name not in WITH_SCHEMAS:
        faults.append(f"`registry` is for format {', '.join(WITH_SCHEMAS)} only")
    if has_file and name not in BINARY:
        faults.append(f"`schema_file` is for format {', '.join(BINARY)} only")
    if "schema_file" in document and "schema_content" in document:
        faults.append("`schema_file` and `schema_content` exclude each other")
    if name in BINARY and not (has_registry or has_file):
        faults.append(f"format {name} needs a `registry` or a `schema_file`")
    if name is FormatName.PROTOBUF and has_registry and has_file:
        faults.append("format protobuf needs either a `registry` or a `schema_file`, not both")
    if has_message != (name is FormatName.PROTOBUF and has_file):
        faults.append("`message` is required for a `schema_file` of format protobuf, and for nothing else")
    return faults
