"""Masks the values of fields that identify a person, in documents for people and programs. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from fraud_control.domain.roles import LEAST_ROLE, Permission, Role
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.safe_text import scalar_text

Mask: TypeAlias = Callable[[Any], Any]
"""Returns a JSON document with masked values."""

_VALUE_OF: Final = {"field": ("value", "values"), "entityField": ("entityValue",)}
"""The members that hold values of the field that another member of the same object names."""

_COLLECTION: Final = ("listName", "mapName")
_CONTENT: Final = ("values", "entries", "keys")
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
        return self.document(_without_content(document))

    def document(self, document: Any) -> Any:
        """Mask the members with the name of a masked field, and the values beside the name of such a field."""
        if isinstance(document, dict):
            hidden = self.names.union(self._beside_names(document))
            return {
                name: self._hidden(each) if name in hidden else self.document(each) for name, each in document.items()
            }
        return [self.document(each) for each in document] if isinstance(document, list) else document

    def _beside_names(self, document: dict[str, Any]) -> Iterable[str]:
        for naming, members in _VALUE_OF.items():
            named = document.get(naming)
            if isinstance(named, str) and named in self.names:
                yield from members

    def _hidden(self, value: Any) -> Any:
        """Hide a value; of a list, each element; of an object, its `value`."""
        if isinstance(value, list):
            return [self._hidden(each) for each in value]
        if isinstance(value, dict):
            return {name: self._hidden(each) if name == "value" else each for name, each in value.items()}
        return None if value is None else self._hide(scalar_text(value))


def _without_content(document: Any) -> Any:
    """Empty the values in changes of lists and maps."""
    if isinstance(document, list):
        return [_without_content(each) for each in document]
    if not isinstance(document, dict):
        return document
    emptied = _CONTENT if any(name in document for name in _COLLECTION) else ()
    return {
        name: type(each)() if name in emptied and isinstance(each, list | dict) else _without_content(each)
        for name, each in document.items()
    }
