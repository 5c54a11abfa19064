"""The client of a schema registry with Confluent's API. It never mistakes a missing answer for an unknown schema."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from cachetools import TTLCache

from fraud_rules.codec.formats.schemas import NamedText, RegisteredSchema, SchemaKey
from fraud_rules.errors import ConfigError, RegistryUnavailable
from fraud_rules.kafka.registry.credentials import registry_properties
from fraud_rules.kafka.registry.folder import SchemaFolder
from fraud_rules.model.declared.record_format import RegistrySettings
from fraud_rules.runtime.retry import retried
from fraud_rules.runtime.secret import Secrets

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

LIMIT_S: Final = 60.0
"""How long a batch waits for a registry that gives no answer."""

_PAUSE_S: Final = 1.0
_REQUEST_LIMIT_S: Final = 10
_CONFIRMATION_S: Final = 2.0
"""The pause before a schema counts as unknown: a follower of a registry may learn of a new schema after its leader."""

_CONFIRMED_S: Final = 60.0
_MAX_CONFIRMED: Final = 10_000
"""How long, and for how many unknown schemas, there is no further pause. The registry is still asked in each batch."""

_MAX_ID: Final = 2**31 - 1
_MAX_REFERENCES: Final = 100
_SCHEMA_NOT_FOUND: Final = 40403
_OVERLOADED: Final = (408, 429)
_REJECTED: Final = (409, 422)

_log = logging.getLogger(__name__)


def open_registry(registry: RegistrySettings) -> RegistryClient:
    """The client of this registry, with the credentials of this process. Raises ConfigError."""
    return RegistryClient(registry.url, registry_properties(registry), SchemaFolder.of_registry(registry))


class RegistryClient:
    """A `SchemaSource`. The registry decides if it answers; otherwise the folder's copy is as good, because the schema
    of an id never changes."""

    def __init__(
        self,
        url: str,
        properties: Secrets,
        folder: SchemaFolder,
        *,
        limit_s: float = LIMIT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = url
        self._properties = properties
        self._folder = folder
        self._limit_s = limit_s
        self._sleep = sleep
        self._confirmed: TTLCache[SchemaKey, None] = TTLCache(_MAX_CONFIRMED, _CONFIRMED_S)

    def schemas(self, keys: Collection[SchemaKey]) -> Mapping[SchemaKey, RegisteredSchema | None]:
        """See `SchemaSource`. Raises RegistryUnavailable after the limit, at most."""
        found = {key: self._schema(key) for key in keys}
        unconfirmed = [key for key, schema in found.items() if schema is None and key not in self._confirmed]
        if unconfirmed:
            self._sleep(_CONFIRMATION_S)
            found |= {key: self._schema(key) for key in unconfirmed}
            self._confirmed.update((key, None) for key in unconfirmed if found[key] is None)
        return found

    def register(self, subject: str, schema: str) -> int:
        """Register a JSON Schema, unless the subject has it. Returns its id.

        Raises RegistryUnavailable, and ConfigError if the registry rejects the schema.
        """
        from confluent_kafka.schema_registry import Schema, SchemaRegistryError

        client = self._client
        try:
            with self._answering():
                return int(client.register_schema(subject, Schema(schema, "JSON")))
        except _NoAnswerError as error:
            raise RegistryUnavailable(f"{error} about {subject}") from error
        except SchemaRegistryError as error:
            message = f"the registry {self._url} answers {_one_line(error)} about {subject}"
            if error.http_status_code in _REJECTED:
                remedy = "its consumers would not read the new schema: use another subject, or relax its compatibility"
                raise ConfigError(f"{message}: {remedy}") from error
            raise RegistryUnavailable(message) from error

    def _schema(self, key: SchemaKey) -> RegisteredSchema | None:
        if isinstance(key, int) and key > _MAX_ID:
            return None  # no registry has such an id, and some do not answer about it
        try:
            schema = self._fetch(key)
        except _NoAnswerError as error:
            schema = self._folder.read(key)
            if schema is not None:
                _log.warning("%s; schema %s comes from this host's copy", error, key)
                return schema
            schema = self._retried(key)
        if schema is None:
            return self._folder.read(key)
        self._folder.write(key, schema)
        return schema

    def _retried(self, key: SchemaKey) -> RegisteredSchema | None:
        try:
            return retried(
                lambda: self._fetch(key),
                is_transient=lambda error: isinstance(error, _NoAnswerError),
                within_s=self._limit_s,
                every_s=_PAUSE_S,
                sleep=self._sleep,
            )
        except _NoAnswerError as error:
            raise RegistryUnavailable(
                f"{error}, for {self._limit_s:g} s, and this host has no copy of schema {key}: start the registry, or "
                "correct its address in the schema file. No record was skipped"
            ) from error

    def _fetch(self, key: SchemaKey) -> RegisteredSchema | None:
        """Ask the registry once. Returns None if it does not know the schema."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        client = self._client
        references: dict[str, str] = {}
        try:
            with self._answering():
                schema = client.get_schema(key) if isinstance(key, int) else client.get_schema_by_guid(key)
                self._add_references(schema, references)
        except SchemaRegistryError as error:
            if _is_unknown_schema(error):
                return None
            if isinstance(key, str) and error.http_status_code == 404 and self._has_ids():
                return None  # not every registry finds schemas by their GUIDs
            raise RegistryUnavailable(
                f"the registry {self._url} answers {_one_line(error)} about schema {key}: correct its address in the "
                f"schema file, or the credentials in the environment. No record was skipped"
            ) from error
        names = tuple(NamedText(name, text) for name, text in references.items())
        return RegisteredSchema(str(schema.schema_type), str(schema.schema_str), names)

    def _has_ids(self) -> bool:
        """Whether schemas have ids at the registry's address, so that it is the right one."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            with self._answering():
                self._client.get_schema(_MAX_ID)
        except SchemaRegistryError as error:
            return _is_unknown_schema(error)
        return True

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raise _NoAnswerError for an error that says nothing about the request."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            yield
        except SchemaRegistryError as error:
            if error.http_status_code in _OVERLOADED or error.http_status_code >= 500:
                raise _NoAnswerError(f"the registry {self._url} answers {_one_line(error)}") from error
            raise
        except RegistryUnavailable:
            raise
        except Exception as error:  # the client has no common class for connections, time-outs, tokens and odd answers
            raise _NoAnswerError(f"the registry {self._url} gives no answer ({_one_line(error)})") from error

    def _add_references(self, schema: Any, references: dict[str, str]) -> None:
        """Add the schemas to which a schema refers, each after its own references."""
        for reference in schema.references or ():
            if reference.name in references:
                continue
            if len(references) >= _MAX_REFERENCES:
                raise RegistryUnavailable(f"a schema of {self._url} refers to more than {_MAX_REFERENCES} others")
            target = self._client.get_version(reference.subject, reference.version).schema
            self._add_references(target, references)
            references[reference.name] = str(target.schema_str)

    @cached_property
    def _client(self) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        settings = {"url": self._url, "timeout": _REQUEST_LIMIT_S, "max.retries": 0, **self._properties.reveal()}
        try:
            return SchemaRegistryClient(settings)
        except (ValueError, TypeError, OSError) as error:
            raise ConfigError(f"registry {self._url}: {_one_line(error)}") from error


class _NoAnswerError(Exception):
    """A registry gave no answer. A later request may succeed."""


def _is_unknown_schema(error: SchemaRegistryError) -> bool:
    return bool(error.http_status_code == 404 and error.error_code == _SCHEMA_NOT_FOUND)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
