"""Who may do what: four roles, each of which includes those before it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from fraud_ops.control_plane.errors import Refused

__all__ = ["LEAST_ROLE", "Actor", "Permission", "Role", "granted", "require"]


class Role(StrEnum):
    """What somebody is at the control plane, whatever they are to Airflow. Compared by `rank`."""

    VIEWER = "viewer"
    ANALYST = "analyst"
    APPROVER = "approver"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """Higher includes lower."""
        return tuple(Role).index(self)

    def includes(self, other: Role) -> bool:
        """Whether this role may do all that the other may."""
        return self.rank >= other.rank


class Permission(StrEnum):
    """What a role can allow. Which of them a change of a rule needs depends on its state: see `lifecycle`."""

    READ = "read"
    DRAFT = "draft"  # create and edit drafts and shadow rules
    SHADOW = "shadow"
    REQUEST = "request"  # ask for what needs an approver
    IMPORT = "import"
    MARK = "mark"
    SNOOZE = "snooze"
    WHAT_IF = "whatIf"
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


LEAST_ROLE: Final[Mapping[Permission, Role]] = MappingProxyType(
    {
        Permission.READ: Role.VIEWER,
        Permission.DRAFT: Role.ANALYST,
        Permission.SHADOW: Role.ANALYST,
        Permission.REQUEST: Role.ANALYST,
        Permission.IMPORT: Role.ANALYST,
        Permission.MARK: Role.ANALYST,
        Permission.SNOOZE: Role.ANALYST,
        Permission.WHAT_IF: Role.ANALYST,
        Permission.STEER_DEMO: Role.ANALYST,
        Permission.ACTIVATE: Role.APPROVER,
        Permission.PAUSE: Role.APPROVER,
        Permission.EDIT_LIVE: Role.APPROVER,
        Permission.DELETE: Role.APPROVER,
        Permission.DECIDE: Role.APPROVER,
        Permission.READ_AUDIT: Role.APPROVER,
        Permission.CONTROL: Role.ADMIN,
        Permission.BIND: Role.ADMIN,
        Permission.IMPORT_DELETE: Role.ADMIN,
    }
)
"""The least role for each."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks, as Airflow's login says, and the role bound to them here."""

    user: str
    role: Role


def granted(role: Role | None) -> tuple[Permission, ...]:
    """All that a role allows; nothing for somebody without one."""
    return () if role is None else tuple(each for each, least in LEAST_ROLE.items() if role.includes(least))


def require(who: Actor, permission: Permission) -> None:
    """Raise Refused (forbidden) where the role does not allow it."""
    least = LEAST_ROLE[permission]
    if not who.role.includes(least):
        raise Refused(f"this needs the role {least}, and yours is {who.role}", forbidden=True)
