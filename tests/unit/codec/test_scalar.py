"""Exact decimals from text, against `Decimal`, and bounded whatever the exponent."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.scalar import parse_decimal, parse_timestamp


@pytest.mark.parametrize(
    ("text", "precision", "scale", "expected"),
    [
        ("6.000", 18, 2, 600),
        ("1e3", 18, 2, 100_000),
        ("6.005", 18, 2, None),
        ("-0", 18, 2, 0),
        ("0.000e5", 18, 2, 0),
        ("0.999", 3, 3, 999),
        ("1", 3, 3, None),
        ("1e17", 18, 0, 10**17),
        ("1e18", 18, 0, None),
        ("120e-1", 2, 0, 12),
        ("0.00000000000000000000012e22", 2, 1, 12),
    ],
)
def test_a_decimal_fits_exactly_or_not_at_all(text: str, precision: int, scale: int, expected: int | None) -> None:
    assert parse_decimal(text, precision, scale) == expected


@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,22})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.integers(1, 18),
    st.data(),
)
def test_it_agrees_with_decimal(text: str, precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    with localcontext(prec=400):
        unscaled = Decimal(text).scaleb(scale)
        fits = unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**precision
    assert parse_decimal(text, precision, scale) == (int(unscaled) if fits else None)


def test_a_huge_exponent_costs_nothing() -> None:
    tracemalloc.start()
    for text in (
        "1e999999999",
        "1e-999999999",
        "9" * 5_000 + "e999999999",
        "1e" + "9" * 5_000,
        "0." + "0" * 5_000 + "1",
    ):
        assert parse_decimal(text, 18, 2) is None
    assert parse_decimal("0e999999999999", 18, 2) == 0
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000, "a number of a billion digits was written out"


OFFSETS = st.integers(-18 * 60, 18 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


FIRST, LAST = datetime(2, 1, 1), datetime(9998, 12, 31)  # noqa: DTZ001 - hypothesis adds the zone


@given(st.datetimes(FIRST, LAST, timezones=OFFSETS))
def test_pythons_iso_8601_times_are_read(moment: datetime) -> None:
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert parse_timestamp(moment.isoformat()) == expected
    assert parse_timestamp(moment.isoformat(" ")) == expected
