"""The ids, cursors, prefixes and page sizes of requests, as the database takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from fraud_control.domain.errors import Invalid
from fraud_rules.errors import Reason
from fraud_rules.runtime.safe_text import is_unprintable

MAX_ID: Final = 2**63 - 1

T = TypeVar("T")

_AT_ONCE: Final = 500
_MAX_QUERY_CHARS: Final = 200


def check_page(limit: int, maximum: int, query: str = "") -> None:
    """Check the size of a page and the text of a search. Raises Invalid."""
    if not 1 <= limit <= maximum:
        raise Invalid([Reason("limit", f"must be from 1 to {maximum}")])
    if len(query) > _MAX_QUERY_CHARS or is_unprintable(query):
        raise Invalid([Reason("q", f"must be text of at most {_MAX_QUERY_CHARS} characters")])


def parse_cursor(cursor: str) -> int:
    """Parse the cursor of a list. Raises Invalid."""
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
        raise Invalid([Reason("cursor", "is not a cursor of this list")])
    return storable_id(int(cursor))


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split values, because a database limits the parameters of a statement."""
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def beyond_prefix(text: str) -> str:
    """A text after all texts that begin with this one: the end of a range, for which a database uses an index."""
    return text + "\U0010ffff"


def storable_id(number: int) -> int:
    """The number if the database can hold it; otherwise -1, which no object has as its id."""
    return number if 0 <= number <= MAX_ID else -1
