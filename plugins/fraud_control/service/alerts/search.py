"""Searches the alert index. Filters and orders have indexes of the database; a page of any other filter is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, exists, func, not_, or_, select, tuple_
from sqlalchemy.orm import Session, undefer

from fraud_control.domain.alert_search import PREFIX_CHARS, AlertSearch, AlertSort, ReviewVerdict
from fraud_control.domain.canonical import canonical
from fraud_control.domain.errors import Invalid
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.place import FeedSource, Position
from fraud_control.service.alerts.index import IndexedAlert, indexed_alert, severity_rank
from fraud_control.service.ids import beyond_prefix
from fraud_control.store.alert_models import AlertRow, AlertValueRow, MarkRow
from fraud_rules.errors import Reason

_PLACE: Final = (AlertRow.append_ms, AlertRow.source, AlertRow.offset)
_ORDERS: Final[dict[AlertSort, tuple[Any, ...]]] = {
    AlertSort.NEWEST: _PLACE,
    AlertSort.OLDEST: _PLACE,
    AlertSort.AMOUNT: (AlertRow.amount, *_PLACE),
    AlertSort.SEVERITY: (AlertRow.severity_rank, *_PLACE),
}
_FREQUENT: Final = 20_000
"""The number of rows from which a text, an entity or a verdict counts as frequent."""
_EXAMINED: Final = 50_000
"""The alerts that one page may examine for a frequent text, entity or verdict: about half a second of CPU time."""
_EXAMINED_ROWS: Final = 200_000
"""The same for a filter of rows that no index has: for shadow alerts, and for corrected ones."""


def alert_page(
    session: Session, search: AlertSearch, snoozing: Snoozing, after: Position | None, limit: int
) -> tuple[Sequence[IndexedAlert], Position | None]:
    """List at most `limit` alerts after the alert at a position, and the position after which the list continues. A
    page that lacks alerts and has such a position ends at a bound: the search examined that many alerts for it.

    Raises Invalid if the index has no alert at the position.
    """
    columns = _ORDERS[search.sort]
    conditions = [*_range_conditions(search), *_kind_conditions(search)]
    ascending = search.sort is AlertSort.OLDEST
    if after is not None:
        there = _sort_values(session, columns, after)
        conditions.append(tuple_(*columns) > there if ascending else tuple_(*columns) < there)
    order = columns if ascending else tuple(each.desc() for each in columns)
    chosen = list(_choices(session, search))
    last = None
    most = _most_examined(search, chosen)
    if most is not None:
        last = _last_examined(session, _ids(search).where(*conditions).order_by(*order), columns, most)
        if last is not None:
            there = tuple_(*last[: len(columns)])
            conditions.append(tuple_(*columns) <= there if ascending else tuple_(*columns) >= there)
    conditions += [*_row_conditions(search, snoozing), *(each.condition for each in chosen)]
    # The ids first: a database that sorts all found alerts then sorts no JSON.
    first = _ids(search).where(*conditions).order_by(*order).limit(limit + 1)
    rows = session.scalars(
        select(AlertRow).where(AlertRow.alert_id.in_(first)).order_by(*order).options(undefer(AlertRow.json))
    ).all()
    shown = [indexed_alert(row) for row in rows[:limit]]
    if len(rows) > limit:
        return shown, shown[-1].alert.position
    return shown, None if last is None else _position(last[len(columns) :])


def _most_examined(search: AlertSearch, chosen: Sequence[_Choice]) -> int | None:
    """The number of alerts that a page may examine; None for a search that finds its alerts in an index."""
    if any(each.is_checked for each in chosen):
        return _EXAMINED
    return _EXAMINED_ROWS if not chosen and (search.shadow or search.corrections) else None


def _last_examined(session: Session, ids: Select[str], columns: tuple[Any, ...], most: int) -> Sequence[Any] | None:
    """The sort values and the place of the last alert that a page may examine; None if the page may examine all."""
    return session.execute(ids.with_only_columns(*columns, *_PLACE).offset(most - 1).limit(1)).first()


def _position(place: Sequence[Any]) -> Position:
    append_ms, source, offset = place
    return int(append_ms), FeedSource(source), int(offset)


def _ids(search: AlertSearch) -> Select[str]:
    """Select ids. SQLite has no statistics, so it prefers an index of a filter to that of the order, and sorts all
    alerts that it finds there: for a frequent severity nearly all of the index.
    """
    ids = select(AlertRow.alert_id)
    if search.sort is not AlertSort.AMOUNT or search.is_selective:
        return ids
    return ids.with_hint(AlertRow, "INDEXED BY ix_alerts_amount", "sqlite")


def _sort_values(session: Session, columns: tuple[Any, ...], position: Position) -> Any:
    found = session.execute(select(*columns).where(tuple_(*_PLACE) == tuple_(*position))).first()
    if found is None:
        raise Invalid([Reason("before", "names an alert that has left the index: load the list again")])
    return tuple_(*found)


def search_conditions(session: Session, search: AlertSearch, snoozing: Snoozing) -> list[ColumnElement[bool]]:
    """The conditions for the alerts of a search."""
    conditions = [*_range_conditions(search), *_kind_conditions(search), *_row_conditions(search, snoozing)]
    return [*conditions, *(each.condition for each in _choices(session, search))]


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
    """The conditions that have an index."""
    if search.rule_id is not None:
        yield AlertRow.rule_id == search.rule_id
    if search.severities:
        yield AlertRow.severity_rank.in_({severity_rank(each.value) for each in search.severities})
    if search.alert_id is not None:
        yield AlertRow.alert_id == search.alert_id
    if search.case_id is not None:
        yield AlertRow.case_id == search.case_id


def _row_conditions(search: AlertSearch, snoozing: Snoozing) -> Iterator[ColumnElement[bool]]:
    """The conditions for an alert's own row that no index has. A page counts the alerts that it examines for them."""
    if search.shadow is not None:
        yield AlertRow.shadow == search.shadow
    if search.corrections is not None:
        yield AlertRow.correction.is_not(None) if search.corrections else AlertRow.correction.is_(None)
    if not search.snoozed:
        yield from _not_snoozed(snoozing)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A condition for rows of another table. `is_checked`: it is checked for each alert in the order of the list, until
    a page is full, because the alerts that fit would be most of the index.
    """

    condition: ColumnElement[bool]
    is_checked: bool


def _choices(session: Session, search: AlertSearch) -> Iterator[_Choice]:
    if search.text:
        yield _choice(session, AlertValueRow.alert_id, list(_text_conditions(search)))
    if search.entity is not None:
        field, value = search.entity
        named = [AlertValueRow.field == field, AlertValueRow.value == value.lower()]
        yield _choice(session, AlertValueRow.alert_id, [*named, AlertValueRow.in_key.is_(True)])
    if search.verdict is ReviewVerdict.UNREVIEWED:
        yield _Choice(not_(exists().where(MarkRow.alert_id == AlertRow.alert_id)), is_checked=True)
    elif search.verdict is not None:
        yield _choice(session, MarkRow.alert_id, [MarkRow.verdict == search.verdict.value])


def _choice(session: Session, alert_id: Any, conditions: Sequence[ColumnElement[bool]]) -> _Choice:
    """The alerts of a rare text are few ids. For a frequent one, such a set would be most of the index."""
    rows = select(alert_id).where(*conditions)
    some = session.scalar(select(func.count()).select_from(rows.limit(_FREQUENT).subquery())) or 0
    if some < _FREQUENT:
        return _Choice(AlertRow.alert_id.in_(rows), is_checked=False)
    return _Choice(exists().where(alert_id == AlertRow.alert_id, *conditions), is_checked=True)


def _text_conditions(search: AlertSearch) -> Iterator[ColumnElement[bool]]:
    text = search.text.lower()
    if search.since_ms is not None:
        yield AlertValueRow.append_ms >= search.since_ms
    if len(text) < PREFIX_CHARS:
        yield AlertValueRow.value == text
    else:
        yield AlertValueRow.value >= text
        yield AlertValueRow.value < beyond_prefix(text)


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
