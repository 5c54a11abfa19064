"""The base classes and common types of the schemas."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from fraud_control.domain.read_models import ProblemReason

T = TypeVar("T")
C = TypeVar("C")

MAX_ID = 2**63 - 1

RuleId: TypeAlias = Annotated[int, Field(ge=1, le=MAX_ID)]
Document: TypeAlias = dict[str, Any]
"""A rule in the form of the rule log. `fraud_rules` validates its members."""
Comment: TypeAlias = Annotated[str, Field(max_length=2_000), AfterValidator(str.strip)]
RuleText: TypeAlias = Annotated[str, Field(max_length=32_768)]
"""The one-line text form."""


class ResponseModel(BaseModel):
    """The base of response bodies. `model_validate` also reads the attributes of another object."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, from_attributes=True)


class Items(ResponseModel, Generic[T]):
    """All items."""

    items: list[T]


class Paged(ResponseModel, Generic[T, C]):
    """A page of items. `next` is the cursor of the next page (`before`, `after` or `cursor`), null on the last one."""

    items: list[T]
    next: C | None


class Request(BaseModel):
    """The base of request bodies."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")


class Problem(ResponseModel):
    """An error (RFC 9457). `type` is a path of this server, stable for each kind of error."""

    type: str
    title: str
    status: int
    detail: str
    reasons: list[ProblemReason] = []
