"""Schemas of users, roles, the transaction schema, drift and the audit log."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from fraud_control.domain.program_token import MOST_DAYS, NAME_FORM, ProgramToken
from fraud_control.domain.read_models import AuditRow, Binding, DriftDifference, EpochMs, ListDifference, MapDifference
from fraud_control.domain.roles import Permission, Role
from fraud_control.web.schemas.base import Items, Paged, Request, ResponseModel


class Me(ResponseModel):
    """The user and the user's permissions. A user without a role can read nothing else until an admin binds a role."""

    user: str
    role: Role | None
    roles: list[Role] = Field(description="The role and those that it includes: the roles that a token may have.")
    four_eyes: bool
    demo: bool
    can: list[Permission]


class FieldShown(ResponseModel):
    """A field of the transaction schema."""

    name: str
    type: str
    nullable: bool
    aliases: list[str]
    label: str = Field(description="The field in words; empty if the schema has none.")
    description: str
    unit: str = Field(description="The unit or currency of its numbers; empty for none.")
    values: list[str] = Field(description="The texts that usually occur; empty if unknown.")
    measure: bool = Field(description="Whether sums and averages of the field make sense.")
    scale: int | None = Field(description="The decimals of a decimal; null for other types.")
    minimum: int | None = Field(description="The smallest number that occurs; null if unknown.")


class RoleShown(ResponseModel):
    """A role of an entity, and the field that names the entity in this role."""

    name: str
    field: str


class EntityShown(ResponseModel):
    """An entity by which a rule can group."""

    name: str
    type: str
    roles: list[RoleShown]


class FunctionShown(ResponseModel):
    """A function of conditions."""

    name: str
    parameters: str = Field(description="The parameters as text; those in brackets can be left out.")


class SchemaShown(ResponseModel):
    """The fields, entities, functions, aggregators, operators and members that rules may use. `limits` has inclusive
    bounds by name."""

    fields: list[FieldShown]
    entities: list[EntityShown]
    functions: list[FunctionShown]
    aggregators: list[str]
    operators: list[str]
    actions: list[str]
    states: list[str]
    members: list[str]
    limits: dict[str, int | str]


class BindingRequest(Request):
    """The new role of a user."""

    role: Role


class ProgramTokenRequest(Request):
    """A new token for the program `name`."""

    name: Annotated[str, Field(pattern=NAME_FORM)]
    role: Role
    expires_in_days: Annotated[int, Field(ge=1, le=MOST_DAYS)]


class NewProgramToken(ResponseModel):
    """A new token with its secret, which nothing shows again."""

    token: ProgramToken
    secret: str


class Drift(ResponseModel):
    """Whether the store has read the whole rule log and has the same rules, lists and maps."""

    in_step: bool
    settled: bool = Field(description="False while a change of all rules is pending. Then nothing is compared.")
    log_end: int
    store_position: int
    differences: list[DriftDifference]
    list_differences: list[ListDifference]
    map_differences: list[MapDifference]
    outbox_pending: int
    oldest_pending_ms: int | None = Field(description="The age of the oldest waiting change, in ms.")
    behind: int = Field(description="The records of other writers in the rule log that the store has not read.")
    behind_since: EpochMs | None = Field(description="The append time of the first of them.")


Bindings: TypeAlias = Items[Binding]
ProgramTokens: TypeAlias = Items[ProgramToken]
Audits: TypeAlias = Paged[AuditRow, str]
