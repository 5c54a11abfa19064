"""What-if with labels of past transactions: catches, false alerts, limits and suggestions, against counting by hand."""

from __future__ import annotations

import csv
import itertools
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fraud_rules.batch.whatif.labels import FRAUD, NOT_FRAUD, LabelLine, Labels, read_label_lines
from fraud_rules.batch.whatif.result import LabelFigures, WhatIfResult, label_text, ratio, suggestion_text, whatif_page
from fraud_rules.batch.whatif.run import WhatIfQuery, what_if
from fraud_rules.errors import InputInvalid
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.nightly.archived import Site
from tests.support.rules import sum_rule

NULLABLE = load_schema("nullable")
DAY = Day.parse("2026-11-18")
PAYMENTS = 4_000
RULE = sum_rule(7, aggregatorFunctionType="MAX", limit=20, windowMinutes=2_880)


def amounts() -> list[Decimal]:
    """Each payment of another payee, so that the aggregate of a payment is its amount."""
    chance = random.Random(11)
    return [Decimal(int(10 ** chance.uniform(1, 5))) / 100 for _ in range(PAYMENTS)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    steps: list[dict[str, Any]] = [{"at": DAY.start_ms, "rule": RULE}]
    for number, amount in enumerate(amounts()):
        at_ms = DAY.start_ms + number * 40_000
        paid = {"payeeId": number, "paymentAmount": str(amount)}
        steps.append({"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, **paid}})
    site = Site.make(tmp_path_factory.mktemp("labels") / "archive", {"steps": steps, "keyGroups": 1}, NULLABLE)
    site.archive(until_ms=DAY.plus(3).start_ms)
    return site


def frauds() -> dict[int, bool]:
    """Labels of a tenth of the payments; above 220.00 almost all of them are frauds."""
    chance, paid = random.Random(3), amounts()
    labelled = chance.sample(range(PAYMENTS), PAYMENTS // 10)
    return {number: chance.random() < (0.95 if paid[number] > 220 else 0.02) for number in labelled}


def write_labels(path: Path) -> Path:
    rows = [f"{number},{'FRAUD' if fraud else 'NOT_FRAUD'}" for number, fraud in frauds().items()]
    path.write_text("\n".join(["transactionId,label", *rows]) + "\n")
    return path


def ask(site: Site, folder: Path, **members: Any) -> WhatIfResult:
    options = {"processes": 1, "windows": False} | members
    rule = folder / "draft.json"
    rule.write_text(json.dumps(RULE | options.pop("rule", {})))
    return what_if(WhatIfQuery(str(rule), DAY, DAY.plus(1), **options), site.store, site.schema, site.settings)


@pytest.mark.parametrize("processes", [1, 2])
def test_each_limit_of_the_curve_counts_catches_and_false_alerts(site: Site, tmp_path: Path, processes: int) -> None:
    labels = write_labels(tmp_path / "labels.csv")
    result = ask(site, tmp_path, labels=labels, processes=processes)
    marked, paid = frauds(), amounts()
    found = result.labels
    assert found is not None
    assert (found.fraud, found.not_fraud, found.outside, found.skipped) == (
        sum(marked.values()), len(marked) - sum(marked.values()), 0, {},
    )  # fmt: skip
    for (limit, fires), caught in zip(result.limits, found.by_limit, strict=True):
        over = [number for number, amount in enumerate(paid) if amount > limit]
        verdicts = [marked[number] for number in over if number in marked]
        assert (fires, caught) == (len(over), (verdicts.count(True), verdicts.count(False))), limit
    own = dict(zip((limit for limit, _ in result.limits), found.by_limit, strict=True))[Decimal(20)]
    assert (found.caught, found.false_alerts) == own
    assert set(found.missed) == {number for number, fraud in marked.items() if fraud and paid[number] <= 20}


def test_the_limits_are_quantiles_of_the_aggregate(site: Site, tmp_path: Path) -> None:
    """Each limit gives another number of alerts, between one and a fifth of all payments, except the rule's own and
    the first without alerts."""
    result = ask(site, tmp_path)
    counts = [count for limit, count in result.limits if limit != 20]
    assert 40 <= len(result.limits) <= 50 and len(set(counts)) == len(counts)
    assert min(counts) == 0 and max(counts) <= PAYMENTS / 5
    steps = [first / second for first, second in itertools.pairwise(counts) if second > 20]
    assert max(steps) < 1.5, "geometric steps"


def test_a_suggested_limit_fulfils_the_wish_as_well_as_any_limit(site: Site, tmp_path: Path) -> None:
    labels = write_labels(tmp_path / "labels.csv")
    result = ask(site, tmp_path, labels=labels, alerts_per_day=50, precision=0.9)
    marked, paid = frauds(), amounts()
    quiet, precise = result.suggestions
    assert quiet.limit is not None and quiet.fires == sum(amount > quiet.limit for amount in paid) <= 100
    assert quiet.fires >= 95, "the steps of the limits are small"
    assert precise.limit is not None and precise.caught and precise.false_alerts is not None
    verdicts = [fraud for number, fraud in marked.items() if paid[number] > precise.limit]
    assert (precise.caught, precise.false_alerts) == (verdicts.count(True), verdicts.count(False))
    assert precise.caught / len(verdicts) >= 0.9
    best = max(
        sum(over) for each in sorted(paid)
        if (over := [fraud for number, fraud in marked.items() if paid[number] > each]) and sum(over) >= 0.9 * len(over)
    )  # fmt: skip
    assert precise.caught >= best - 1, "the steps of the limits are small"
    assert "alerts a day, catches" in suggestion_text(precise, result)
    assert b"recall" in whatif_page(result)


def test_a_wish_that_no_limit_fulfils_has_no_limit(site: Site, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text(f"transactionId,label\n{min(range(PAYMENTS), key=amounts().__getitem__)},1\n")
    result = ask(site, tmp_path, labels=labels, alerts_per_day=0.1, precision=0.9)
    assert [(each.goal, each.limit) for each in result.suggestions] == [
        ("ALERTS_PER_DAY", None), ("PRECISION_OF_ALL", None),
    ]  # fmt: skip
    assert suggestion_text(result.suggestions[0], result) == "at most 0.1 alerts a day: no limit"


def test_a_precision_needs_a_labelled_fraud(site: Site, tmp_path: Path) -> None:
    with pytest.raises(InputInvalid, match="needs labels"):
        ask(site, tmp_path, precision=0.5)


def test_a_suppressed_alert_catches_no_fraud(tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [{"at": DAY.start_ms, "rule": RULE}]
    for number in range(6):
        at_ms = DAY.start_ms + number * 1_000
        paid = {"payeeId": 1, "paymentAmount": 10 * number}
        steps.append({"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, **paid}})
    site = Site.make(tmp_path / "archive", {"steps": steps}, NULLABLE)
    site.archive(until_ms=DAY.plus(3).start_ms)
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps({"transactionId": each, "label": "FRAUD"}) + "\n" for each in (1, 3, 4)))
    result = ask(site, tmp_path, labels=labels, rule={"cooldownSeconds": 600})
    found = result.labels
    assert found is not None and (result.fires, result.suppressed) == (1, 2)
    assert (found.caught, found.suppressed, found.missed) == (1, 1, [1, 4])
    curve = [(format(limit, "f"), fires) for limit, fires in result.limits]
    assert curve == [("-0.01", 1), ("0", 1), ("10", 1), ("20", 1), ("40", 1), ("50", 0)], "30 has the counts of 20"
    assert found.by_limit == [(0, 0), (1, 0), (0, 0), (1, 0), (0, 0), (0, 0)], "the first payment above the limit"
    assert "the cool-down suppresses the alerts of 1 further confirmed frauds" in label_text(result)


def test_every_hit_is_listed_and_the_list_is_a_file_of_labels(site: Site, tmp_path: Path) -> None:
    labels, marked, paid = write_labels(tmp_path / "labels.csv"), frauds(), amounts()
    over = [number for number, amount in enumerate(paid) if amount > 150]
    results = [tmp_path / f"hits.{ending}" for ending in ("csv", "jsonl", "parquet")]
    first, *others = [ask(site, tmp_path, labels=labels, fires=hits, rule={"limit": 150}).labels for hits in results]
    again = ask(site, tmp_path, labels=results[0], rule={"limit": 150}).labels
    assert first is not None and again is not None
    assert others == [first, first]
    assert (again.caught, again.false_alerts) == (first.caught, first.false_alerts)
    assert again.skipped == {"without a label": len(over) - again.caught - again.false_alerts}
    csv_lines, *other_lines = [read_label_lines(hits, NULLABLE) for hits in results]
    assert other_lines == [csv_lines, csv_lines], "each list has the same labels"
    with results[0].open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["transactionId"]) for row in rows] == over, "in the order of time"
    assert [Decimal(row["value"]) for row in rows] == [paid[number] for number in over]
    names = {True: "FRAUD", False: "NOT_FRAUD", None: ""}
    assert [row["label"] for row in rows] == [names[marked.get(number)] for number in over]
    assert rows[0]["eventTime"].startswith("2026-11-18T") and rows[0]["payeeId"] == rows[0]["transactionId"]
    assert len(results[1].read_text().splitlines()) == pq.read_table(results[2]).num_rows == len(over)
    with pytest.raises(InputInvalid, match="must end in"):
        ask(site, tmp_path, fires=tmp_path / "hits.txt")


def test_labels_outside_of_the_days_are_counted_and_garbage_is_skipped(site: Site, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    lines = [
        '{"transactionId": 1, "label": "fraud"}', '{"transactionId": "2", "label": false}', "garbage", "[1]",
        '{"transactionId": 3, "label": "perhaps"}', '{"label": 1}', '{"transactionId": 1.5, "label": 1}',
        '{"transactionId": 999999, "label": 1}', '{"alertId": "unknown-alert", "verdict": "NOT_FRAUD"}',
        '{"transactionId": 1, "verdict": "NOT_FRAUD"}', '{"transactionId": 4}', "\udcff", "",
    ]  # fmt: skip
    labels.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    found = ask(site, tmp_path, labels=labels).labels
    assert found is not None
    assert (found.fraud, found.not_fraud, found.outside) == (0, 2, 2)
    assert found.skipped == {
        "not a record": 3, "unknown label": 1, "without a transaction id": 1, "unreadable transaction id": 1,
        "replaced by a later label": 1, "without a label": 1,
    }  # fmt: skip


def test_a_file_without_any_label_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("payment,fraud\n1,1\n")
    with pytest.raises(InputInvalid, match="no column for any field of the schema; its columns are payment, fraud"):
        read_label_lines(path, NULLABLE)
    path.write_text("transactionId,fraud\n1,1\n")
    with pytest.raises(InputInvalid, match=r"has no label: without a label \(1\)"):
        read_label_lines(path, NULLABLE)
    with pytest.raises(InputInvalid, match="cannot be read"):
        read_label_lines(tmp_path / "missing.csv", NULLABLE)


def test_labels_of_pandas_may_be_floats(tmp_path: Path) -> None:
    """A column with nulls has floats."""
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"transactionId": [5.0, 6.0, None], "label": [1.0, 0.0, None]}), path)
    read = read_label_lines(path, NULLABLE)
    assert read.lines == [LabelLine(5, None, FRAUD), LabelLine(6, None, NOT_FRAUD)]
    path = tmp_path / "labels.csv"
    path.write_text("transactionId,label\n5.0,1.0\n6.0,0.0\n")
    assert read_label_lines(path, NULLABLE).lines == read.lines


def test_labels_come_from_parquet_with_booleans(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"transactionId": [5, 6], "label": [True, False]}), path)
    assert read_label_lines(path, NULLABLE).lines == [LabelLine(5, None, FRAUD), LabelLine(6, None, NOT_FRAUD)]


def test_a_label_of_an_alert_applies_to_its_transaction() -> None:
    lines = [LabelLine(None, "a", FRAUD), LabelLine(None, "b", NOT_FRAUD), LabelLine(9, None, NOT_FRAUD)]
    labels, replaced = Labels.of_lines(lines, {"a": 9})
    assert (labels.ids, labels.classes.tolist(), labels.elsewhere, replaced) == ((9,), [NOT_FRAUD], 1, 1)


def test_marked_alerts_label_their_transactions_in_the_archive(site: Site, tmp_path: Path) -> None:
    own = Site.make(tmp_path / "archive", {**site.document, "steps": site.document["steps"][:500]}, NULLABLE)
    own.archive(until_ms=DAY.plus(3).start_ms)
    paid, numbers = amounts(), (3, 5, 8)
    ids = own.add_alerts([(DAY.start_ms + number * 40_000, number) for number in numbers])
    labels = tmp_path / "marks.jsonl"
    marks = [*zip(ids, ("FRAUD", "NOT_FRAUD", "FRAUD"), strict=True), ("alert-of-last-month", "FRAUD")]
    labels.write_text("".join(json.dumps({"alertId": each, "label": verdict}) + "\n" for each, verdict in marks))
    result = ask(own, tmp_path, labels=labels)
    assert result.labels is not None
    assert (result.labels.fraud, result.labels.not_fraud, result.labels.outside) == (2, 1, 1)
    assert (result.labels.caught, result.labels.false_alerts) == ((paid[3] > 20) + (paid[8] > 20), int(paid[5] > 20))


def test_the_figures_are_sentences_with_their_base(site: Site, tmp_path: Path) -> None:
    result = ask(site, tmp_path, rule={"limit": 900}, labels=write_labels(tmp_path / "labels.csv"))
    found = result.labels
    assert isinstance(found, LabelFigures)
    assert label_text(result)[0] == (
        f"catches {found.caught} of {found.fraud} confirmed frauds, {found.false_alerts} of {found.not_fraud} "
        "false alerts (labelled transactions of the 2 days)"
    )


def test_the_precision_by_labels_that_name_frauds_only_is_a_lower_bound(site: Site, tmp_path: Path) -> None:
    labels = write_labels(tmp_path / "labels.csv")
    frauds = [line for line in labels.read_text().splitlines() if "NOT_FRAUD" not in line]
    labels.write_text("\n".join(frauds) + "\n")
    result = ask(site, tmp_path, rule={"limit": 900}, labels=labels)
    found = result.labels
    assert found is not None
    assert 0 < found.caught < result.fires
    said = f"precision at least {ratio(found.caught, result.fires)} of all alerts"
    assert label_text(result)[1].startswith(said)
    page = whatif_page(result).decode()
    assert "precision (at least)" in page
    assert "precision (labelled)" not in page
