"""The schemas of a registry that this host has seen, one file each, for a start while the registry is down."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from fraud_rules.codec.formats.schemas import RegisteredSchema, SchemaKey
from fraud_rules.model.declared.record_format import RegistrySettings
from fraud_rules.runtime.atomic_file import Durability, write_file
from fraud_rules.runtime.caches.folder import cache_folder

MAX_FILES: Final = 1_000

_log = logging.getLogger(__name__)


class SchemaFolder:
    """A folder of schemas. A schema that cannot be read is missing, and one that cannot be written is not kept."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of_registry(cls, registry: RegistrySettings) -> SchemaFolder:
        """The folder of this registry. Other settings can mean other schemas with the same ids."""
        digest = hashlib.blake2b(repr(registry).encode(), digest_size=8).hexdigest()
        return cls(cache_folder(f"schemas-{digest}"))

    def read(self, key: SchemaKey) -> RegisteredSchema | None:
        """The schema with this key; None if the folder does not have it."""
        try:
            return msgspec.json.decode(self._file(key).read_bytes(), type=RegisteredSchema)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, key: SchemaKey, schema: RegisteredSchema) -> None:
        """Keep a schema, and remove the oldest one of too many."""
        try:
            self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_file(self._file(key), msgspec.json.encode(schema), Durability.NONE)
            files = list(self._path.glob("*.json"))
        except OSError as error:
            _log.warning("schema %s is not kept in %s: %s", key, self._path, error)
            return
        if len(files) > MAX_FILES:
            with suppress(OSError):
                min(files, key=lambda file: file.stat().st_mtime_ns).unlink()

    def _file(self, key: SchemaKey) -> Path:
        return self._path / f"{key}.json"
