"""What-if over archived days, against counting by hand."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fraud_rules.batch.whatif.result import encode_whatif, whatif_page
from fraud_rules.batch.whatif.run import WhatIfQuery, save_result, what_if
from fraud_rules.batch.whatif.variants import limits_of
from fraud_rules.cli.whatif import print_result
from fraud_rules.errors import DayEmpty, DayNotArchived, InputInvalid, RuleRejected, RuleUnknown
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.nightly.archived import Site
from tests.support.rules import sum_rule

NULLABLE = load_schema("nullable")
DAY = Day.parse("2026-11-18")
RULE: dict[str, Any] = sum_rule(7, ruleState="SHADOW", limit=20, windowMinutes=10, name="<b>draft")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Payee 1 pays 10 each minute from 23:55 on, over midnight; payee 2 pays once. Rule 7 is in force, 8 is deleted."""
    steps: list[dict[str, Any]] = [
        {"at": DAY.start_ms, "rule": RULE},
        {"at": DAY.start_ms, "rule": {**RULE, "ruleId": 8}},
        {"at": DAY.start_ms, "rule": {"ruleId": 8, "ruleState": "DELETE"}},
    ]
    for number in range(10):
        at_ms = DAY.end_ms + (number - 5) * 60_000
        steps.append(
            {"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, "payeeId": 1, "paymentAmount": 10}}
        )
    at_ms = DAY.end_ms + 600_000
    steps.append({"at": at_ms, "tx": {"transactionId": 99, "eventTime": at_ms, "payeeId": 2, "paymentAmount": 10}})
    site = Site.make(tmp_path / "archive", {"steps": steps, "keyGroups": 3}, NULLABLE)
    site.archive(until_ms=DAY.plus(2).start_ms)
    return site


def draft(folder: Path, **members: Any) -> str:
    path = folder / "draft.json"
    path.write_text(json.dumps({**RULE, "ruleId": 1, "ruleState": "ACTIVE", **members}))
    return str(path)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_draft_counts_transactions_before_the_first_day(site: Site, tmp_path: Path, processes: int) -> None:
    second = DAY.plus(1)
    asked = WhatIfQuery(draft(tmp_path), second, second, (Decimal(5), Decimal(95)), processes=processes)
    result = what_if(asked, site.store, site.schema, site.settings)
    assert (result.transactions, result.fires, result.keys) == (6, 5, 1)
    assert result.limits == [(Decimal(5), 6), (Decimal(95), 1)]
    assert dict(result.windows_ms) == {150_000: 5, 300_000: 5, 600_000: 5, 1_200_000: 5, 2_400_000: 5}
    assert result.busiest == [({"payeeId": 1}, 5)]
    assert [fire.transaction_id for fire in result.first] == [5, 6, 7, 8, 9]
    assert result.hours[0] == 5 and len(result.hours) == 24


def test_other_windows_are_left_out_on_request(site: Site, tmp_path: Path) -> None:
    asked = WhatIfQuery(draft(tmp_path), DAY.plus(1), DAY.plus(1), (Decimal(5),), windows=False, processes=1)
    result = what_if(asked, site.store, site.schema, site.settings)
    assert (result.fires, result.limits, result.windows_ms) == (5, [(Decimal(5), 6)], [])


def test_both_days_by_the_id_of_a_rule_in_force(site: Site) -> None:
    result = what_if(WhatIfQuery("7", DAY, DAY.plus(1), processes=1), site.store, site.schema, site.settings)
    assert result.fires == 8
    limits = [(format(limit, "f"), count) for limit, count in result.limits]
    assert limits == [("0", 11), *((str(10 * i), 10 - i) for i in range(1, 11))]


def test_a_cool_down_suppresses_alerts(site: Site, tmp_path: Path) -> None:
    asked = WhatIfQuery(draft(tmp_path, cooldownSeconds=120), DAY, DAY.plus(1), processes=1)
    result = what_if(asked, site.store, site.schema, site.settings)
    assert (result.fires, result.suppressed) == (4, 4)


@pytest.mark.parametrize(
    ("limit", "fires", "limits"),
    [
        ("paymentAmount * 3", 5, [(Decimal(2), 4), (Decimal("3.5"), 0)]),
        ("paymentAmount / (payeeId - 1)", 0, [(Decimal(2), 0), (Decimal("3.5"), 0)]),
    ],
    ids=["a value for each payment", "null for the first payer"],
)
def test_the_limits_of_an_expression_are_factors_of_its_value(
    site: Site, tmp_path: Path, limit: str, fires: int, limits: list[tuple[Decimal, int]]
) -> None:
    second = DAY.plus(1)
    factors = Decimal(2), Decimal("3.5")
    asked = WhatIfQuery(draft(tmp_path, limit=limit), second, second, factors, windows=False, processes=1)
    result = what_if(asked, site.store, site.schema, site.settings)
    assert (result.transactions, result.fires, result.limits) == (6, fires, limits)


def test_a_draft_without_grouping_has_one_key(site: Site, tmp_path: Path) -> None:
    second = DAY.plus(1)
    asked = WhatIfQuery(draft(tmp_path, groupingKeyNames=[]), second, second, (Decimal(5),), processes=1)
    result = what_if(asked, site.store, site.schema, site.settings)
    assert (result.fires, result.keys, result.busiest) == (6, 1, [({}, 6)])
    assert [fire.transaction_id for fire in result.first] == [5, 6, 7, 8, 9, 99]


_AVG = {"aggregatorFunctionType": "AVG"}
CONDITIONS: list[dict[str, Any]] = [
    {"aggregatorFunctionType": "SUM", "limitOperatorType": ">"},
    {"aggregatorFunctionType": "SUM", "limitOperatorType": "!=", "filter": "paymentAmount > 3"},
    {"aggregatorFunctionType": "AVG", "limitOperatorType": ">="},
    {"aggregatorFunctionType": "AVG", "limitOperatorType": "=", "windowMinutes": 1},
    {"aggregatorFunctionType": "STDDEV", "limitOperatorType": "<"},
    {"aggregatorFunctionType": "MIN", "limitOperatorType": "<="},
    {"aggregatorFunctionType": "MAX", "limitOperatorType": ">"},
    {"aggregatorFunctionType": "COUNT", "limitOperatorType": "="},
    {"aggregatorFunctionType": "COUNT_DISTINCT", "limitOperatorType": ">", "unique": ["beneficiaryId"]},
    {"aggregatorFunctionType": "COUNT_WITH_RESET", "limitOperatorType": ">="},
    {"aggregatorFunctionType": "SUM", "limitOperatorType": ">", "cooldownSeconds": 90},
    {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "groupingKeyNames": []},
    {"aggregatorFunctionType": "AVG", "limitOperatorType": ">=", "aggregateFieldName": "COUNT_FLINK"},
    {"aggregatorFunctionType": "COUNT", "limitOperatorType": "<=", "when": "beneficiaryId = 2"},
    {"aggregatorFunctionType": "SUM", "limitOperatorType": ">", "baseline": {"windowMinutes": 6}},
    {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "baseline": {"windowMinutes": 3, "minCount": 4}},
    {"aggregatorFunctionType": "MAX", "limitOperatorType": ">=", "baseline": {"windowMinutes": 6} | _AVG},
    {
        "aggregatorFunctionType": "MAX", "limitOperatorType": ">", "when": "paymentAmount > 1",
        "baseline": {"windowMinutes": 9, "deviations": True, "minCount": 2} | _AVG,
    },
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda members: " ".join(map(str, members.values())))
def test_the_curve_equals_one_draft_per_limit(tmp_path: Path, condition: dict[str, Any]) -> None:
    """Counted from evaluations made once, or a rule a limit: it must be the same. With a baseline, the limit is the
    factor. So must be the caught frauds and the false alerts, whose labels name each third transaction."""
    chance = random.Random(5)
    steps: list[dict[str, Any]] = [{"at": DAY.start_ms, "rule": RULE}]
    for number in range(120):
        at_ms = DAY.start_ms + number * 7_000
        event = {"payeeId": chance.randrange(3), "beneficiaryId": chance.randrange(4)}
        paid = {"paymentAmount": chance.choice([-2, 0.5, 3, 3.01, 8, 9_000_000_000_000_000])}
        steps.append({"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, **event, **paid}})
    site = Site.make(tmp_path / "archive", {"steps": steps, "keyGroups": 1}, NULLABLE)
    site.archive(until_ms=DAY.plus(2).start_ms)
    negative = [] if "deviations" in condition.get("baseline", {}) else ["-1"]
    limits = tuple(map(Decimal, (*negative, "0", "0.5", "2", "3", "3.005", "4", "9000000000000000")))
    rule = draft(tmp_path, **{"windowMinutes": 2, **condition})
    labels = tmp_path / "labels.csv"
    marked = {number: chance.random() < 0.4 for number in range(0, 120, 3)}
    labels.write_text("transactionId,label\n" + "".join(f"{each},{int(fraud)}\n" for each, fraud in marked.items()))
    asked = WhatIfQuery(rule, DAY, DAY, limits, processes=1, labels=labels)
    result = what_if(asked, site.store, site.schema, site.settings)
    curve, one_by_one = result.limits, []
    caught: list[tuple[int, int]] = []
    for limit in limits:
        rule = draft(tmp_path, **{"windowMinutes": 2, **condition, "limit": float(limit)})
        asked = WhatIfQuery(rule, DAY, DAY, (Decimal(1),), windows=False, processes=1)
        alone = what_if(asked, site.store, site.schema, site.settings)
        one_by_one.append((limit, alone.fires))
        verdicts = [marked[int(fire.transaction_id)] for fire in alone.first if fire.transaction_id in marked]
        caught.append((sum(verdicts), len(verdicts) - sum(verdicts)))
    assert curve == one_by_one
    assert result.labels is not None and result.labels.by_limit == caught
    assert (result.labels.fraud, result.labels.not_fraud) == (sum(marked.values()), 40 - sum(marked.values()))
    assert len({count for _, count in curve}) > 1, "no limit makes a difference"


def test_a_report_is_kept_and_quotes_nothing_unescaped(site: Site) -> None:
    result = what_if(WhatIfQuery("7", DAY, DAY.plus(1), processes=1), site.store, site.schema, site.settings)
    page = save_result(result, site.store)
    text = page.read_text()
    assert "<b>draft" not in text and "&lt;b&gt;draft" in text and "<svg" in text
    assert json.loads((page.parent / "result.json").read_bytes())["fires"] == 8
    assert whatif_page(result).decode() == text and encode_whatif(result)


def test_the_page_and_the_terminal_have_the_rule_in_words(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = draft(tmp_path, filter="paymentAmount > 5", limit=20)
    result = what_if(WhatIfQuery(rule, DAY, DAY.plus(1), processes=1), site.store, site.schema, site.settings)
    assert result.says.startswith("Alert when one payeeId has a total paymentAmount of more than 20")
    assert "Only payments where paymentAmount > 5 count." in result.says
    assert escape(result.says) in whatif_page(result).decode()
    print_result(replace(result, transactions=1_234_567, busiest=[({"payeeId": 1}, 4321)]))
    printed = capsys.readouterr().out
    assert result.says in printed
    assert "1,234,567 transactions" in printed and "4,321  payeeId=1" in printed


def test_fires_are_counted_by_keys_with_text(tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [{"at": DAY.start_ms, "rule": RULE}]
    for number, kind in enumerate(["CSH", "CRD", "CSH", "ü€", "CSH", "CRD"]):
        at_ms = DAY.start_ms + number
        event = {"transactionId": number, "eventTime": at_ms, "payeeId": 4, "paymentType": kind, "paymentAmount": 15}
        steps.append({"at": at_ms, "tx": event})
    site = Site.make(tmp_path / "archive", {"steps": steps, "keyGroups": 1}, NULLABLE)
    site.archive(until_ms=DAY.plus(2).start_ms)
    rule = draft(tmp_path, groupingKeyNames=["paymentType", "payeeId"])
    result = what_if(WhatIfQuery(rule, DAY, DAY, processes=1), site.store, site.schema, site.settings)
    assert result.busiest == [({"paymentType": "CSH", "payeeId": 4}, 2), ({"paymentType": "CRD", "payeeId": 4}, 1)]
    assert [(fire.transaction_id, fire.key["paymentType"]) for fire in result.first] == [
        (2, "CSH"),
        (4, "CSH"),
        (5, "CRD"),
    ]


def test_an_unanswerable_question_is_named(site: Site, tmp_path: Path) -> None:
    def ask(rule: str, first: Day = DAY, last: Day = DAY) -> None:
        what_if(WhatIfQuery(rule, first, last, processes=1), site.store, site.schema, site.settings)

    with pytest.raises(RuleUnknown, match="deleted after version 1"):
        ask("8")
    with pytest.raises(RuleUnknown, match="there is no rule 9"):
        ask("9")
    with pytest.raises(RuleUnknown, match="neither a rule file"):
        ask("nothing.yaml")
    with pytest.raises(RuleRejected, match="windowMinutes"):
        ask(draft(tmp_path, windowMinutes=0))
    with pytest.raises(DayNotArchived):
        ask("7", DAY, DAY.plus(2))
    with pytest.raises(DayEmpty):
        ask("7", DAY.plus(-3), DAY.plus(-2))


def test_limits_are_written_with_commas() -> None:
    assert limits_of("") == ()
    assert limits_of(" 1, 2.5,1e3,") == (Decimal(1), Decimal("2.5"), Decimal(1000))
    for text in ("12, much", "nan", "1" + ",2" * 200):
        with pytest.raises(InputInvalid):
            limits_of(text)


def test_a_what_if_follows_the_changes_of_lists(tmp_path: Path) -> None:
    listed = {"listName": "mules", "listType": "long", "listOperation": "SET", "values": [2]}
    steps: list[dict[str, Any]] = [{"at": DAY.start_ms, "rule": RULE}]
    for number in range(8):
        at_ms = DAY.start_ms + (number + 1) * 60_000
        if number == 2:
            steps.append({"at": at_ms, "rule": listed})
        if number == 6:
            steps.append({"at": at_ms, "rule": {**listed, "listOperation": "ADD", "values": [1]}})
        tx = {"transactionId": number, "eventTime": at_ms, "payeeId": 1, "beneficiaryId": 1 + number % 2}
        steps.append({"at": at_ms, "tx": {**tx, "paymentAmount": 10}})
    site = Site.make(tmp_path / "archive", {"steps": steps}, NULLABLE)
    site.archive(until_ms=DAY.plus(2).start_ms)
    asked = draft(tmp_path, when="beneficiaryId in list('mules')", limit=0)
    result = what_if(WhatIfQuery(asked, DAY, DAY, (Decimal(35),), processes=1), site.store, site.schema, site.settings)
    assert [fire.transaction_id for fire in result.first] == [3, 5, 6, 7]
    assert (result.fires, result.limits) == (4, [(Decimal(35), 4)])
    missing = WhatIfQuery(draft(tmp_path, when="beneficiaryId in list('trusted')"), DAY, DAY, processes=1)
    with pytest.raises(RuleRejected, match="there is no list 'trusted'"):
        what_if(missing, site.store, site.schema, site.settings)


def test_a_draft_may_name_rules_in_force(site: Site, tmp_path: Path) -> None:
    """Rule 7 is in SHADOW: for another rule, it is as if it was not evaluated."""
    members = {"limit": 5, "windowMinutes": 5}
    asked = WhatIfQuery(draft(tmp_path, conditions=[{"ruleId": 8}]), DAY, DAY, processes=1)
    with pytest.raises(RuleRejected, match="there is no rule 8"):
        what_if(asked, site.store, site.schema, site.settings)
    found = {}
    for require in ("all", "none"):
        rule = draft(tmp_path, conditions=[{"ruleId": 7}], require=require, **members)
        found[require] = what_if(WhatIfQuery(rule, DAY, DAY.plus(1)), site.store, site.schema, site.settings)
    assert (found["all"].fires, found["none"].fires, found["none"].keys) == (0, 11, 2)


def test_a_draft_that_names_a_signal_of_another_grouping(tmp_path: Path) -> None:
    """Beneficiary 5 gets two payments of 10, then five. The draft needs the signal, and pauses for two minutes."""
    signal = sum_rule(3, ruleState="SIGNAL", groupingKeyNames=["beneficiaryId"], limit=20, windowMinutes=60)
    steps: list[dict[str, Any]] = [{"at": DAY.start_ms, "rule": signal}]
    for number in range(8):
        at_ms = DAY.start_ms + (number + 1) * 60_000
        tx = {"transactionId": number, "eventTime": at_ms, "payeeId": number % 2, "beneficiaryId": 5}
        steps.append({"at": at_ms, "tx": {**tx, "paymentAmount": 10}})
    site = Site.make(tmp_path / "archive", {"steps": steps, "keyGroups": 3}, NULLABLE)
    site.archive(until_ms=DAY.plus(1).start_ms)
    rule = draft(tmp_path, limit=5, conditions=[{"ruleId": 3}], cooldownSeconds=150)
    asked = WhatIfQuery(rule, DAY, DAY, (Decimal(5), Decimal(15), Decimal(35)), windows=False)
    result = what_if(asked, site.store, site.schema, site.settings)
    assert [fire.transaction_id for fire in result.first] == [2, 3, 6, 7]  # the signal holds from payment 2 on
    assert (result.fires, result.suppressed, result.keys) == (4, 2, 2)
    assert result.limits == [(Decimal(5), 4), (Decimal(15), 4), (Decimal(35), 2)]
