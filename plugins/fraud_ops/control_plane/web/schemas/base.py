"""What every shape has in common."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

__all__ = [
    "MAX_ID", "Comment", "Document", "EpochMs", "Problem", "ProblemReason", "Request", "RuleId", "RuleText", "Shape",
]  # fmt: skip

MAX_ID = 2**63 - 1

RuleId: TypeAlias = Annotated[int, Field(ge=1, le=MAX_ID)]
EpochMs: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
Document: TypeAlias = dict[str, Any]
"""A rule as the rule log takes it. What is wrong with its members is said by `fraud_rules`, not here."""
Comment: TypeAlias = Annotated[str, Field(max_length=2_000)]
RuleText: TypeAlias = Annotated[str, Field(max_length=32_768)]
"""The one-line text form."""


class Shape(BaseModel):
    """An answer."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Request(BaseModel):
    """A body that is sent to us."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")


class ProblemReason(Shape):
    """One thing that is wrong: the member it is about, and what to change."""

    field: str
    message: str


class Problem(Shape):
    """An error (RFC 9457). `type` is a path below this server, stable for each kind of problem."""

    type: str
    title: str
    status: int
    detail: str
    reasons: list[ProblemReason] = []
