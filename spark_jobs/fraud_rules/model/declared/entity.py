"""Entities of a schema: something that several fields of a payment name, such as an account that pays or receives.

A grouping by an entity has a row of a payment for each role (see `engine.role_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

ROLE: Final = "role"
"""The name under which a row of a grouping by an entity has the name of its role."""

MAX_ENTITIES: Final = 4
MAX_ROLES: Final = 4
_MIN_ROLES: Final = 2
_KEYS: Final = ("name", "roles")
_MAX_NAME_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class DeclaredEntity:
    """An entity: its name, and its roles in the order of the schema, each with the field that names the entity."""

    name: str
    roles: tuple[tuple[str, str], ...]

    @property
    def role_names(self) -> tuple[str, ...]:
        """The names of the roles, in order."""
        return tuple(role for role, _ in self.roles)

    @property
    def fields(self) -> tuple[str, ...]:
        """The field of each role, in order."""
        return tuple(field for _, field in self.roles)

    def document(self) -> dict[str, object]:
        """The entity as decoded YAML."""
        return {"name": self.name, "roles": dict(self.roles)}


def parse_entities(
    declared: object, names: Mapping[str, str], kinds: Mapping[str, object], faults: list[str]
) -> tuple[DeclaredEntity, ...]:
    """Build the entities from decoded YAML. Append the faults.

    `names` has the field of each name and alias, and `kinds` the type of each field.
    """
    if not isinstance(declared, list) or len(declared) > MAX_ENTITIES:
        faults.append(f"`entities` must be a list of at most {MAX_ENTITIES} entities")
        return ()
    found = [_parse_entity(f"entities[{i}]", item, names, kinds, faults) for i, item in enumerate(declared)]
    entities = [each for each in found if each is not None]
    taken = [each.name for each in entities]
    faults += [f"the entity {name!r} is declared twice" for name in dict.fromkeys(taken) if taken.count(name) > 1]
    faults += [f"the name {name!r} is both an entity and a field" for name in dict.fromkeys(taken) if name in names]
    if declared and ROLE in names:
        faults.append(f"no field can have the name {ROLE!r} beside `entities`")
    return tuple(entities)


def _parse_entity(
    where: str, item: object, names: Mapping[str, str], kinds: Mapping[str, object], faults: list[str]
) -> DeclaredEntity | None:
    if not isinstance(item, dict):
        faults.append(f"{where} must be a mapping with `name` and `roles`")
        return None
    name, roles, before = item.get("name"), item.get("roles"), len(faults)
    faults += [f"{where}: unknown key {key!r}" for key in item if key not in _KEYS]
    if not _is_name(name) or name == ROLE:
        faults.append(f"{where}: `name` must be letters, digits and _, at most {_MAX_NAME_CHARS}, and not {ROLE!r}")
    if not isinstance(roles, dict) or not _MIN_ROLES <= len(roles) <= MAX_ROLES:
        faults.append(f"{where}: `roles` must map {_MIN_ROLES} to {MAX_ROLES} names of roles to fields")
        return None
    faults += [f"{where}: {role!r} is no name of a role" for role in roles if not _is_name(role)]
    unknown = [field for field in roles.values() if not isinstance(field, str) or field not in names]
    faults += [f"{where}: {field!r} is not a declared field" for field in unknown]
    if not unknown:
        faults += [f"{where}: {fault}" for fault in _field_faults([names[field] for field in roles.values()], kinds)]
    if len(faults) > before:
        return None
    return DeclaredEntity(str(name), tuple((str(role), names[field]) for role, field in roles.items()))


def _field_faults(fields: Sequence[str], kinds: Mapping[str, object]) -> list[str]:
    faults = []
    if len(set(fields)) < len(fields):
        faults.append("two roles have one field")
    if len({kinds[field] for field in fields}) > 1:
        faults.append(f"the fields {', '.join(fields)} must have one type")
    return faults


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isascii() and name.isidentifier() and len(name) <= _MAX_NAME_CHARS
