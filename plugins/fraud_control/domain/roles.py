"""Roles and permissions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from fraud_control.domain.errors import RequestRefused

_LOG: Final = "log:"
_SYSTEM: Final = "system:"


class Role(StrEnum):
    """A user's role at the control plane, independent of the role in Airflow.

    Each role includes the roles before it, except that an analyst is no auditor.
    """

    VIEWER = "viewer"
    AUDITOR = "auditor"
    ANALYST = "analyst"
    APPROVER = "approver"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether this role has all permissions of the other."""
        return other in self.included

    @property
    def included(self) -> tuple[Role, ...]:
        """The role and the lower roles that it includes, the lowest first."""
        order = tuple(Role)
        lower = order[: order.index(self) + 1]
        return tuple(each for each in lower if not (self is Role.ANALYST and each is Role.AUDITOR))


class Permission(StrEnum):
    """A permission that a role grants. The permission for a change of a rule depends on its state: see `lifecycle`."""

    READ = "read"
    READ_IDS = "readIds"  # see the whole values of masked fields
    DRAFT = "draft"  # create and edit drafts and shadow rules
    SHADOW = "shadow"
    REQUEST = "request"  # request a change that an approver must grant
    IMPORT = "import"
    MARK = "mark"
    WORK_CASES = "workCases"
    SNOOZE = "snooze"
    WHAT_IF = "whatIf"
    SUBSCRIBE = "subscribe"  # to notifications; test receivers and repeat deliveries
    STEER_DEMO = "steerDemo"
    ACTIVATE = "activate"
    PAUSE = "pause"
    EDIT_LIVE = "editLive"
    DELETE = "delete"
    DECIDE = "decide"
    READ_AUDIT = "readAudit"
    CONTROL = "control"
    BIND = "bind"
    IMPORT_DELETE = "importDelete"
    ERASE = "erase"  # the data of a person, and data beyond its retention


LEAST_ROLE: Final[Mapping[Permission, Role]] = MappingProxyType(
    {
        Permission.READ: Role.VIEWER,
        Permission.READ_IDS: Role.ANALYST,
        Permission.DRAFT: Role.ANALYST,
        Permission.SHADOW: Role.ANALYST,
        Permission.REQUEST: Role.ANALYST,
        Permission.IMPORT: Role.ANALYST,
        Permission.MARK: Role.ANALYST,
        Permission.WORK_CASES: Role.ANALYST,
        Permission.SNOOZE: Role.ANALYST,
        Permission.WHAT_IF: Role.ANALYST,
        Permission.SUBSCRIBE: Role.ANALYST,
        Permission.STEER_DEMO: Role.ANALYST,
        Permission.ACTIVATE: Role.APPROVER,
        Permission.PAUSE: Role.APPROVER,
        Permission.EDIT_LIVE: Role.APPROVER,
        Permission.DELETE: Role.APPROVER,
        Permission.DECIDE: Role.APPROVER,
        Permission.READ_AUDIT: Role.AUDITOR,
        Permission.CONTROL: Role.ADMIN,
        Permission.BIND: Role.ADMIN,
        Permission.IMPORT_DELETE: Role.ADMIN,
        Permission.ERASE: Role.ADMIN,
    }
)
"""The lowest role that grants each permission."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The user of a request, from the login, and the user's role at the control plane. `program` names the program
    that acts for the user with a token; None for the person.
    """

    user: str
    role: Role
    program: str | None = None


def lesser(one: Role, other: Role) -> Role:
    """The highest role that both roles include."""
    return next(each for each in reversed(Role) if one.includes(each) and other.includes(each))


def log_author(source: str) -> str:
    """The author of a record that another program wrote to the rule log. No user with a role has such a name."""
    return f"{_LOG}{source}"


def system_author(part: str) -> str:
    """The author of what a part of the control plane does by itself. No user with a role has such a name."""
    return f"{_SYSTEM}{part}"


def is_reserved(name: str) -> bool:
    """Whether a name stands for a writer of the rule log or a part of the control plane, and so for no user."""
    return name.startswith((_LOG, _SYSTEM))


def granted(role: Role | None) -> tuple[Permission, ...]:
    """List the permissions of a role; a user without a role has none."""
    return () if role is None else tuple(each for each, least in LEAST_ROLE.items() if role.includes(least))


def require(who: Actor, permission: Permission) -> None:
    """Raise RequestRefused (forbidden) if the role lacks the permission."""
    least = LEAST_ROLE[permission]
    if not who.role.includes(least):
        raise RequestRefused(f"this needs the role {least}; your role is {who.role}", forbidden=True)
