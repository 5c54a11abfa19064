"""Derives the models of responses whose content another package defines, for the description of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from types import MappingProxyType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from fraud_control.web.schemas.base import ResponseModel


def model_of(struct: type[msgspec.Struct], more: Mapping[str, Any] = MappingProxyType({})) -> type[ResponseModel]:
    """Derive the model of the JSON of a struct, and of the structs in its members. `more` are the types of further
    members, or of members that differ; None leaves a member out. A member that the JSON can lack is optional.
    """
    types = {**get_type_hints(struct), **more}
    members: dict[str, Any] = {name: _member(each) for name, each in types.items() if each is not None}
    return create_model(struct.__name__, __base__=ResponseModel, __doc__=struct.__doc__, **members)


@dataclass(frozen=True, slots=True)
class Derived:
    """In an annotation of a member: its value is a struct, of which all members but these are shown."""

    without: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, struct: type[msgspec.Struct], handler: GetCoreSchemaHandler) -> CoreSchema:
        model = model_of(struct, dict.fromkeys(self.without))
        return no_info_before_validator_function(msgspec.to_builtins, handler.generate_schema(model))


def list_of(model: type) -> Any:
    """The type of a list of a model that is known at run time only."""
    return list.__class_getitem__(model)


def _member(found: Any) -> tuple[Any, Any]:
    """The type and the default of a member."""
    given = [each for each in get_args(found) if each is not msgspec.UnsetType]
    if _is_union(found) and len(given) < len(get_args(found)):
        return reduce(or_, map(_converted, given)) | None, None
    return _converted(found), ...


def _is_union(found: Any) -> bool:
    return get_origin(found) in (Union, UnionType)


def _converted(found: Any) -> Any:
    """A type with the models of the structs in it."""
    if isinstance(found, type) and issubclass(found, msgspec.Struct):
        return model_of(found)
    if _is_union(found):
        return reduce(or_, map(_converted, get_args(found)))
    if get_origin(found) is Sequence or get_origin(found) is list:
        return list_of(_converted(get_args(found)[0]))
    return found
