"""A registry in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fraud_rules.codec.formats.schemas import RegisteredSchema, SchemaKey
from fraud_rules.errors import RegistryUnavailable


class MemoryRegistry:
    """A `SchemaSource` of these schemas. `asked` has the keys of each request. It is down while `is_down` is set."""

    def __init__(self, schemas: Mapping[SchemaKey, RegisteredSchema]) -> None:
        self._schemas = dict(schemas)
        self.asked: list[set[SchemaKey]] = []
        self.is_down = False

    def schemas(self, keys: Collection[SchemaKey]) -> Mapping[SchemaKey, RegisteredSchema | None]:
        self.asked.append(set(keys))
        if self.is_down:
            raise RegistryUnavailable("the registry is down")
        return {key: self._schemas.get(key) for key in keys}

    def add(self, key: SchemaKey, schema: RegisteredSchema) -> None:
        self._schemas[key] = schema
