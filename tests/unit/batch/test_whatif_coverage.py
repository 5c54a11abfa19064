"""The rates of a what-if divide by the time with data, not by the days of the question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table
from fraud_rules.batch.whatif.coverage import coverage_of
from fraud_rules.batch.whatif.result import coverage_text, suggestion_text, whatif_page
from fraud_rules.batch.whatif.run import WhatIfQuery, what_if
from fraud_rules.cli.whatif import print_result
from fraud_rules.model.day import Day, days_between
from tests.support.conformance import load_schema
from tests.support.nightly.archived import Site
from tests.support.rules import sum_rule

DAY = Day.parse("2026-11-18")
HOUR_MS = 3_600_000
RULE: dict[str, Any] = sum_rule(7, limit=20, windowMinutes=10)


def file(table: Table, day: Day, first_h: float, last_h: float) -> FileEntry:
    first_ms, last_ms = (day.start_ms + int(hour * HOUR_MS) for hour in (first_h, last_h))
    return FileEntry(table, day.number, f"{table}-{day}-{first_h}", 1, 1, first_ms, last_ms, {})


T, FILES = Table.TRANSACTIONS, Table.IMPORTED
CASES: list[tuple[str, list[FileEntry], tuple[int, float, float]]] = [
    ("every day from the topics", [file(T, DAY.plus(i), 1, 2) for i in range(7)], (0, 0, 7)),
    ("the archive began in the fourth day", [file(T, DAY.plus(i), 9, 20) for i in range(3, 7)], (3, 6, 3.75)),
    ("the last day is archived until noon", [file(T, DAY.plus(i), 1, 9) for i in range(7)], (0, 0, 6.5)),
    ("a part of one imported day", [file(FILES, DAY.plus(2), 6, 12)], (0, 0, 0.25)),
    ("imported days side by side", [file(FILES, DAY.plus(2), 6, 20), file(FILES, DAY.plus(3), 3, 12)], (0, 0, 1.25)),
    ("imported days with a gap", [file(FILES, DAY.plus(2), 6, 12), file(FILES, DAY.plus(5), 6, 18)], (0, 0, 0.75)),
    ("files of both kinds", [file(FILES, DAY.plus(3), 0, 9), file(T, DAY.plus(3), 8, 9)], (3, 8, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "files", "expected"), CASES, ids=[name for name, _, _ in CASES])
def test_the_covered_time_is_that_of_the_archive(
    name: str, files: list[FileEntry], expected: tuple[int, float, float]
) -> None:
    began_day, began_h, covered_days = expected
    until_ms = DAY.plus(6).start_ms + 12 * HOUR_MS if "noon" in name else DAY.plus(7).start_ms
    began_ms = DAY.plus(began_day).start_ms + int(began_h * HOUR_MS)
    manifest = Manifest(files=tuple(files), began_ms=began_ms, complete_until_ms=until_ms)
    found = coverage_of(manifest, list(days_between(DAY, DAY.plus(6))))
    assert (found.days, found.days_with_data) == (7, len({each.day for each in files}))
    assert found.covered_ms == covered_days * 24 * HOUR_MS
    assert found.thin is (covered_days < 3.5)


def test_a_single_payment_counts_for_an_hour() -> None:
    manifest = Manifest(files=(file(FILES, DAY, 6, 6),))
    found = coverage_of(manifest, [DAY])
    assert (found.covered_ms, found.per_day(1), found.total(24)) == (0, 24, 1)


def test_alerts_per_day_and_suggested_limits_count_days_with_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """18 alerts on two of seven days are 9 a day. At most 5 a day are 10 alerts, not 35."""
    steps: list[dict[str, Any]] = [{"at": DAY.start_ms, "rule": RULE}]
    for number in range(18):
        at_ms = DAY.plus(5 + number // 9).start_ms + (number % 9) * HOUR_MS
        tx = {"transactionId": number, "eventTime": at_ms, "payeeId": number, "paymentAmount": 30 + number}
        steps.append({"at": at_ms, "tx": tx})
    site = Site.make(tmp_path / "archive", {"steps": steps, "keyGroups": 1}, load_schema("nullable"))
    site.archive(until_ms=DAY.plus(7).start_ms)
    rule = tmp_path / "draft.json"
    rule.write_text(json.dumps(RULE))
    asked = WhatIfQuery(str(rule), DAY, DAY.plus(6), processes=1, windows=False, alerts_per_day=5)
    result = what_if(asked, site.store, site.schema, site.settings)
    assert (result.fires, result.alerts_per_day) == (18, 9)
    assert (result.coverage.days_with_data, result.coverage.thin) == (2, True)
    (suggested,) = result.suggestions
    assert (suggested.fires, suggested.alerts_per_day) == (10, 5)
    assert ", 5.0 alerts a day" in suggestion_text(suggested, result)
    warning = "2 of 7 days have data, 48.0 h in total; rates are per day with data. The rates are rough"
    assert coverage_text(result).startswith(warning) and warning in whatif_page(result).decode()
    print_result(result)
    assert warning in capsys.readouterr().out
    whole = WhatIfQuery(str(rule), DAY.plus(5), DAY.plus(6), processes=1, windows=False)
    assert coverage_text(what_if(whole, site.store, site.schema, site.settings)) == "", "all days have data"
