"""The roles of users: rows of the table override the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.domain.errors import Invalid, NotFound, RequestRefused
from fraud_control.domain.read_models import Binding
from fraud_control.domain.roles import Actor, Permission, Role, is_reserved, require
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.models import BindingRow
from fraud_rules.errors import Reason
from fraud_rules.runtime.safe_text import is_unprintable

_USER: Final = re.compile(r"[^\x00-\x1f\x7f\x80-\x9f\u2028\u2029]{1,256}")
_MAX_BINDINGS: Final = 10_000


def check_name(user: str) -> None:
    """Raise Invalid for a name that could span several lines, or that the database cannot store."""
    if not _USER.fullmatch(user) or is_unprintable(user):
        raise Invalid([Reason("user", "must be a name of 1 to 256 characters on one line")])


def check_user(user: str) -> None:
    """Raise Invalid for a name that no user can have, because it is reserved or not a name at all."""
    check_name(user)
    if is_reserved(user):
        raise Invalid([Reason("user", "must not begin with log: or system:, which mark authors that are no users")])


def role_of(session: Session, settings: ControlPlaneSettings, user: str) -> Role | None:
    """Read a user's role; None for a user without a role, or with a reserved name."""
    if is_reserved(user):
        return None
    row = session.get(BindingRow, user) if _USER.fullmatch(user) and not is_unprintable(user) else None
    if row is None:
        return settings.bindings.get(user)
    return None if row.role is None else Role(row.role)


def bindings(session: Session, settings: ControlPlaneSettings) -> tuple[Binding, ...]:
    """List all users with their roles, by user."""
    given = {user: Binding(user=user, role=role, by=None, at_ms=None) for user, role in settings.bindings.items()}
    for row in session.scalars(select(BindingRow)):
        given.pop(row.user, None)
        if row.role is not None:
            given[row.user] = Binding.model_validate(row)
    return tuple(given[user] for user in sorted(given))


def bind(work: UnitOfWork, who: Actor, user: str, role: Role) -> Binding:
    """Give a user a role. Raises RequestRefused, Invalid."""
    require(who, Permission.BIND)
    check_user(user)
    before = _roles(work)
    if user not in before and len(before) >= _MAX_BINDINGS:
        raise RequestRefused(f"there are already {len(before)} role bindings, the most allowed")
    _check_admin_left(before | {user: role})
    _write(work, who, user, role, before.get(user))
    return Binding(user=user, role=role, by=who.user, at_ms=work.now_ms)


def unbind(work: UnitOfWork, who: Actor, user: str) -> None:
    """Remove a user's role. Raises NotFound, RequestRefused."""
    require(who, Permission.BIND)
    before = _roles(work)
    if user not in before:
        raise NotFound("this user has no role")
    _check_admin_left({name: role for name, role in before.items() if name != user})
    _write(work, who, user, None, before[user])


def _roles(work: UnitOfWork) -> dict[str, Role]:
    return {each.user: each.role for each in bindings(work.session, work.settings)}


def _check_admin_left(roles: Mapping[str, Role]) -> None:
    if Role.ADMIN not in roles.values():
        raise RequestRefused("the last admin must keep the role: make another user admin first")


def _write(work: UnitOfWork, who: Actor, user: str, role: Role | None, before: Role | None) -> None:
    row = work.session.get(BindingRow, user)
    if row is None:
        row = BindingRow(user=user)
        work.session.add(row)
    row.role, row.by, row.at_ms = role and role.value, who.user, work.now_ms
    action = "role.bind" if role is not None else "role.unbind"
    record = AuditRecord(
        who.user, action, f"user {user}", before and {"role": before.value}, role and {"role": role.value}
    )
    work.append_audit(record)
