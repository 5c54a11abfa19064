"""Words the faults that pydantic finds in values, for the command line and for the control plane's API.

The sentences of pydantic name its types. This module reads the entries of `ValidationError.errors()`, without pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, Final

from fraud_rules.runtime.safe_text import describe_value

_WRONG_TYPES: Final[Mapping[str, str]] = {
    "int_parsing": "is not a whole number",
    "int_parsing_size": "is not a whole number",
    "int_from_float": "is not a whole number",
    "int_type": "is not a whole number",
    "float_parsing": "is not a number",
    "float_type": "is not a number",
    "finite_number": "is not a number",
    "string_type": "is not a text",
    "bool_parsing": "is not true or false",
    "bool_type": "is not true or false",
    "list_type": "is not a list",
    "dict_type": "is not an object",
    "model_type": "is not an object",
    "model_attributes_type": "is not an object",
}
_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than_equal": ("ge", "is below the minimum {}"),
    "less_than_equal": ("le", "is above the maximum {}"),
    "greater_than": ("gt", "is not above {}"),
    "less_than": ("lt", "is not below {}"),
}
_LENGTHS: Final[Mapping[str, tuple[str, str]]] = {
    "string_too_short": ("min_length", "has {} characters, at least {} are required"),
    "string_too_long": ("max_length", "has {} characters, at most {} are allowed"),
    "too_short": ("min_length", "has {} entries, at least {} are required"),
    "too_long": ("max_length", "has {} entries, at most {} are allowed"),
}
_OF_PYDANTIC: Final = "Input should "


def fault_text(fault: Mapping[str, Any]) -> str:
    """The fault of a value, without the value's name and without a full stop: `'x' is not a whole number`."""
    kind, value, context = fault["type"], fault.get("input"), fault.get("ctx", {})
    shown = repr(value) if isinstance(value, float) else describe_value(value)
    if kind in _WRONG_TYPES:
        return f"{shown} {_WRONG_TYPES[kind]}"
    if kind in _BOUNDS:
        name, text = _BOUNDS[kind]
        return f"{shown} {text.format(_number(context[name]))}"
    if kind in _LENGTHS and isinstance(value, Sized):
        name, text = _LENGTHS[kind]
        return text.format(len(value), context[name])
    match kind:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is not a known member"
        case "literal_error" | "enum":
            return f"{shown} is not one of {context['expected']}"
        case "string_pattern_mismatch":
            return f"{shown} does not match the pattern {context['pattern']}"
        case "value_error":
            return str(context["error"])
    text = str(fault["msg"])
    return f"{shown} should {text.removeprefix(_OF_PYDANTIC)}" if text.startswith(_OF_PYDANTIC) else text


def _number(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"
