"""The users of the store. A user belongs to one account of an auth manager, by issuer and id.

The store names users by `user`, in each table. An account gets its user at its first request: the login name, if no
other account has it. So an account that is renamed stays the same user, and an account that reuses the name of an
earlier one is another user, without the roles and rules of the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from fraud_control.store.database import Database
from fraud_control.store.models import USER_CHARS, AccountRow
from fraud_ops.account import Account

_SHOWN_CHARS: Final = 8


def user_of(database: Database, account: Account, clock_ms: Callable[[], int]) -> str:
    """Find the user of an account, or give it one at its first request. The name must be one that the store can keep.
    Raises StoreBusy, Unavailable.
    """
    with database.reading() as session:
        row = session.get(AccountRow, account.key)
        if row is not None and row.name == account.name:
            return row.user
    with database.writing() as session:
        row = session.get(AccountRow, account.key)
        if row is None:
            row = AccountRow(key=account.key, user=_free(session, account), at_ms=clock_ms())
            session.add(row)
        row.name = account.name
        return row.user


def _free(session: Session, account: Account) -> str:
    """The login name, or the name with a part of the account's key if another account has it."""
    longer = f"{account.name[: USER_CHARS - _SHOWN_CHARS - 3]} ({account.key[:_SHOWN_CHARS]})"
    candidates = (account.name, longer, account.key)
    taken = set(session.scalars(select(AccountRow.user).where(AccountRow.user.in_(candidates))))
    return next(each for each in candidates if each not in taken)
