"""The alert index: each filter against a check in plain Python, every order, pages, corrections and age."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest

from fraud_control.domain.alert_search import AlertSearch, AlertSeverity, AlertSort, ReviewVerdict
from fraud_control.domain.errors import Invalid, LimitReached, NotFound
from fraud_control.domain.snoozing import Snoozing
from fraud_control.feed.events import FeedAlert, read_correction
from fraud_control.feed.place import FeedSource
from fraud_control.service.alerts.export import ExportFormat, new_alert_file
from fraud_control.service.alerts.index import AlertIndex, IndexedAlert
from fraud_control.service.alerts.saved_searches import AlertSearches
from tests.support.control_plane.alerts import alert, alert_json
from tests.support.control_plane.fixtures import scene_in
from tests.support.control_plane.scene import ANN, VIC, Scene, rule_input
from tests.support.rules import SCHEMA

SEVERITIES = ["critical", "High", "low", None, "odd"]
COUNT = 60


def filled(scene: Scene, alerts: Sequence[FeedAlert]) -> AlertSearches:
    scene.index(*alerts)
    return scene.service.searches


def sample(number: int) -> FeedAlert:
    """An alert whose members derive from its number."""
    rule = {"ruleId": 1 + number % 4, "severity": SEVERITIES[number % 5], "name": f"Rule {number % 4}"}
    payment = {"transactionId": 10_000 + number, "beneficiaryId": 770 + number % 7}
    if number % 6:
        payment["paymentAmount"] = number * 10 + 0.5  # type: ignore[assignment]
    return alert(
        number,
        1 + number % 4,
        FeedSource.SHADOW if number % 9 == 0 else FeedSource.ALERTS,
        shadow=number % 9 == 0,
        violatedRule={name: value for name, value in rule.items() if value is not None},
        triggeringEvent=payment,
        key={"payeeId": 500 + number % 3},
    )


def sampled(scene: Scene) -> AlertSearches:
    """The searches of a scene with all samples. Each fifth one is marked."""
    found = filled(scene, [sample(number) for number in range(COUNT)])
    for number in range(0, COUNT, 5):
        facts = sample(number).facts
        scene.service.mark(ANN, facts.alert_id, facts.rule_id, 3, "FRAUD" if number % 2 else "NOT_FRAUD")
    return found


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertSearches]:
    """The samples, for the tests that only read them."""
    with scene_in(tmp_path_factory.mktemp("searches")) as scene:
        yield sampled(scene)


def numbers(found: Sequence[IndexedAlert]) -> list[int]:
    return [each.alert.offset for each in found]


def everything(searches: AlertSearches, search: AlertSearch, limit: int = 7) -> list[int]:
    """The numbers of all alerts of a search, page by page."""
    found: list[int] = []
    after = None
    while True:
        page, after = searches.page(search, Snoozing(), after, limit)
        found += numbers(page)
        if after is None:
            return found


def amount(number: int) -> float | None:
    return number * 10 + 0.5 if number % 6 else None


def rank(number: int) -> int:
    return {"critical": 4, "High": 3, "low": 1}.get(SEVERITIES[number % 5] or "", 0)


CASES: list[tuple[AlertSearch, Callable[[int], bool]]] = [
    (AlertSearch(), lambda n: True),
    (AlertSearch(rule_id=2), lambda n: n % 4 == 1),
    (AlertSearch(since_ms=10_000, until_ms=20_000), lambda n: 10 <= n < 20),
    (AlertSearch(severities=frozenset({AlertSeverity.HIGH})), lambda n: rank(n) == 3),
    (AlertSearch(severities=frozenset({AlertSeverity.CRITICAL, AlertSeverity.OTHER})), lambda n: rank(n) in (0, 4)),
    (AlertSearch(min_amount=100.5, max_amount=200.5), lambda n: n % 6 > 0 and 10 <= n <= 20),
    (AlertSearch(verdict=ReviewVerdict.UNREVIEWED), lambda n: n % 5 > 0),
    (AlertSearch(verdict=ReviewVerdict.FRAUD), lambda n: n % 10 == 5),
    (AlertSearch(verdict=ReviewVerdict.NOT_FRAUD), lambda n: n % 10 == 0),
    (AlertSearch(shadow=True), lambda n: n % 9 == 0),
    (AlertSearch(shadow=False), lambda n: n % 9 > 0),
    (AlertSearch(text="100"), lambda n: True),
    (AlertSearch(text="1000"), lambda n: n < 10),
    (AlertSearch(text="10017"), lambda n: n == 17),
    (AlertSearch(text="10"), lambda n: False),
    (AlertSearch(text="501"), lambda n: n % 3 == 1),
    (AlertSearch(text="776"), lambda n: n % 7 == 6),
    (AlertSearch(entity=("payeeId", "502")), lambda n: n % 3 == 2),
    (AlertSearch(entity=("beneficiaryId", "776")), lambda n: False),
    (AlertSearch(alert_id=sample(17).facts.alert_id), lambda n: n == 17),
    (AlertSearch(alert_id="none"), lambda n: False),
    (AlertSearch(rule_id=1, verdict=ReviewVerdict.UNREVIEWED, text="500"), lambda n: n % 12 == 0 and n % 5 > 0),
]  # fmt: skip


@pytest.mark.parametrize(("search", "expected"), CASES)
def test_a_filter_selects_as_a_plain_check_does(
    searches: AlertSearches, search: AlertSearch, expected: Callable[[int], bool]
) -> None:
    assert everything(searches, search) == [n for n in reversed(range(COUNT)) if expected(n)]


def test_each_order_continues_page_by_page(searches: AlertSearches) -> None:
    newest = list(reversed(range(COUNT)))
    assert everything(searches, AlertSearch(sort=AlertSort.OLDEST)) == newest[::-1]
    assert everything(searches, AlertSearch(sort=AlertSort.AMOUNT)) == [n for n in newest if amount(n) is not None]
    assert everything(searches, AlertSearch(sort=AlertSort.SEVERITY)) == sorted(newest, key=lambda n: (-rank(n), -n))


@pytest.mark.parametrize(("search", "expected"), CASES)
def test_a_filter_selects_the_same_alerts_in_the_order_of_amounts(
    searches: AlertSearches, search: AlertSearch, expected: Callable[[int], bool]
) -> None:
    wanted = [n for n in reversed(range(COUNT)) if expected(n) and amount(n) is not None]
    assert everything(searches, replace(search, sort=AlertSort.AMOUNT)) == wanted


def test_the_order_of_amounts_is_the_order_of_numbers(scene: Scene) -> None:
    amounts = [7, 1_000_000.25, -3, 50.5, 49.999, 50.5]
    order = list(range(len(amounts)))
    random.Random(1).shuffle(order)
    found = filled(scene, [alert(n, triggeringEvent={"transactionId": n, "paymentAmount": amounts[n]}) for n in order])
    expected = sorted(range(len(amounts)), key=lambda n: (-amounts[n], -n))
    assert everything(found, AlertSearch(sort=AlertSort.AMOUNT), 2) == expected


def test_snoozed_rules_and_keys_are_left_out(scene: Scene) -> None:
    searches = sampled(scene)
    for rule_id in (1, 2):
        scene.service.create(ANN, rule_input(ruleId=rule_id))
    scene.service.snooze(ANN, 1, None, scene.clock.now_ms + 1_000, "")
    scene.service.snooze(ANN, 2, {"payeeId": 500}, scene.clock.now_ms + 1_000, "")
    snoozing = Snoozing(scene.service.snoozes(), scene.clock.now_ms)
    page, _ = searches.page(AlertSearch(), snoozing, None, COUNT)
    hidden = [n for n in range(COUNT) if n % 4 == 0 or (n % 4 == 1 and n % 3 == 0)]
    assert sorted(numbers(page)) == sorted(set(range(COUNT)) - set(hidden))
    assert len(searches.page(AlertSearch(snoozed=True), snoozing, None, COUNT)[0]) == COUNT


@pytest.mark.parametrize("sort", AlertSort)
@pytest.mark.parametrize("text", ["77", "773", "10012", "502", "none"])
def test_a_frequent_text_selects_the_same_alerts_as_a_rare_one(
    searches: AlertSearches, monkeypatch: pytest.MonkeyPatch, sort: AlertSort, text: str
) -> None:
    search = AlertSearch(text=text, sort=sort)
    rare = numbers(searches.page(search, Snoozing(), None, COUNT)[0])
    monkeypatch.setattr("fraud_control.service.alerts.search._FREQUENT", 1)
    assert numbers(searches.page(search, Snoozing(), None, COUNT)[0]) == rare


@pytest.mark.parametrize("sort", AlertSort)
@pytest.mark.parametrize("narrow", [{"text": "501"}, {"entity": ("payeeId", "501")}, {"verdict": ReviewVerdict.FRAUD}])
def test_a_page_for_a_frequent_value_examines_a_bounded_number_of_alerts_and_the_next_page_continues(
    searches: AlertSearches, monkeypatch: pytest.MonkeyPatch, sort: AlertSort, narrow: dict[str, Any]
) -> None:
    search = AlertSearch(sort=sort, **narrow)
    wanted = everything(searches, search)
    monkeypatch.setattr("fraud_control.service.alerts.search._FREQUENT", 1)
    monkeypatch.setattr("fraud_control.service.alerts.search._EXAMINED", 4)
    page, after = searches.page(search, Snoozing(), None, COUNT)
    assert len(page) <= 4 < len(wanted)
    assert after is not None
    assert everything(searches, search) == wanted


@pytest.mark.parametrize("sort", AlertSort)
@pytest.mark.parametrize(
    "narrow", [{"text": "501", "shadow": True}, {"text": "501", "corrections": True}, {"shadow": True}]
)
def test_a_page_counts_the_alerts_that_it_examines_for_an_attribute_without_an_index(
    searches: AlertSearches, monkeypatch: pytest.MonkeyPatch, sort: AlertSort, narrow: dict[str, Any]
) -> None:
    search = AlertSearch(sort=sort, **narrow)
    wanted = everything(searches, search)
    for name, value in {"_FREQUENT": 1, "_EXAMINED": 4, "_EXAMINED_ROWS": 4}.items():
        monkeypatch.setattr(f"fraud_control.service.alerts.search.{name}", value)
    page, after = searches.page(search, Snoozing(), None, COUNT)
    assert len(page) <= 1
    assert after is not None
    assert everything(searches, search) == wanted


def test_an_alert_counts_once_and_keeps_its_json(scene: Scene) -> None:
    found = filled(scene, [sample(1), sample(1), sample(2)])
    again = alert(9, key={"payeeId": 1})
    repeated = FeedAlert(again.source, 77, 99_000, sample(1).facts, sample(1).json)
    filled(scene, [repeated, again])
    page, _ = found.page(AlertSearch(), Snoozing(), None, 9)
    assert numbers(page) == [9, 2, 1]
    assert page[1].alert == sample(2)


def test_corrections_add_and_retract(scene: Scene) -> None:
    found = filled(scene, [sample(1), sample(2)])
    retracted = {"alertId": sample(1).facts.alert_id, "kind": "RETRACTED", "correctedAt": 70}
    added = {"alertId": sample(8).facts.alert_id, "kind": "ADDED", "correctedAt": 80}
    with_alert = b'{"alertId":"%b","kind":"ADDED","correctedAt":80,"alert":%b}' % (
        str(added["alertId"]).encode(),
        alert_json(8),
    )
    bare = b'{"alertId":"%b","kind":"RETRACTED","correctedAt":70}' % str(retracted["alertId"]).encode()
    with scene.database.writing() as session:
        corrections = [read_correction(5, 9_000, bare), read_correction(6, 9_500, with_alert)]
        AlertIndex(SCHEMA).correct(session, corrections, 10_000)
    page, _ = found.page(AlertSearch(corrections=True), Snoozing(), None, 9)
    assert [(each.alert.facts.alert_id, each.correction) for each in page] == [
        (added["alertId"], ("ADDED", 80)),
        (retracted["alertId"], ("RETRACTED", 70)),
    ]
    assert page[0].alert.added_ms == 80
    assert everything(found, AlertSearch(corrections=False)) == [2]


@pytest.mark.parametrize(
    "members",
    [
        {"violatedRule": []},
        {"violatedRule": {"severity": 7}, "triggeringEvent": {"transactionId": 1, "paymentAmount": "much"}},
        {"triggeringEvent": {"transactionId": 1, "paymentAmount": True, "beneficiaryId": {"a": 1}}},
        {"key": {}},
        {"key": {f"k{n:03}" + "x" * 90: "y" * 900 for n in range(3)}},
        {"key": {"payee\x00Id": "1\x00"}},
        {"alertId": ""},
        {"alertId": "'; --"},
    ],
)
def test_alerts_of_other_programs_do_not_stop_the_index(scene: Scene, members: dict[str, Any]) -> None:
    assert 2 in everything(filled(scene, [alert(1, **members), alert(2)]), AlertSearch())


def test_old_alerts_leave_the_index_with_their_values(scene: Scene) -> None:
    searches = sampled(scene)
    with scene.database.writing() as session:
        assert AlertIndex(SCHEMA).prune(session, 50_000, 60_000) == 50
    assert everything(searches, AlertSearch()) == list(reversed(range(50, COUNT)))
    assert everything(searches, AlertSearch(text="100")) == list(reversed(range(50, COUNT)))
    with pytest.raises(Invalid):
        searches.page(AlertSearch(), Snoozing(), sample(3).position, 5)


def test_an_export_has_exact_amounts_and_no_formulas(scene: Scene) -> None:
    evil = alert(
        3,
        violatedRule={"name": "=cmd()", "severity": "high"},
        triggeringEvent={"transactionId": 9, "paymentAmount": 123456789012.25},
    )
    found = filled(scene, [evil, sample(6)])
    page, _ = found.page(AlertSearch(), Snoozing(), None, 9)
    marked = scene.service.mark(ANN, evil.facts.alert_id, 1, 3, "FRAUD")
    marks = {evil.facts.alert_id: marked}
    as_csv, as_parquet = (new_alert_file(form, SCHEMA) for form in ExportFormat)
    text = (as_csv.add(page[:1], marks) + as_csv.add(page[1:], marks) + as_csv.end()).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    table = pq.read_table(
        io.BytesIO(as_parquet.add(page[:1], marks) + as_parquet.add(page[1:], marks) + as_parquet.end())
    )
    assert [row["ruleName"] for row in rows] == ["Rule 2", "'=cmd()"]
    assert [row["amount"] for row in rows] == ["", "123456789012.25"]
    assert table.column("amount").to_pylist() == [None, Decimal("123456789012.25")]
    assert table.column("ruleName").to_pylist() == ["Rule 2", "=cmd()"]
    assert (rows[1]["verdict"], rows[1]["markedBy"]) == ("FRAUD", "ann")
    assert rows[1]["appendTime"] == "1970-01-01T00:00:03.000+00:00"


def test_an_empty_export_is_a_valid_file() -> None:
    as_csv, as_parquet = (new_alert_file(form, SCHEMA) for form in ExportFormat)
    assert (as_csv.add([], {}) + as_csv.end()).decode().count("\r\n") == 1
    assert pq.read_table(io.BytesIO(as_parquet.add([], {}) + as_parquet.end())).num_rows == 0


def test_saved_searches_belong_to_their_user(scene: Scene) -> None:
    searches = scene.another(bounds=scene.settings.bounds.__class__(saved_searches=2)).searches
    searches.save(VIC, "night", "severity=high")
    searches.save(ANN, "night", "severity=low")
    searches.save(VIC, "night", "severity=critical&since=24h")
    searches.save(VIC, "all", "sort=oldest")
    assert [(each.name, each.query) for each in searches.saved("vic")] == [
        ("all", "sort=oldest"),
        ("night", "severity=critical&since=24h"),
    ]
    with pytest.raises(LimitReached):
        searches.save(VIC, "third", "sort=oldest")
    for name, query in (("", "x"), ("a\nb", "x"), ("x", "y" * 2_001), ("x", "\x00")):
        with pytest.raises(Invalid):
            searches.save(ANN, name, query)
    searches.remove(VIC, "all")
    with pytest.raises(NotFound):
        searches.remove(VIC, "all")
    assert [each.name for each in searches.saved("ann")] == ["night"]
