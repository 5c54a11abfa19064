"""Tokens for programs: a person creates, lists and revokes them, and a program logs in with one."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final

from sqlalchemy import ColumnElement, delete, func, select, true
from sqlalchemy.orm import Session

from fraud_control.domain.errors import NotFound, RefusalCause, RequestRefused
from fraud_control.domain.program_token import ProgramToken
from fraud_control.domain.roles import LEAST_ROLE, Actor, Permission, Role, lesser, require
from fraud_control.service.audit import AuditRecord
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.token_models import ProgramTokenRow
from fraud_control.ttl_cache import CachedByKey
from fraud_ops.token_secrets import digest_of, is_secret, new_secret
from fraud_rules.model.day import DAY_MS
from fraud_rules.runtime.clock import utc_text

CACHED_S: Final = 5.0
"""Other servers accept a revoked token for at most this time, in s."""
MOST_OF_OWNER: Final = 20

_MOST: Final = 1_000
_MOST_CACHED: Final = 10_000
_SHOWN_DAYS: Final = 30
_ID_BYTES: Final = 6
_CREATE_ANOTHER: Final = "its owner creates another with `fraud tokens create`"


class TokenInvalid(Exception):
    """The token is no login. The text says why, and what to do."""


def tokens(session: Session, who: Actor) -> tuple[ProgramToken, ...]:
    """List the user's tokens, or all tokens for an admin, by owner and name. Expired tokens stay for 30 days."""
    rows = select(ProgramTokenRow).where(_of(who)).order_by(ProgramTokenRow.owner, ProgramTokenRow.name)
    return tuple(map(ProgramToken.model_validate, session.scalars(rows)))


def create(work: UnitOfWork, who: Actor, name: str, role: Role, days: int) -> tuple[ProgramToken, str]:
    """Create a token that is valid for some days. Returns it with its secret, which the store does not keep. Raises
    RequestRefused.
    """
    _require_person(who)
    if not who.role.includes(role):
        raise RequestRefused(f"a token may have at most your role, {who.role}", forbidden=True)
    work.session.execute(
        delete(ProgramTokenRow).where(ProgramTokenRow.expires_at_ms < work.now_ms - _SHOWN_DAYS * DAY_MS)
    )
    _check_room(work.session, who.user, name)
    secret = new_secret()
    row = ProgramTokenRow(
        id=secrets.token_hex(_ID_BYTES),
        digest=digest_of(secret),
        owner=who.user,
        name=name,
        role=role.value,
        created_at_ms=work.now_ms,
        expires_at_ms=work.now_ms + days * DAY_MS,
    )
    work.session.add(row)
    work.append_audit(AuditRecord(who.user, "token.create", f"token {name}", None, _facts(row)))
    return ProgramToken.model_validate(row), secret


def revoke(work: UnitOfWork, who: Actor, token_id: str) -> None:
    """Revoke a token of the user; an admin may revoke any. Raises NotFound, RequestRefused."""
    _require_person(who)
    row = work.session.scalar(select(ProgramTokenRow).where(ProgramTokenRow.id == token_id, _of(who)))
    if row is None:
        raise NotFound("you have no such token")
    work.session.delete(row)
    work.append_audit(AuditRecord(who.user, "token.revoke", f"token {row.name}", _facts(row)))


class ProgramLogins:
    """Logs programs in. It caches tokens for five seconds, because each request needs one. Threads can share it."""

    def __init__(
        self,
        store: StoreAccess,
        roles: CachedByKey[str, Role | None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        def read(digest: str) -> ProgramToken | None:
            with store.reading() as work:
                row = work.session.scalar(select(ProgramTokenRow).where(ProgramTokenRow.digest == digest))
                return None if row is None else ProgramToken.model_validate(row)

        self._clock_ms = store.clock_ms
        self._roles = roles
        self._tokens: CachedByKey[str, ProgramToken | None] = CachedByKey(read, CACHED_S, _MOST_CACHED, clock_s)

    def actor(self, secret: str) -> Actor:
        """The owner of a token, with the lesser of the two roles. Raises TokenInvalid, Unavailable."""
        return self._actor(secret, self._tokens.get, self._roles.get)

    def cached(self, secret: str) -> Actor:
        """As `actor`, without reading the store. Raises KeyError, TokenInvalid."""
        return self._actor(secret, self._tokens.cached, self._roles.cached)

    def forget(self) -> None:
        """Clear the cache after this process revoked a token."""
        self._tokens.forget()

    def _actor(
        self, secret: str, token_of: Callable[[str], ProgramToken | None], role_of: Callable[[str], Role | None]
    ) -> Actor:
        token = token_of(digest_of(secret)) if is_secret(secret) else None
        if token is None:
            raise TokenInvalid(f"this token is unknown or revoked: {_CREATE_ANOTHER}")
        if token.expires_at_ms <= self._clock_ms():
            raise TokenInvalid(f"the token {token.name} expired at {utc_text(token.expires_at_ms)}: {_CREATE_ANOTHER}")
        role = role_of(token.owner)
        if role is None:
            raise TokenInvalid(f"{token.owner}, the owner of the token {token.name}, has no role: ask an admin for one")
        return Actor(token.owner, lesser(token.role, role), token.name)


def _require_person(who: Actor) -> None:
    require(who, Permission.READ)
    if who.program is not None:
        raise RequestRefused(
            "a token cannot create or revoke tokens: log in as a person", forbidden=True, cause=RefusalCause.PERSON_ONLY
        )


def _of(who: Actor) -> ColumnElement[bool]:
    """The tokens that a user may see and revoke."""
    return true() if who.role.includes(LEAST_ROLE[Permission.BIND]) else ProgramTokenRow.owner == who.user


def _check_room(session: Session, owner: str, name: str) -> None:
    """Raise RequestRefused for a name in use, or too many tokens."""
    names = list(session.scalars(select(ProgramTokenRow.name).where(ProgramTokenRow.owner == owner)))
    if name in names:
        raise RequestRefused(f"you have a token {name}: revoke it first, or choose another name")
    if len(names) >= MOST_OF_OWNER:
        raise RequestRefused(f"you have {MOST_OF_OWNER} tokens, the most allowed: revoke one first")
    if (session.scalar(select(func.count()).select_from(ProgramTokenRow)) or 0) >= _MOST:
        raise RequestRefused(f"there are {_MOST:,} tokens, the most allowed: ask an admin to revoke some")


def _facts(row: ProgramTokenRow) -> dict[str, object]:
    return {"id": row.id, "owner": row.owner, "role": row.role, "expiresAtMs": row.expires_at_ms}
