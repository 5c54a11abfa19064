"""The rule sets, as documents for the rule log. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

Document = Mapping[str, Any]

PAIR = ("payeeId", "beneficiaryId")
CANARY_ID = 1_000_000
"""The rule that fires on every transaction, for rule sets without such a rule."""

_NEVER = 10**15
_FIELDS = ("payeeId", "beneficiaryId", "paymentType", "paymentAmount")
_IDENTIFIED = (
    ("transactionId", "payeeId"),
    ("transactionId", "beneficiaryId"),
    ("transactionId", "paymentType"),
    ("transactionId", "paymentAmount"),
    ("transactionId", "payeeId", "beneficiaryId"),
)
_AGGREGATORS = ("SUM", "AVG", "MIN", "MAX", "COUNT", "COUNT_WITH_RESET", "COUNT_DISTINCT", "STDDEV")
_WINDOWS_MINUTES = (1, 2, 5, 10, 15, 20)


def rule(rule_id: int, grouping: Sequence[str], aggregator: str, limit: float, **members: Any) -> Document:
    """An ACTIVE rule over `paymentAmount` that compares with GREATER over 20 minutes. `members` override this."""
    document = {
        "ruleId": rule_id,
        "ruleState": "ACTIVE",
        "groupingKeyNames": list(grouping),
        "unique": [],
        "aggregateFieldName": "paymentAmount",
        "aggregatorFunctionType": aggregator,
        "limitOperatorType": "GREATER",
        "limit": limit,
    }
    if "windowSeconds" not in members:
        document["windowMinutes"] = 20
    return document | members


def _count(rule_id: int, grouping: Sequence[str], minutes: int) -> Document:
    """A count in the notation of the Flink demo."""
    return rule(rule_id, grouping, "SUM", 10_000_000, aggregateFieldName="COUNT_FLINK", windowMinutes=minutes)


_RULE_1 = rule(1, PAIR, "SUM", 100_000_000)

RULES_1: tuple[Document, ...] = (_RULE_1,)
FIRE_ALL: tuple[Document, ...] = (rule(1, PAIR, "SUM", 0),)
RULES_10: tuple[Document, ...] = (
    _RULE_1,
    rule(2, ["payeeId"], "SUM", 100_000_000),
    rule(3, ["beneficiaryId"], "SUM", 100_000_000, limitOperatorType="GREATER_EQUAL"),
    _count(4, ["payeeId"], 20),
    _count(5, PAIR, 10),
    rule(6, ["payeeId"], "MAX", 100_000_000),
    rule(7, ["beneficiaryId"], "MIN", 0, limitOperatorType="LESS"),
    rule(8, ["payeeId", "paymentType"], "SUM", 100_000_000, windowMinutes=15),
    _count(9, ["beneficiaryId", "paymentType"], 5),
    rule(10, [*PAIR, "paymentType"], "SUM", 100_000_000),
)
CANARY = rule(CANARY_ID, PAIR, "SUM", 0)


def _baseline(**members: Any) -> Document:
    """The 24 hours before the window."""
    return {"windowMinutes": 1_440} | members


def _list(name: str, first: int) -> Document:
    """A list of 100,000 beneficiaries from `first` on."""
    values = list(range(first, first + 100_000))
    return {"listName": name, "listOperation": "SET", "listType": "long", "values": values}


RULES_10_V2: tuple[Document, ...] = (
    _list("mules", 104_900),  # with 2% of the beneficiaries of the loads
    _list("trusted", 102_500),  # with half of them
    _RULE_1,
    rule(2, ["payeeId"], "COUNT", _NEVER, filter="paymentAmount < 6", when="paymentAmount > 15"),
    rule(3, ["beneficiaryId"], "SUM", 100_000_000, when="paymentType = 'CSH'"),
    rule(4, ["payeeId", "paymentType"], "COUNT", _NEVER, filter="paymentAmount < 10", when="paymentAmount >= 10"),
    rule(5, ["payeeId"], "COUNT", 10_000_000, baseline=_baseline()),
    rule(6, PAIR, "SUM", 10_000_000, baseline=_baseline(minCount=5)),
    rule(
        7,
        ["beneficiaryId"],
        "MAX",
        1_000,
        baseline=_baseline(aggregatorFunctionType="AVG", deviations=True, minCount=50),
    ),
    rule(8, ["beneficiaryId", "paymentType"], "AVG", 1_000, baseline=_baseline(), windowMinutes=5),
    rule(9, [*PAIR, "paymentType"], "SUM", 100_000_000, when="beneficiaryId in list('mules')"),
    rule(10, ["payeeId"], "SUM", 100_000_000, when="beneficiaryId not in list('trusted')"),
)
"""Ten rules over the groupings of `RULES_10`, with their lists: three with `when`, four with a baseline of 24 hours
(one in deviations), and two with lists of 100,000 values."""


def _also(aggregator: str, limit: float, minutes: int = 20, **members: Any) -> Document:
    """A condition beside the own aggregate of a rule."""
    compared = {"limitOperatorType": "GREATER", "limit": limit, "windowMinutes": minutes}
    return {"aggregatorFunctionType": aggregator, **compared, **members}


_SIGNALS = [{"ruleId": 11}, {"ruleId": 12}, {"ruleId": 13}]
_SIGNAL = {"ruleState": "SIGNAL"}
_NINETY_DAYS = {"windowMinutes": 129_600, "resolutionSeconds": 3_600}
_OFTEN = "hour(eventTime, 'Europe/Berlin') * 60 >= 0"

RULES_10_V3: tuple[Document, ...] = (
    rule(11, ["payeeId"], "COUNT", 0, when=f"paymentAmount * 2 > 0 and {_OFTEN}") | _SIGNAL,
    rule(12, ["beneficiaryId"], "SUM", 100_000_000, when=f"paymentAmount * 5 > 0 and {_OFTEN}") | _SIGNAL,
    rule(13, PAIR, "MAX", 15, when=f"paymentAmount * 7 > 0 and {_OFTEN}") | _SIGNAL,
    rule(1, PAIR, "SUM", 100_000_000, when=f"paymentAmount * 2 - 1 > 0 and {_OFTEN}"),
    rule(
        2,
        ["payeeId"],
        "SUM",
        100,
        when="abs(paymentAmount - 10) * 3 < 5 and weekday(eventTime) + 1 > 1",
        conditions=[_also("COUNT", 5, 10), _also("MAX", 10), _also("AVG", 10_000)],
    ),
    rule(
        3,
        ["beneficiaryId"],
        "COUNT",
        5,
        when="paymentAmount * 4 > 75 and minute_of_day(eventTime) / 60 >= 0",
        conditions=[_also("SUM", 50), _also("STDDEV", 0, 10), _also("SUM", 10_000_000, 5)],
    ),
    rule(
        4,
        ["payeeId"],
        "MAX",
        100_000_000,
        when="distance_m(latitude, longitude, previous(latitude), previous(longitude))"
        " > 250 * (eventTime - previous(eventTime)) + 50000 and hour(previous(eventTime)) >= 0",
    ),
    rule(5, PAIR, "SUM", 15, when=f"paymentAmount * 3 > 59.7 and {_OFTEN}", conditions=_SIGNALS),
    rule(
        6,
        ["payeeId"],
        "SUM",
        15,
        when=f"paymentAmount + paymentAmount < 10.2 and {_OFTEN}",
        conditions=_SIGNALS,
        require="none",
    ),
    rule(7, ["beneficiaryId"], "SUM", 100_000_000, filter=f"paymentAmount - 1 > 0 and {_OFTEN}", **_NINETY_DAYS),
    rule(
        8,
        ["payeeId", "paymentType"],
        "SUM",
        100_000_000,
        when="round(paymentAmount * 2) > 1 and day(eventTime) + month(eventTime) > 1",
        windowCalendar="DAY",
        zone="Europe/Berlin",
    )
    | {"windowMinutes": None},
    _count(9, ["beneficiaryId", "paymentType"], 5) | {"when": f"paymentAmount / 2 > 2 and {_OFTEN}"},
    rule(
        10, [*PAIR, "paymentType"], "SUM", 100_000_000, when=f"100 * paymentAmount > 500 and {_OFTEN}", **_NINETY_DAYS
    ),
)
"""Ten rules over the groupings of `RULES_10`, and three signals. All have arithmetic and a function of the clock: two
with three conditions, two that name the signals, two over 90 days in steps of an hour, one of a calendar day, and one
with the distance from the previous payment. The transactions have `PLACES`."""


def groupings(count: int) -> tuple[tuple[str, ...], ...]:
    """Up to 20 groupings: all subsets of four fields, the small ones first, then some with the transaction's own id."""
    subsets = [subset for size in range(1, len(_FIELDS) + 1) for subset in combinations(_FIELDS, size)]
    found = (*subsets, *_IDENTIFIED)[:count]
    assert len(found) == count
    return tuple(found)


def many(rules: int, over: int) -> tuple[Document, ...]:
    """Rules 1 to `rules` that share `over` groupings: only rule 1 fires, on markers; all eight aggregators and
    windows from 1 to 20 minutes take turns."""
    shared = groupings(over)
    # Shift the aggregators by one in each round of groupings, so that every grouping gets all of them.
    return (
        _RULE_1,
        *(_silent(i + 1, shared[i % over], (i + i // over) % len(_AGGREGATORS), i // over) for i in range(1, rules)),
    )


def _silent(rule_id: int, grouping: Sequence[str], aggregator: int, turn: int) -> Document:
    kind = _AGGREGATORS[aggregator]
    members: dict[str, Any] = {"windowMinutes": _WINDOWS_MINUTES[turn % len(_WINDOWS_MINUTES)]}
    if kind == "COUNT_DISTINCT":
        members["unique"] = ["beneficiaryId"]
    if kind == "MIN":
        return rule(rule_id, grouping, kind, -1, limitOperatorType="LESS", **members)
    return rule(rule_id, grouping, kind, _NEVER, **members)


def encoded(documents: Iterable[Document]) -> list[tuple[bytes, bytes]]:
    """(key, value) records for the rule log."""
    return [
        (
            str(each.get("ruleId", each.get("listName", "CONTROL"))).encode(),
            json.dumps(each, separators=(",", ":")).encode(),
        )
        for each in documents
    ]
