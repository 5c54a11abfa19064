"""Searches the alert index. Every filter and every sort order has an index of the database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, exists, func, not_, or_, select, tuple_
from sqlalchemy.orm import Session, undefer

from fraud_ops.control_plane.domain.alert_search import PREFIX_CHARS, AlertSearch, AlertSort, ReviewVerdict
from fraud_ops.control_plane.domain.canonical import canonical
from fraud_ops.control_plane.domain.errors import Invalid
from fraud_ops.control_plane.domain.snoozing import Snoozing
from fraud_ops.control_plane.feed.place import Position
from fraud_ops.control_plane.service.alerts.index import IndexedAlert, indexed_alert, severity_rank
from fraud_ops.control_plane.store.alert_models import AlertRow, AlertValueRow
from fraud_ops.control_plane.store.models import MarkRow
from fraud_rules.errors import Reason

__all__ = ["alert_page", "count_alerts", "search_conditions"]

_PLACE: Final = (AlertRow.append_ms, AlertRow.source, AlertRow.offset)
_ORDERS: Final[dict[AlertSort, tuple[Any, ...]]] = {
    AlertSort.NEWEST: _PLACE,
    AlertSort.OLDEST: _PLACE,
    AlertSort.AMOUNT: (AlertRow.amount, *_PLACE),
    AlertSort.SEVERITY: (AlertRow.severity_rank, *_PLACE),
}
_LAST: Final = "\U0010ffff"
_FREQUENT: Final = 20_000
"""The number of values from which a text counts as frequent."""


def alert_page(
    session: Session, search: AlertSearch, snoozing: Snoozing, after: Position | None, limit: int
) -> tuple[Sequence[IndexedAlert], Position | None]:
    """List at most `limit` alerts after the alert at a position, and the position after which the list continues.

    Raises Invalid if the index has no alert at the position.
    """
    columns = _ORDERS[search.sort]
    wanted = search_conditions(session, search, snoozing)
    ascending = search.sort is AlertSort.OLDEST
    if after is not None:
        there = _sort_values(session, columns, after)
        wanted.append(tuple_(*columns) > there if ascending else tuple_(*columns) < there)
    order = columns if ascending else tuple(each.desc() for each in columns)
    # The ids first: a database that sorts all found alerts then sorts no JSON.
    first = _ids(search).where(*wanted).order_by(*order).limit(limit + 1)
    rows = session.scalars(
        select(AlertRow).where(AlertRow.alert_id.in_(first)).order_by(*order).options(undefer(AlertRow.json))
    ).all()
    shown = [indexed_alert(row) for row in rows[:limit]]
    return shown, shown[-1].alert.position if len(rows) > limit else None


def _ids(search: AlertSearch) -> Select[str]:
    """Select ids. SQLite has no statistics, so it prefers an index of a filter to that of the order, and sorts all
    alerts that it finds there: for a frequent severity nearly all of the index.
    """
    ids = select(AlertRow.alert_id)
    if search.sort is not AlertSort.AMOUNT or search.is_selective:
        return ids
    return ids.with_hint(AlertRow, "INDEXED BY ix_alerts_amount", "sqlite")


def count_alerts(session: Session, search: AlertSearch, snoozing: Snoozing, most: int) -> int:
    """Count the alerts of a search, up to `most`."""
    found = select(AlertRow.alert_id).where(*search_conditions(session, search, snoozing)).limit(most).subquery()
    return session.scalar(select(func.count()).select_from(found)) or 0


def _sort_values(session: Session, columns: tuple[Any, ...], position: Position) -> Any:
    found = session.execute(select(*columns).where(tuple_(*_PLACE) == tuple_(*position))).first()
    if found is None:
        raise Invalid([Reason("before", "names an alert that has left the index: load the list again")])
    return tuple_(*found)


def search_conditions(session: Session, search: AlertSearch, snoozing: Snoozing) -> list[ColumnElement[bool]]:
    """The conditions for the alerts of a search."""
    wanted = [*_range_conditions(search), *_kind_conditions(search)]
    if search.text:
        wanted.append(_has_text(session, search))
    if search.entity is not None:
        wanted.append(AlertRow.alert_id.in_(_of_entity(search.entity)))
    if search.verdict is not None:
        wanted.append(_reviewed_as(search.verdict))
    return wanted if search.snoozed else wanted + _not_snoozed(snoozing)


def _range_conditions(search: AlertSearch) -> Iterator[ColumnElement[bool]]:
    if search.since_ms is not None:
        yield AlertRow.append_ms >= search.since_ms
    if search.until_ms is not None:
        yield AlertRow.append_ms < search.until_ms
    if search.min_amount is not None:
        yield AlertRow.amount >= search.min_amount
    if search.max_amount is not None:
        yield AlertRow.amount <= search.max_amount
    if search.sort is AlertSort.AMOUNT:
        yield AlertRow.amount.is_not(None)


def _kind_conditions(search: AlertSearch) -> Iterator[ColumnElement[bool]]:
    if search.rule_id is not None:
        yield AlertRow.rule_id == search.rule_id
    if search.severities:
        yield AlertRow.severity_rank.in_({severity_rank(each.value) for each in search.severities})
    if search.alert_id is not None:
        yield AlertRow.alert_id == search.alert_id
    if search.case_id is not None:
        yield AlertRow.case_id == search.case_id
    if search.shadow is not None:
        yield AlertRow.shadow == search.shadow
    if search.corrections is not None:
        yield AlertRow.correction.is_not(None) if search.corrections else AlertRow.correction.is_(None)


def _has_text(session: Session, search: AlertSearch) -> ColumnElement[bool]:
    """The condition for the text. The alerts of a rare text are few ids. For a frequent text, such a set would be most
    of the index, so each alert is checked in the order of the list, until a page is full.
    """
    wanted = list(_text_conditions(search))
    rows = select(AlertValueRow.alert_id).where(*wanted)
    some = session.scalar(select(func.count()).select_from(rows.limit(_FREQUENT).subquery())) or 0
    if some < _FREQUENT:
        return AlertRow.alert_id.in_(rows)
    return exists().where(AlertValueRow.alert_id == AlertRow.alert_id, *wanted)


def _text_conditions(search: AlertSearch) -> Iterator[ColumnElement[bool]]:
    text = search.text.lower()
    if search.since_ms is not None:
        yield AlertValueRow.append_ms >= search.since_ms
    if len(text) < PREFIX_CHARS:
        yield AlertValueRow.value == text
    else:
        yield AlertValueRow.value >= text
        yield AlertValueRow.value < text + _LAST


def _of_entity(entity: tuple[str, str]) -> Any:
    field, value = entity
    return select(AlertValueRow.alert_id).where(
        AlertValueRow.field == field, AlertValueRow.value == value.lower(), AlertValueRow.in_key
    )


def _reviewed_as(verdict: ReviewVerdict) -> ColumnElement[bool]:
    if verdict is ReviewVerdict.UNREVIEWED:
        return not_(exists().where(MarkRow.alert_id == AlertRow.alert_id))
    return AlertRow.alert_id.in_(select(MarkRow.alert_id).where(MarkRow.verdict == verdict.value))


def _not_snoozed(snoozing: Snoozing) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    whole = [rule_id for rule_id, keys in snoozing.by_rule.items() if None in keys]
    if whole:
        conditions.append(AlertRow.rule_id.not_in(whole))
    by_key = [
        and_(AlertRow.rule_id == rule_id, AlertRow.key.in_([canonical(dict(key)).decode() for key in keys if key]))
        for rule_id, keys in snoozing.by_rule.items()
        if None not in keys
    ]
    if by_key:
        conditions.append(not_(or_(*by_key)))
    return conditions
