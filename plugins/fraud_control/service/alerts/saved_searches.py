"""Searches of the alert index, and the searches that users save."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.orm import undefer

from fraud_control.domain.alert_search import AlertSearch, SavedSearch
from fraud_control.domain.errors import Invalid, LimitReached, NotFound
from fraud_control.domain.roles import Actor, Permission, require
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.events import FeedAlert
from fraud_control.feed.place import Position
from fraud_control.service.alerts.index import IndexedAlert, indexed_alert
from fraud_control.service.alerts.search import alert_page
from fraud_control.service.store_access import StoreAccess
from fraud_control.store.alert_models import SEARCH_NAME_CHARS, AlertRow, SavedSearchRow
from fraud_rules.errors import Reason
from fraud_rules.runtime.safe_text import is_unprintable

_QUERY_CHARS: Final = 2_000


class AlertSearches:
    """Several threads may use it."""

    def __init__(self, store: StoreAccess) -> None:
        self._store = store

    def page(
        self, search: AlertSearch, snoozing: Snoozing, after: Position | None, limit: int
    ) -> tuple[Sequence[IndexedAlert], Position | None]:
        """List the alerts of a search after a position, and the position after which the list continues.

        Raises Invalid if the index has no alert at the position.
        """
        with self._store.database.reading() as session:
            return alert_page(session, search, snoozing, after, limit)

    def alert(self, alert_id: str) -> FeedAlert | None:
        """Read an alert of the index."""
        with self._store.database.reading() as session:
            row = session.get(AlertRow, alert_id, options=[undefer(AlertRow.json)])
            return None if row is None else indexed_alert(row).alert

    def saved(self, user: str) -> tuple[SavedSearch, ...]:
        """List the searches that a user saved, by name."""
        with self._store.database.reading() as session:
            rows = session.scalars(
                select(SavedSearchRow).where(SavedSearchRow.user == user).order_by(SavedSearchRow.name)
            )
            return tuple(map(SavedSearch.model_validate, rows))

    def save(self, actor: Actor, name: str, query: str) -> SavedSearch:
        """Save a search of the user, or replace the one of this name. Raises Invalid, LimitReached, RequestRefused."""
        require(actor, Permission.READ)
        _check_text("name", name, SEARCH_NAME_CHARS)
        _check_text("query", query, _QUERY_CHARS)
        with self._store.change(actor) as work:
            row = work.session.get(SavedSearchRow, (actor.user, name))
            if row is None:
                counted = select(func.count()).where(SavedSearchRow.user == actor.user)
                most = self._store.settings.bounds.saved_searches
                if (work.session.scalar(counted) or 0) >= most:
                    raise LimitReached(f"you have {most} saved searches: remove one first")
                row = SavedSearchRow(user=actor.user, name=name)
                work.session.add(row)
            row.query, row.at_ms = query, work.now_ms
            work.session.flush()
            return SavedSearch.model_validate(row)

    def remove(self, actor: Actor, name: str) -> None:
        """Remove a saved search of the user. Raises NotFound, RequestRefused."""
        require(actor, Permission.READ)
        with self._store.change(actor) as work:
            row = work.session.get(SavedSearchRow, (actor.user, name))
            if row is None:
                raise NotFound(f"you have no saved search {name!a}")
            work.session.delete(row)


def _check_text(member: str, text: str, most: int) -> None:
    if not text.strip() or len(text) > most or is_unprintable(text) or "\n" in text:
        raise Invalid([Reason(member, f"must be one line of 1 to {most} characters")])
