"""Schemas of a registry, and the seam to the registry: the codec does no I/O and knows no client.

The client is an entry point of the group `fraud_rules.schema_source`, because it is in a layer above.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib.metadata import entry_points
from typing import Final, Protocol, TypeAlias

import msgspec

from fraud_rules.errors import ConfigError
from fraud_rules.model.declared.record_format import RegistrySettings

SchemaKey: TypeAlias = int | str
"""The id of a schema, or its GUID as text. Both are unique in a registry, and their schema never changes."""

_GROUP: Final = "fraud_rules.schema_source"


class NamedText(msgspec.Struct, frozen=True):
    """A schema to which another one refers, by the name in the reference."""

    name: str
    text: str


class RegisteredSchema(msgspec.Struct, frozen=True):
    """A schema of the registry: its `kind` (AVRO, PROTOBUF or JSON), and its references, each after its own ones."""

    kind: str
    text: str
    references: tuple[NamedText, ...] = ()


class SchemaSource(Protocol):
    """A registry of schemas."""

    def schemas(self, keys: Collection[SchemaKey]) -> Mapping[SchemaKey, RegisteredSchema | None]:
        """The schemas of these keys; None for a key that the registry does not know.

        Raises RegistryUnavailable if the registry gives no answer within a limit, and none is stored here.
        """


SourceOpener: TypeAlias = Callable[[RegistrySettings], SchemaSource]


def schema_source(registry: RegistrySettings) -> SchemaSource:
    """Open the client of this registry. It connects at its first use. Raises ConfigError."""
    points = tuple(entry_points(group=_GROUP))
    if not points:
        raise ConfigError(f"no package offers {_GROUP}: install fraud-rules again, for example with bin/bootstrap")
    opener: SourceOpener = points[0].load()
    return opener(registry)
