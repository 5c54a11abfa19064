"""examples/rules: each rule alerts for the last payment of one stream, and for no payment of another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fraud_rules.codec.rules.files import read_rule_file, read_rule_text
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.replay.replay import replay
from tests.support import oracle
from tests.support.conformance import load_schema, same_answer
from tests.support.places import ROOT

SCHEMAS = {"default": load_schema("default"), "places": load_schema("third_edition")}
_NAME = re.compile(r"\*\*([^*]+)\*\*")
START_MS = 1_700_000_000_000
MINUTE, HOUR, DAY = 60, 3_600, 86_400
LISTS: dict[str, list[int]] = {"mules": [666, 667], "trusted": [10, 11]}
MAPS: dict[str, tuple[str, dict[str, str]]] = {
    "limits": ("decimal", {"1": "250.00"}),
    "risk": ("string", {"666": "high", "10": "low"}),
}


class Pay(NamedTuple):
    """A payment, so many seconds after the start of its stream."""

    at_s: float
    amount: str = "50"
    payer: int = 1
    to: int = 10
    kind: str = "CRD"
    place: tuple[str, str] | None = None


class Streams(NamedTuple):
    """A stream of which the last payment alerts, and a similar stream without an alert."""

    alerts: Sequence[Pay]
    silent: Sequence[Pay]


def every(apart_s: float, count: int, start_s: float = 0, amount: str = "50", to: int = 10) -> list[Pay]:
    """Equal payments at a steady pace."""
    return [Pay(start_s + i * apart_s, amount, to=to) for i in range(count)]


def spread(amount: str, count: int) -> list[Pay]:
    """Payments of one payer to as many beneficiaries, a minute apart."""
    return [Pay(i * MINUTE, amount, to=10 + i) for i in range(count)]


def collected(amounts: Iterable[str], kind: str = "CRD") -> list[Pay]:
    """Payments of as many payers to one beneficiary, a minute apart."""
    return [Pay(i * MINUTE, amount, payer=1 + i, kind=kind) for i, amount in enumerate(amounts)]


BERLIN, PARIS, SYDNEY = ("52.52", "13.405"), ("48.8566", "2.3522"), ("-33.8688", "151.2093")
USUAL_DAYS = [Pay(i * DAY, str(25 + 2 * (i % 6))) for i in range(12)]  # mean 30, deviation 3.4

STREAMS = {
    101: Streams(every(2, 21), every(3.1, 40)),
    102: Streams(every(MINUTE, 3, amount="7000"), every(11 * MINUTE, 6, amount="7000")),
    103: Streams([Pay(0, "50000"), Pay(1, "50000.01")], every(30, 9, amount="50000")),
    104: Streams(collected(["2000", "2400", "3200"], "CSH"), collected(["2000", "2500", "3000"], "CSH")),
    105: Streams(every(5 * MINUTE, 3), [*every(6 * MINUTE, 3), Pay(13 * MINUTE, "50.01")]),
    106: Streams(spread("1000", 5), [*spread("1000", 4), Pay(HOUR, "999.99", to=99)]),
    107: Streams(collected(["200"] * 8), [*collected(["200"] * 7), Pay(HOUR, "900")]),
    108: Streams(spread("77.70", 4), [*spread("77.70", 3), Pay(HOUR, "77.71", to=99)]),
    109: Streams(collected(["9000", "9500", "9999.99"]), collected(["9000", "9500", "10000", "8999.99"])),
    110: Streams(collected(["1900"] * 5 + ["500"]), collected(["1900"] * 5 + ["499.99", "9000"])),
    111: Streams([*every(MINUTE, 3, amount="1"), Pay(29 * MINUTE, "900")], [Pay(0, "900"), *every(MINUTE, 9, 1, "1")]),
    112: Streams([Pay(0), Pay(8 * DAY, "1000", kind="CSH")], [Pay(0), Pay(7 * DAY, "1000", kind="CSH")]),
    113: Streams([Pay(0, to=11), Pay(1, "1000")], [Pay(0), Pay(20 * DAY, "1000"), Pay(21 * DAY, "999", to=11)]),
    114: Streams([*USUAL_DAYS, Pay(13 * DAY, "200")], [*USUAL_DAYS[:9], Pay(13 * DAY, "900")]),
    115: Streams(
        [*every(HOUR, 24, amount="100"), Pay(24.5 * HOUR, "600", payer=2)],
        [*every(HOUR, 24, amount="100"), Pay(24.5 * HOUR, "400", payer=2)],
    ),
    116: Streams(
        [*every(HOUR, 26), *every(1, 2, 25.5 * HOUR)],
        [*every(HOUR, 26), Pay(25.5 * HOUR)],
    ),
    117: Streams(
        [*every(DAY / 2, 21), Pay(19 * DAY, "500")],
        [*every(DAY / 2, 21), *every(DAY, 3, 18 * DAY), Pay(21 * DAY, "500")],
    ),
    118: Streams(
        [*every(MINUTE, 61), *every(1, 6, HOUR + MINUTE + 1)],
        [*every(MINUTE, 61), *every(1, 5, HOUR + MINUTE + 1)],
    ),
    119: Streams([Pay(0), Pay(1, "0.01", to=667)], spread("9000", 5)),
    120: Streams(
        [*every(HOUR, 3, amount="4000"), Pay(4 * HOUR, "500", to=12)],
        [*every(HOUR, 3, amount="4000"), Pay(4 * HOUR, "499.99", to=12), Pay(5 * HOUR, "500", to=11)],
    ),
    121: Streams(
        [Pay(0, "100"), Pay(MINUTE, "1200"), Pay(DAY, "300")], [Pay(0, "100"), Pay(MINUTE, "1250"), Pay(DAY, "300")]
    ),
    122: Streams(
        [Pay(0, "500"), Pay(3 * HOUR, "200")],  # 23:13 and 02:13 in Berlin
        [Pay(3 * HOUR, "50"), Pay(4 * HOUR, "500"), Pay(12 * HOUR, "900")],
    ),
    123: Streams(
        [Pay(HOUR, "9000"), Pay(24 * HOUR, "1000.01")],  # 00:13 and 23:13 in Berlin
        [Pay(0, "9000"), Pay(HOUR, "2000"), Pay(24 * HOUR, "8000")],
    ),
    124: Streams(
        [*every(DAY, 10, amount="30"), Pay(10 * DAY, "400")], [*every(DAY, 10, amount="30"), Pay(10 * DAY, "250")]
    ),
    125: Streams(
        [Pay(0, place=BERLIN), Pay(HOUR, place=PARIS), Pay(HOUR + MINUTE), Pay(2 * HOUR, place=SYDNEY)],
        [Pay(0, place=BERLIN), Pay(HOUR, place=PARIS), Pay(HOUR + MINUTE), Pay(20 * HOUR, place=SYDNEY)],
    ),
    126: Streams(
        [Pay(0, "2000", to=2), Pay(60, "2000", to=3), Pay(120, "1000", to=4)],
        [Pay(0, "3000", to=2), Pay(60, "2000", to=3), Pay(120, "1000", to=4), Pay(HOUR, "1000", to=2)],
    ),
    127: Streams(
        [Pay(0, "3000"), *(Pay(60 * to, "10", to=to) for to in (11, 12, 13))],
        [Pay(0, "4000"), Pay(60, "900", to=11), Pay(2 * HOUR, "1000", kind="CSH")],
    ),
    128: Streams(every(DAY, 3), [*every(DAY, 2), Pay(3 * DAY, to=11)]),
    129: Streams(
        [*every(HOUR, 3, amount="2000"), Pay(4 * HOUR, "4000", to=11)],
        [*every(HOUR, 3, amount="2000"), Pay(4 * HOUR, "4000")],
    ),
    130: Streams(
        [Pay(0, "1000", to=5), Pay(60, "799.99", payer=5, to=9), Pay(120, "0.01", payer=5, to=8)],
        [Pay(0, "1000", to=5), Pay(60, "799.99", payer=5, to=9), Pay(HOUR + 1, "500", payer=5, to=8)],
    ),
    140: Streams(
        [Pay(HOUR, "200"), Pay(2 * HOUR, "50.01")],
        [Pay(0, "200"), Pay(HOUR, "250"), Pay(2 * HOUR, "5000", payer=2)],
    ),
    141: Streams(
        every(MINUTE, 3, amount="200"),
        [*every(31 * MINUTE, 4, amount="200"), Pay(3 * HOUR, "900"), Pay(5 * HOUR, "5000", payer=2)],
    ),
    142: Streams(
        [Pay(0, "600", to=666), Pay(HOUR, "400", to=666)],
        [Pay(0, "999", to=666), Pay(1, "5000"), Pay(2, "5000", to=12)],
    ),
    143: Streams(
        spread("2000", 10),
        [*spread("2000", 9), *(Pay(10 * DAY + HOUR + i, "2000", to=i) for i in range(12))],  # 25 November
    ),
    144: Streams(
        [Pay(3 * DAY + HOUR, "2000"), Pay(4 * DAY + HOUR, "1000.01")],  # Saturday and Sunday
        [Pay(3 * DAY, "9000"), *every(DAY, 3, 3 * DAY + HOUR, "1500"), Pay(10 * DAY + HOUR, "3000")],
    ),
    145: Streams(
        [Pay(0, kind="CSH"), Pay(2 * HOUR, kind="CSH"), Pay(4 * HOUR, kind="CSH")],
        [Pay(0, kind="CSH"), Pay(2 * HOUR, kind="CSH"), Pay(4 * HOUR), Pay(6 * HOUR, kind="CSH")],
    ),
    146: Streams(
        every(5 * DAY, 3, amount="5001"),
        every(5 * DAY, 3, 10 * DAY, "7000"),  # 24 and 29 November, 4 December
    ),
    147: Streams(
        [Pay(0, to=11), Pay(3 * HOUR, "500")],
        [Pay(0), Pay(3 * HOUR, "900"), Pay(3 * HOUR, "499", to=12), Pay(12 * HOUR, "900", to=13)],
    ),
    148: Streams(
        [Pay(0, "999.99"), Pay(HOUR, "1995", to=11), Pay(2 * HOUR, "4990")],
        [Pay(0, "999.99"), Pay(1, "1995"), *(Pay(2 + i, each) for i, each in enumerate(["1000", "989.99", "2500"]))],
    ),
    149: Streams(
        [*every(DAY, 5, amount="100"), Pay(5 * DAY, "1")],
        [*every(DAY, 5, amount="20"), Pay(5 * DAY, "1"), Pay(6 * DAY, "0.50", kind="CSH")],
    ),
    150: Streams(
        [Pay(0, "600", to=1), Pay(HOUR, "400", to=1)],
        [Pay(0, "600", to=1), Pay(HOUR, "9000"), Pay(25 * HOUR, "400", to=1)],
    ),
    151: Streams(
        [Pay(0, "1500", to=900_001), Pay(HOUR, "500", to=999_999)],
        [Pay(0, "1500", to=900_001), Pay(HOUR, "5000", to=899_999)],
    ),
    152: Streams(
        [Pay(0, "300"), Pay(60, "300", kind="CSH")],
        [Pay(0, "300"), Pay(61, "300", kind="CSH"), Pay(90, "199")],
    ),
    153: Streams(
        [*every(8 * DAY, 10, amount="5000"), Pay(85 * DAY, "0.01")],
        [*every(10 * DAY, 10, amount="5000"), Pay(91 * DAY, "5000")],
    ),
}


def rules() -> dict[int, dict[str, Any]]:
    """The rules of all files by id."""
    files = sorted((ROOT / "examples" / "rules").glob("*.yaml"))
    found = [json.loads(record.value) for path in files for record in read_rule_file(path)]
    return {rule["ruleId"]: rule for rule in found}


RULES = rules()


def document(rule_id: int, stream: Sequence[Pay]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"at": START_MS, "rule": {"listName": name, "listOperation": "SET", "listType": "long", "values": values}}
        for name, values in LISTS.items()
    ]
    steps += [
        {"at": START_MS, "rule": {"mapName": name, "mapOperation": "SET", "keyType": "long", **members}}
        for name, (value_type, entries) in MAPS.items()
        for members in [{"valueType": value_type, "entries": entries}]
    ]
    named = [RULES[each["ruleId"]] for each in RULES[rule_id].get("conditions", []) if "ruleId" in each]
    # A signal never alerts, so its own streams are those of an active rule.
    steps += [{"at": START_MS, "rule": rule} for rule in (*named, {**RULES[rule_id], "ruleState": "ACTIVE"})]
    for number, pay in enumerate(stream):
        at_ms = START_MS + int(pay.at_s * 1_000)
        members = {"payeeId": pay.payer, "beneficiaryId": pay.to, "paymentAmount": pay.amount, "paymentType": pay.kind}
        if pay.place is not None:
            members |= dict(zip(("latitude", "longitude"), pay.place, strict=True))
        steps.append({"at": at_ms, "tx": {"transactionId": number, "eventTime": at_ms, **members}})
    return {"steps": steps}


def test_each_rule_has_its_streams() -> None:
    assert sorted(RULES) == [*range(101, 131), *range(140, 154)] == list(STREAMS)


def test_the_page_names_each_rule_and_shows_one_as_it_is() -> None:
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert set(_NAME.findall(page)) == {rule["name"] for rule in RULES.values()}
    (example,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (record,) = read_rule_text(Path("rules.yaml"), example)
    rule = json.loads(record.value)
    assert rule == RULES[rule["ruleId"]]


@pytest.mark.parametrize("rule_id", RULES, ids=lambda rule_id: RULES[rule_id]["name"])
def test_a_rule_alerts_for_the_last_payment_of_one_stream_only(rule_id: int) -> None:
    rule, streams = RULES[rule_id], STREAMS[rule_id]
    needs_more = "latitude" in rule.get("when", "") or "account" in rule["groupingKeyNames"]
    schema = SCHEMAS["places" if needs_more else "default"]
    for stream, wanted in ((streams.alerts, [len(streams.alerts) - 1]), (streams.silent, [])):
        asked = document(rule_id, stream)
        answer = replay(asked, schema, DetectorSettings())
        assert answer["rejected"] == []
        assert [alert["transactionId"] for alert in answer["alerts"]] == wanted
        assert same_answer(oracle.evaluate(asked, schema), answer) == []
