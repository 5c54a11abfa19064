"""Hostile and mutated rule records: rejected with reasons, quickly, and never with another exception.

`FUZZ_RULES` and `FUZZ_SEED` in the environment make it longer or different.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import pytest

from fraud_rules.codec.rules.codec import encode_document, parse_rule_record, read_entry
from fraud_rules.codec.rules.lazy import EntryReader
from fraud_rules.errors import RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.log_entry import UndecodedRule
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import DeclaredEntity, TransactionSchema
from tests.support.places import ROOT
from tests.support.rules import DEMO_RULE

SCHEMA = replace(
    TransactionSchema.load(ROOT / "config" / "schema.yaml"),
    entities=(DeclaredEntity("account", (("out", "payeeId"), ("in", "beneficiaryId"))),),
)
LIMITS = RuleLimits()
MUTANTS = int(os.environ.get("FUZZ_RULES", "10000"))
# Three times the limits of a core that does nothing else, because CI may be slower. A quadratic reader takes seconds.
WORST_MS = 30.0
WORST_LIST_MS = 300.0
"""The hostile values have up to 10,000 elements, and each of them is checked."""

FULL_RULE = {
    **DEMO_RULE,
    "aggregatorFunctionType": "COUNT_DISTINCT",
    "unique": ["beneficiaryId"],
    "limit": "10.50",
    "cooldownSeconds": 60,
    "action": "RESTRICT",
    "filter": "paymentType = 'it''s' and (paymentAmount >= 6.005 or not payeeId in (1, -2)) or eventTime is null",
    "when": "paymentAmount > 500 and (paymentType is not null or payeeId not in list('trusted'))",
    "name": "n",
    "description": "d",
    "severity": "s",
    "weight": 60,
    "owner": "o",
    "source": "ui",
    "force": False,
    "warmUp": True,
    "disabled": False,
}
BASELINE_RULE = {
    **DEMO_RULE,
    "aggregatorFunctionType": "MAX",
    "limit": "2.5",
    "baseline": {
        "windowMinutes": 1_440,
        "aggregatorFunctionType": "AVG",
        "aggregateFieldName": "paymentAmount",
        "filter": "paymentType = 'CRD'",
        "minCount": 3,
        "deviations": True,
    },
}
ACCOUNT_RULE = {
    **DEMO_RULE,
    "groupingKeyNames": ["account", "paymentType"],
    "filter": "role = 'in' or length(role) > 3",
    "when": "role in ('out', 'in')",
    "conditions": [
        {
            "aggregatorFunctionType": "SUM",
            "limitOperatorType": ">=",
            "limit": "0.8 * own() - coalesce(round(own(), -2), length(role))",
            "windowMinutes": 60,
            "filter": "role != 'in'",
        },
        {"ruleId": 12},
    ],
    "require": "any",
}
LIST_RECORD = {
    "listName": "mules", "listOperation": "SET", "listType": "long", "values": [1, -2], "source": "ui", "force": True,
}  # fmt: skip
SEEDS = [
    json.dumps(DEMO_RULE).encode(),
    json.dumps(BASELINE_RULE).encode(),
    json.dumps(FULL_RULE).encode(),
    json.dumps(ACCOUNT_RULE).encode(),
    b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}',
    b'{"ruleId": 3, "disabled": true}',
    b'{"listName": "mules", "listOperation": "SET", "listType": "long", "values": [1, -2, 9000000000]}',
    b'{"listName": "kinds", "listOperation": "ADD", "listType": "string", "values": ["CSH", "\\u00fc"]}',
    b"1,(active),(payeeId&beneficiaryId),,(paymentAmount),(SUM),(>),(50),(20)",
    b"5,(shadow),(payeeId),(beneficiaryId),,(COUNT_DISTINCT),(>=),(3.5),(1440)",
]
DEEP = 10_000
HOSTILE_VALUES: list[str] = [
    "null", "true", "-1", "0", "1e400", "-1e-400", "1E+999999999999999999999", "NaN", "-Infinity", "9" * 5_000,
    "0." + "9" * 5_000, "1" + "0" * 4_299, '""', '"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"' + "x" * 30_000 + '"',
    "[]", "{}", "[" * DEEP, "[" * 900 + "]" * 900, '{"a":' * 5_000, "[[[[[[1]]]]]]", '{"a": 1, "a": 2}',
    "[" + ",".join(['"payeeId"'] * 5_000) + "]", "[" + ",".join(["[]"] * 10_000) + "]", "[null]", "[1e1]",
    json.dumps("(" * DEEP + "payeeId = 1" + ")" * DEEP), json.dumps("(" * 3_900 + "payeeId = 1" + ")" * 3_900),
    json.dumps("not " * 1_900 + "payeeId = 1"), json.dumps("payeeId in (" + ",".join(["1"] * 3_000) + ")"),
    json.dumps(" or ".join(["payeeId = 1"] * 600)), json.dumps(" and ".join(["nowhere = 1"] * 99)),
    json.dumps("payeeId = " + "9" * 5_000), json.dumps("paymentType = '" + "'" * 6_001 + "'"), json.dumps("'" * 7_999),
    json.dumps("paymentType = 'unclosed"), json.dumps("__import__('os').system('true')"), json.dumps("payeeId = 1; x"),
    json.dumps("eventTime > '9999-99-99'"), json.dumps("a" * 8_000), json.dumps("paymentType = '\u0000'"),
    json.dumps("payeeId = ٣"), json.dumps("\u202epayeeId = 1"), json.dumps(" " * 8_000), json.dumps("=" * 399),
]  # fmt: skip


def hostile_records() -> Iterator[bytes]:
    """Every member of the fullest rule with every hostile value, and hostile forms of the record itself."""
    for member in FULL_RULE:
        for value in HOSTILE_VALUES:
            marked = json.dumps({**FULL_RULE, member: "@@"}, ensure_ascii=False)
            yield marked.replace('"@@"', value).encode("utf-8", "surrogatepass")
    for member in ("baseline", *BASELINE_RULE["baseline"]):
        for value in HOSTILE_VALUES:
            hostile = "@@" if member == "baseline" else {**BASELINE_RULE["baseline"], member: "@@"}
            marked = json.dumps({**BASELINE_RULE, "baseline": hostile}, ensure_ascii=False)
            yield marked.replace('"@@"', value).encode("utf-8", "surrogatepass")
    yield from (
        b"[" * DEEP,
        b'{"":' * DEEP,
        b"{" * DEEP,
        b'"' * DEEP,
        b"," * 8,
        b",(active)" * 9,
        b"\x00",
        b"\xed\xa0\x80",
    )
    yield b"{" + b",".join(b'"m%d":%d' % (n, n) for n in range(5_000)) + b"}"
    yield b"{" + b",".join(b'"ruleId":1' for _ in range(5_000)) + b"}"
    yield b"{" + b",".join(b'"%s%d":1' % (b"ruleI" * 50, n) for n in range(60)) + b"}"
    yield b" " * 32_768
    yield b"x" * 5_000_000


def hostile_lists() -> Iterator[bytes]:
    """Every member of a list record with every hostile value."""
    for member in LIST_RECORD:
        for value in HOSTILE_VALUES:
            marked = json.dumps({**LIST_RECORD, member: "@@"}, ensure_ascii=False)
            yield marked.replace('"@@"', value).encode("utf-8", "surrogatepass")


def mutants(count: int, seed: int) -> Iterator[bytes]:
    """Seeds with bytes flipped, cut, doubled, swapped and spliced: mostly near misses."""
    rng = random.Random(seed)
    alphabet = b"{}[]\",:()&=<>!\\'.-+eE0123456789 \x00\xff\xed" + "٣é\u202e😀".encode()
    edits: list[Callable[[bytearray, int, int], None]] = [
        lambda data, at, _to: data.__setitem__(at, rng.choice(alphabet)),
        lambda data, at, _to: data.insert(at, rng.choice(alphabet)),
        lambda data, at, to: data.__delitem__(slice(at, to)),
        lambda data, at, to: data.__setitem__(slice(at, at), data[at:to]),
        lambda data, at, to: data.__setitem__(slice(at, to), rng.choice(SEEDS)[at:to]),
        lambda data, at, _to: data.__setitem__(slice(at, at), rng.choice(HOSTILE_VALUES).encode("utf-8")[:200]),
    ]
    for _ in range(count):
        data = bytearray(rng.choice(SEEDS))
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            at = rng.randrange(len(data) + 1) % max(len(data), 1)
            if data:
                rng.choice(edits)(data, at, min(len(data), at + rng.randrange(1, 12)))
        yield bytes(data)


def combinations(count: int, seed: int) -> Iterator[bytes]:
    """Rules put together from members that are each right, or right elsewhere: about half of them are valid."""
    rng = random.Random(seed)
    choices: dict[str, list[object]] = {
        "ruleState": ["ACTIVE", "ACTIVE", "SHADOW", "PAUSE", "DELETE"],
        "groupingKeyNames": [
            ["payeeId"],
            ["payerId", "paymentType"],
            ["paymentAmount", "eventTime"],
            ["payeeId", "payerId"],
        ],
        "unique": [[], [], None, ["beneficiaryId"]],
        "aggregateFieldName": ["paymentAmount", "payeeId", "COUNT_FLINK", "COUNT_WITH_RESET_FLINK", "paymentType"],
        "aggregatorFunctionType": ["SUM", "SUM", "SUM", "AVG", "COUNT", "COUNT_DISTINCT", "STDDEV"],
        "limitOperatorType": ["=", "!=", "LESS", "GREATER_EQUAL", "<"],
        "limit": [0, -5, "0.10", "1e3", 10**37, 12.25],
        "windowMinutes": [1, 20, 43_200],
        "cooldownSeconds": [None, 1, 3_600],
        "weight": [None, 0, "1000"],
        "filter": [
            None,
            "paymentAmount between 1 and 5",
            "not (payeeId = beneficiaryId or paymentType < 'D')",
            "payeeId",
        ],
        "when": [*[None, "paymentAmount >= 500", "payeeId in list('mules')"] * 6, "payeeId in list('Mules')"],
        "baseline": [
            *[None] * 55,
            {"windowSeconds": 60},
            {"windowMinutes": 5, "aggregatorFunctionType": "AVG"},
            {"windowMinutes": 43_200},
            {"windowSeconds": 60, "aggregatorFunctionType": "AVG", "deviations": True},
            {"windowSeconds": 60, "windowMinutes": 1, "minCount": 0, "filter": "payeeId in list('mules')"},
        ],
    }
    for rule_id in range(1, count + 1):
        picked = {member: rng.choice(values) for member, values in choices.items()}
        yield json.dumps({"ruleId": rule_id, **picked}).encode()


def parse_checked(value: bytes) -> Rule | None:
    """Parse a record and check the conditions on any result."""
    try:
        change = parse_rule_record(value, SCHEMA, LIMITS)
    except RuleRejected as rejected:
        assert 1 <= len(rejected.reasons) <= 50
        assert len(str(rejected)) < 20_000
        str(rejected).encode()
        assert all(str(reason).isprintable() for reason in rejected.reasons)
        return None
    if not isinstance(change, Rule):
        return None
    again = parse_rule_record(encode_document(change.document), SCHEMA, LIMITS)
    assert again == change
    return change


def cpu_ms(value: bytes) -> float:
    """The least CPU time of three tries, which excludes the load of other processes."""

    def once() -> float:
        start = time.thread_time()
        parse_checked(value)
        return (time.thread_time() - start) * 1_000

    first = once()
    return first if first < WORST_MS else min(once() for _ in range(3))


def test_hostile_records_are_rejected_with_reasons_within_the_limit() -> None:
    slow = {value[:80]: spent for value in hostile_records() if (spent := cpu_ms(value)) >= WORST_MS}
    assert not slow


def test_hostile_lists_are_rejected_with_reasons_within_the_limit() -> None:
    slow = {value[:80]: spent for value in hostile_lists() if (spent := cpu_ms(value)) >= WORST_LIST_MS}
    assert not slow


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_records_give_a_valid_change_or_reasons_within_the_limit(seed: int) -> None:
    slow = {value: spent for value in mutants(MUTANTS // 2, seed) if (spent := cpu_ms(value)) >= WORST_MS}
    assert not slow


def test_combinations_of_members_give_a_rule_that_says_the_same_again_or_reasons() -> None:
    parsed = [parse_checked(value) for value in combinations(2_000, seed=3)]
    assert 0.2 < sum(rule is not None for rule in parsed) / len(parsed) < 0.8


def test_a_lazily_read_record_has_the_outcome_of_a_decoded_record() -> None:
    reader, undecoded, valid = EntryReader(SCHEMA, LIMITS), 0, 0
    for value in chain(SEEDS, hostile_records(), mutants(MUTANTS // 4, seed=4), combinations(2_000, seed=5)):
        entry, expected = reader.read(7, 9, value), read_entry(7, 9, value, SCHEMA, LIMITS)
        if isinstance(entry.content, UndecodedRule):
            assert len(value) <= LIMITS.max_record_bytes
            undecoded += 1
            if expected.change is not None:
                assert isinstance(expected.change, Rule), value
                assert (entry.content.rule_id, entry.content.grouping) == (expected.rule_id, expected.change.grouping)
                valid += 1
        assert entry.outcome == expected.outcome, value
    assert undecoded > valid > 400
