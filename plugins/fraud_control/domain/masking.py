"""Masks the values of fields that identify a person, in documents for people and programs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fraud_control.domain.roles import LEAST_ROLE, Permission, Role
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.safe_text import scalar_text

Mask: TypeAlias = Callable[[Any], Any]
"""Returns a JSON document with masked values."""

_VALUE_OF: Final = {"field": frozenset({"value", "values"}), "entityField": frozenset({"entityValue"})}
"""The members that hold values of the field that another member of the same object names."""

_COLLECTION: Final = frozenset({"listName", "mapName"})
_CONTENT: Final = frozenset({"values", "entries", "keys"})
"""The members of a change of a list or map that hold its values, which can be ids of people."""

HIDDEN: Final = "••••"
"""What stands for a hidden text."""

_SHOWN_CHARS: Final = 4
_PSEUDONYM: Final = re.compile("id:[0-9a-f]{32}")


def plain(document: Any) -> Any:
    """Mask nothing."""
    return document


def last_characters(text: str) -> str:
    """Keep the last four characters of a longer text, and all of a pseudonym of the audit log."""
    if _PSEUDONYM.fullmatch(text):
        return text
    return HIDDEN + text[-_SHOWN_CHARS:] if len(text) > _SHOWN_CHARS else HIDDEN


class Masking:
    """Masks the values of the fields with `display: masked`, and of the entities with such a role: `names`.

    `hide` replaces the text of a value.
    """

    def __init__(self, schema: TransactionSchema, hide: Callable[[str], str] = last_characters) -> None:
        names = {each.name for each in schema.masked}
        self.names = frozenset(names | {each.name for each in schema.entities if names.intersection(each.fields)})
        self._hide = hide

    def of(self, role: Role | None) -> Mask:
        """The mask for documents that a role reads."""
        return self.shown if self.hides_from(role) else plain

    def hides_from(self, role: Role | None) -> bool:
        """Whether a role sees masked values."""
        return bool(self.names) and not (role is not None and role.includes(LEAST_ROLE[Permission.READ_IDS]))

    def shown(self, document: Any) -> Any:
        """Mask a document for people: also leave out the values of lists and maps. They belong to no field, so
        each of them can be an id of a person.
        """
        return self._masked(document, _COLLECTION)

    def document(self, document: Any) -> Any:
        """Mask the members with the name of a masked field, and the values beside the name of such a field."""
        return self._masked(document, frozenset())

    def _masked(self, document: Any, emptied: frozenset[str]) -> Any:
        """Mask a document, and empty the content of the objects with a member of `emptied`.

        A list of a thousand rules has about 100,000 scalars, which need no call of their own.
        """
        if isinstance(document, dict):
            return self._masked_object(document, emptied)
        if isinstance(document, list):
            return [self._masked(each, emptied) if isinstance(each, (dict, list)) else each for each in document]
        return document

    def _masked_object(self, document: dict[str, Any], emptied: frozenset[str]) -> dict[str, Any]:
        masked = {
            name: self._masked(each, emptied) if isinstance(each, (dict, list)) else each
            for name, each in document.items()
        }
        hidden = self.names & document.keys()
        for naming, members in _VALUE_OF.items():
            named = document.get(naming)
            if isinstance(named, str) and named in self.names:
                hidden |= members & document.keys()
        for name in hidden:
            masked[name] = self._hidden(document[name], emptied)
        if not emptied.isdisjoint(document):
            for name in _CONTENT & document.keys():
                if isinstance(document[name], (dict, list)):
                    masked[name] = type(document[name])()
        return masked

    def _hidden(self, value: Any, emptied: frozenset[str]) -> Any:
        """Hide a value; of a list, each element; of an object, its `value`."""
        if isinstance(value, list):
            return [self._hidden(each, emptied) for each in value]
        if isinstance(value, dict):
            masked = self._masked_object(value, emptied)
            return masked | {"value": self._hidden(value["value"], emptied)} if "value" in value else masked
        return None if value is None else self._hide(scalar_text(value))
