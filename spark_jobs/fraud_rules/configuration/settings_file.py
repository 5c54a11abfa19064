"""Settings classes: fields with bounds or patterns, read from a document and overridden by the environment.

A settings class is a frozen dataclass whose fields are flags, whole numbers (`bounded`), texts (`matching`), constants,
and further settings classes. The reader collects every wrong key and value, so that one error can report all of them.

pydantic-settings would do the same, but importing it takes about 0.45 s of CPU, half as much as all other imports of a
Python worker of Spark. Each worker imports the settings classes, and each `fraud` command reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from types import MappingProxyType
from typing import Any, Final

from fraud_rules.runtime.safe_text import describe_value

NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
"""The valid names of a detector, and of any other writer with a transactional id."""

NAME_IS: Final = "lower-case letters, digits, '.', '_' and '-', at most 64"

_FLAGS: Final = MappingProxyType({"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False})


def bounded(default: int, low: int, high: int) -> Any:
    """Declare a whole-number setting with inclusive bounds."""
    return field(default=default, metadata={"low": low, "high": high})


def settable(kind: Any) -> dict[str, Field[Any]]:
    """The settings of a class, by name: its fields without the constants."""
    return {each.name: each for each in fields(kind) if "constant" not in each.metadata}


def matching(default: str, pattern: re.Pattern[str], what: str, *, secret: bool = False) -> Any:
    """Declare a text setting that must match a pattern in full. A secret text appears in no `repr` and in no error."""
    return field(default=default, repr=not secret, metadata={"pattern": pattern, "what": what, "secret": secret})


def read_settings(
    kind: type[Any], document: object, environ: Mapping[str, str], prefix: str, faults: list[str], path: str = ""
) -> dict[str, Any]:
    """Read the values for a settings class, by name. The result excludes settings without a value.

    `prefix` starts the names of the environment variables. `path` is the dotted path of the class within the document,
    with a final dot. The caller must read a field without a plain default itself. Faults are added to `faults`.
    """
    if not isinstance(document, Mapping):
        faults.append(f"{path.rstrip('.') or 'the file'} must be a mapping of settings")
        return {}
    known = settable(kind)
    faults += [f"{path}{name} is not a setting; known are {', '.join(known)}" for name in document if name not in known]
    values: dict[str, Any] = {}
    for name, setting in known.items():
        default, variable = setting.default, prefix + (path + name).upper().replace(".", "_")
        if is_dataclass(default):
            inner: type[Any] = type(default)
            parts = read_settings(inner, document.get(name, {}), environ, prefix, faults, f"{path}{name}.")
            values[name] = inner(**parts)
        elif default is not MISSING and (name in document or variable in environ):
            value = _overridden(default, document.get(name), environ.get(variable))
            fault = _fault_of(value, default, setting.metadata)
            if fault is None:
                values[name] = value
            else:
                source = f" (from {variable})" if variable in environ else ""
                but = "" if setting.metadata.get("secret") else f", not {describe_value(value)}"
                faults.append(f"{path}{name}{source} {fault}{but}")
    return values


def _overridden(default: object, value: object, text: str | None) -> object:
    """Convert an environment variable to the setting's type. Unsuitable text stays text, which then causes a fault."""
    if text is None:
        return value
    if isinstance(default, bool):
        return _FLAGS.get(text.strip().lower(), text)
    if isinstance(default, int):
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip(), re.ASCII) else text
    return text


def _fault_of(value: object, default: object, bounds: Mapping[str, Any]) -> str | None:
    """The requirement that the value does not meet, or None."""
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "must be true or false"
    if isinstance(default, int):
        low, high = bounds.get("low", 1), bounds.get("high", 2**53)
        fits = type(value) is int and low <= value <= high
        return None if fits else f"must be a whole number from {low} to {high}"
    fits = isinstance(value, str) and bounds["pattern"].fullmatch(value) is not None
    return None if fits else f"must be {bounds['what']}"
