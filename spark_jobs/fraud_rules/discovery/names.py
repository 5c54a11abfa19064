"""Names for fields, from the paths of their values. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from fraud_rules.model.declared.field_source import Path
from fraud_rules.model.schema import MAX_FIELDS, MAX_NAME_LENGTH

_RESERVED: Final = frozenset({"and", "or", "not", "between", "true", "false", "null", "in", "is", "like", "list"})
"""Words of filters."""

_GENERIC: Final = frozenset(
    {"value", "id", "name", "type", "code", "number", "minor", "units", "cents", "account", "iban"}
)
"""Names that need the name before them."""


def name_of(path: Path, others: Collection[Path], in_use: Collection[str]) -> str:
    """A name for the field at a path: its last name, after the nearest one that tells it from paths with an equal end.

    `others` are the paths of all values, `in_use` the names of other fields.
    """
    names = [re.sub(r"[^A-Za-z0-9_]+", "_", str(part)).strip("_") or "field" for part in path]
    twins = [other for other in others if other != path and other[-1:] == path[-1:]]
    name = names[-1]
    if len(path) > 1 and (twins or name.lower() in _GENERIC):
        outer = range(len(path) - 2, -1, -1)
        differing = (at for at in outer if all(path[at : at + 1] != other[at : at + 1] for other in twins))
        name = _joined(names[next(differing, len(path) - 2)], name)
    if name[0].isdigit() or name.lower() in _RESERVED:
        name = _joined("field", name)
    name = name[:MAX_NAME_LENGTH]
    numbered = (f"{name[: MAX_NAME_LENGTH - 2]}{n}" for n in range(2, MAX_FIELDS + 2))
    return name if name not in in_use else next(each for each in numbered if each not in in_use)


def _joined(first: str, second: str) -> str:
    return first + second[:1].upper() + second[1:]
