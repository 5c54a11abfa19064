"""A cache of the users' roles, because each request needs one."""

from __future__ import annotations

from fraud_control.domain.roles import Role
from fraud_control.service.bindings import role_of
from fraud_control.service.store_access import StoreAccess
from fraud_control.ttl_cache import CachedByKey

_KEPT_S = 1.0
_MOST_KEPT = 10_000


class RoleCache:
    """Caches roles by user for a second, because another process may change a role."""

    def __init__(self, store: StoreAccess) -> None:
        def read(user: str) -> Role | None:
            with store.reading() as work:
                return role_of(work.session, work.settings, user)

        self._roles: CachedByKey[str, Role | None] = CachedByKey(read, _KEPT_S, _MOST_KEPT)

    def role_of(self, user: str) -> Role | None:
        """The user's role; None for a user without a role."""
        return self._roles.get(user)

    def cached(self, user: str) -> Role | None:
        """The user's role, without reading the store. Raises KeyError."""
        return self._roles.cached(user)

    def forget(self) -> None:
        """Clear the cache after this process changed a role."""
        self._roles.forget()
