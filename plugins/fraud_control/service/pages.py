"""Reads pages of lists that begin with the newest row."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute

from fraud_control.domain.read_models import Page
from fraud_control.service.changes import UnitOfWork
from fraud_control.service.ids import check_page, storable_id

_Row = TypeVar("_Row")


def newest_first(
    work: UnitOfWork, rows: Select[_Row], number: InstrumentedAttribute[int], limit: int, before: int | None
) -> Page[_Row]:
    """Read the rows with the highest numbers, of those below `before`. Raises Invalid for a limit out of bounds."""
    check_page(limit, work.settings.bounds.page)
    if before is not None:
        rows = rows.where(number < storable_id(before))
    found = work.session.scalars(rows.order_by(number.desc()).limit(limit + 1)).all()
    following = str(getattr(found[limit - 1], number.key)) if len(found) > limit else None
    return Page(tuple(found[:limit]), following)
