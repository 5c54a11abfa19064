"""The description of a schema's fields for people: labels, units, known values and masking. No result depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

DISPLAY_KEYS: Final = frozenset({"label", "description", "unit", "values", "measure", "minimum", "display"})

_MAX_TEXT: Final = 200
_MAX_VALUES: Final = 200
_MASKED: Final = "masked"


@dataclass(frozen=True, slots=True)
class FieldDisplay:
    """The description of a field. An empty member is not declared.

    `label` is a singular noun, `unit` the unit or currency of its numbers, and `values` the texts that usually occur.
    `measure`: whether sums of the field make sense. `minimum` is the smallest number that occurs. `masked`: the field
    identifies a person, so that only some roles see its values, and an erasure finds them.
    """

    label: str = ""
    description: str = ""
    unit: str = ""
    values: tuple[str, ...] = ()
    measure: bool | None = None
    minimum: int | None = None
    masked: bool = False


def parse_display(item: Mapping[str, object], where: str, faults: list[str]) -> FieldDisplay:
    """Build the description from a field's decoded YAML. Append the faults, which call the field `where`."""
    before = len(faults)
    texts = {name: item.get(name, "") for name in ("label", "description", "unit")}
    faults += [
        f"{where}: `{name}` must be a text of at most {_MAX_TEXT} characters"
        for name, text in texts.items()
        if not isinstance(text, str) or len(text) > _MAX_TEXT
    ]
    values = item.get("values") or []
    if (
        not isinstance(values, list)
        or len(values) > _MAX_VALUES
        or not all(isinstance(each, str) and len(each) <= _MAX_TEXT for each in values)
    ):
        faults.append(f"{where}: `values` must be a list of at most {_MAX_VALUES} texts")
    measure, minimum = item.get("measure"), item.get("minimum")
    if measure is not None and not isinstance(measure, bool):
        faults.append(f"{where}: `measure` must be true or false")
    if minimum is not None and type(minimum) is not int:
        faults.append(f"{where}: `minimum` must be a whole number")
    if item.get("display") not in (None, _MASKED):
        faults.append(f"{where}: `display` must be {_MASKED}")
    if len(faults) > before:
        return FieldDisplay()
    return FieldDisplay(
        label=str(texts["label"]),
        description=str(texts["description"]),
        unit=str(texts["unit"]),
        values=tuple(values) if isinstance(values, list) else (),
        measure=measure if isinstance(measure, bool) else None,
        minimum=minimum if isinstance(minimum, int) else None,
        masked=item.get("display") == _MASKED,
    )
