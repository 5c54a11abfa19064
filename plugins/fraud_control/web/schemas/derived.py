"""Derives the models of responses whose content another package defines, for the description of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from pydantic import create_model

from fraud_control.web.schemas.base import ResponseModel

__all__ = ["model_of"]


def model_of(struct: type[msgspec.Struct], more: Mapping[str, Any] = MappingProxyType({})) -> type[ResponseModel]:
    """Derive the model of the JSON of a struct, and of the structs in its members. `more` are the types of further
    members, or of members that differ.
    """
    types = {**get_type_hints(struct), **more}
    members: dict[str, Any] = {name: (_converted(each), ...) for name, each in types.items()}
    return create_model(struct.__name__, __base__=ResponseModel, __doc__=struct.__doc__, **members)


def _converted(found: Any) -> Any:
    """A type with the models of the structs in it."""
    if isinstance(found, type) and issubclass(found, msgspec.Struct):
        return model_of(found)
    if get_origin(found) is Sequence or get_origin(found) is list:
        return list[_converted(get_args(found)[0])]  # type: ignore[misc] -- known at run time only
    return found
