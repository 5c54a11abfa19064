"""A cache of the users' roles, because each request needs one."""

from __future__ import annotations

import time

from fraud_ops.control_plane.domain.roles import Role
from fraud_ops.control_plane.service.service import ControlDesk

__all__ = ["RoleBook"]

_KEPT_S = 1.0
_MOST_KEPT = 10_000


class RoleBook:
    """Caches roles by user for a second, because another process may change a role."""

    def __init__(self, desk: ControlDesk) -> None:
        self._desk = desk
        self._kept: dict[str, tuple[float, Role | None]] = {}

    def role_of(self, user: str) -> Role | None:
        """The user's role; None for a user without a role."""
        now_s = time.monotonic()
        until_s, role = self._kept.get(user, (0.0, None))
        if until_s <= now_s:
            role = self._desk.role_of(user)
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[user] = (now_s + _KEPT_S, role)
        return role

    def forget(self) -> None:
        """Clear the cache after this process changed a role."""
        self._kept.clear()
