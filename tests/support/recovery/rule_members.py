"""Members for the drawn rules of the load, beyond an aggregate with a number as limit: expressions, maps, calendars,
previous payments, conditions, signals, long windows, entities and rollouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from fraud_rules.configuration.project import Project
from fraud_rules.model.declared.entity import DeclaredEntity
from fraud_rules.model.schema import TransactionSchema

SIGNAL_ID, NAMING_ID = 11, 12
CAPS = "caps"
ACCOUNT = "account"
FIRST_RECORDS: tuple[dict[str, Any], ...] = (
    {
        "mapName": CAPS,
        "mapOperation": "SET",
        "keyType": "long",
        "valueType": "decimal",
        "entries": {str(payer): f"{12 + payer}.50" for payer in range(0, 20, 2)},
    },
    {
        "ruleId": SIGNAL_ID,
        "ruleState": "SIGNAL",
        "groupingKeyNames": ["beneficiaryId"],
        "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">=",
        "limit": 2,
        "windowSeconds": 8,
    },
    {
        "ruleId": NAMING_ID,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payeeId"],
        "aggregatorFunctionType": "MAX",
        "aggregateFieldName": "paymentAmount",
        "limitOperatorType": ">",
        "limit": 12,
        "windowSeconds": 8,
        "cooldownSeconds": 1,
        "conditions": [{"ruleId": SIGNAL_ID}],
    },
)
"""A map, a signal, and a rule that names the signal."""
_AMOUNTS = (
    f"coalesce(map('{CAPS}', payeeId), 15)",
    "paymentAmount * 2",
    "coalesce(previous(paymentAmount), 5) + 1",
    f"map('{CAPS}', beneficiaryId) / 2",
)
_COUNTS = (f"coalesce(map('{CAPS}', payeeId), 20) / 10", "round(paymentAmount / 4)")
_PREVIOUS = (
    "paymentAmount > 2 * previous(paymentAmount)",
    "eventTime - previous(eventTime) < 0.5 and paymentType != previous(paymentType)",
    "previous(beneficiaryId) is null or beneficiaryId != previous(beneficiaryId)",
)
_ROLES = ("role = 'out'", "role = 'in'", "role = 'out' and paymentAmount >= 5")
_AGGREGATES: tuple[dict[str, Any], ...] = (
    {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 2, "windowSeconds": 3},
    {"aggregatorFunctionType": "SUM", "limitOperatorType": ">", "limit": "paymentAmount", "windowSeconds": 20},
    {"aggregatorFunctionType": "MAX", "limitOperatorType": "<", "limit": 18, "windowSeconds": 8, "filter": ""},
    {
        "aggregatorFunctionType": "COUNT_DISTINCT",
        "unique": ["beneficiaryId"],
        "limitOperatorType": ">=",
        "limit": 2,
        "windowSeconds": 20,
    },
    {"aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": "0.5 * own()", "windowSeconds": 3},
)

Rule = dict[str, Any]


def schema_with_account(home: Path, project: Project) -> Path:
    """Write the default schema with an entity, whose roles are payer and beneficiary."""
    roles = (("out", "payeeId"), ("in", "beneficiaryId"))
    schema = TransactionSchema.load(project.config / "schema.yaml")
    home.mkdir(parents=True, exist_ok=True)
    file = home / "schema-with-account.yaml"
    file.write_text(replace(schema, entities=(DeclaredEntity(ACCOUNT, roles),)).text(), encoding="utf-8")
    return file


def add_members(rule: Rule, random: Random) -> None:
    """Give a rule one kind of members, or none."""
    draw = random.random()
    if draw < 0.3:
        return
    in_place = "warmUp" in rule  # such a rule keeps its id and its grouping
    random.choice(_KEEP_GROUPING if in_place else (*_KEEP_GROUPING, *_OTHER_GROUPING))(rule, random)
    if random.random() < 0.2:
        rule["rolloutPercent"] = random.choice((30, 70))


def map_record(random: Random) -> Rule:
    """Draw a change of the map. It may not fit the log before it."""
    operation = random.choice(("SET", "SET", "ADD", "ADD", "REMOVE", "DELETE"))
    record: Rule = {"mapName": CAPS, "mapOperation": operation}
    if operation in ("SET", "ADD"):
        entries = {str(random.randrange(25)): f"{random.randint(500, 4000) / 100:.2f}" for _ in range(6)}
        record |= {"keyType": "long", "valueType": "decimal", "entries": entries}
    elif operation == "REMOVE":
        record["keys"] = [str(random.randrange(25)) for _ in range(4)]
    return record


def _limit(rule: Rule, random: Random) -> None:
    counts = rule["aggregatorFunctionType"].startswith("COUNT")
    rule["limit"] = random.choice(_COUNTS if counts else _AMOUNTS)
    rule.pop("baseline", None)


def _previous(rule: Rule, random: Random) -> None:
    rule["when"] = random.choice(_PREVIOUS)


def _long_window(rule: Rule, random: Random) -> None:
    if rule["aggregatorFunctionType"] in ("COUNT_DISTINCT", "COUNT_WITH_RESET"):
        rule |= {"aggregatorFunctionType": "SUM", "unique": [], "limit": 40}
    rule |= {"windowSeconds": random.choice((20, 90, 150)), "resolutionSeconds": random.choice((1, 5, 20))}


def _conditions(rule: Rule, random: Random) -> None:
    rule["conditions"] = random.sample(_AGGREGATES, 2)
    rule["require"] = random.choice(("all", "any", "none", 1))


def _calendar(rule: Rule, random: Random) -> None:
    """In a grouping of its own, because the rows of a grouping stay for its widest window."""
    rule.pop("baseline", None)
    del rule["windowSeconds"]
    rule |= {"groupingKeyNames": ["beneficiaryId", "paymentType"], "windowCalendar": random.choice(("DAY", "WEEK"))}
    rule["zone"] = random.choice(("UTC", "Europe/Berlin", "Asia/Kathmandu"))
    rule.setdefault("cooldownSeconds", 2)


def _signal(rule: Rule, random: Random) -> None:
    rule |= {"ruleId": SIGNAL_ID, "ruleState": "SIGNAL"}


def _names_signal(rule: Rule, random: Random) -> None:
    if rule["aggregatorFunctionType"] == "COUNT_WITH_RESET":
        rule["aggregatorFunctionType"] = "COUNT"
    named = random.choice(([SIGNAL_ID], [SIGNAL_ID], [SIGNAL_ID, 1]))
    conditions = [*({"ruleId": rule_id} for rule_id in named), random.choice(_AGGREGATES)]
    rule |= {"ruleId": NAMING_ID, "conditions": conditions, "require": random.choice(("all", "any", "none"))}


def _account(rule: Rule, random: Random) -> None:
    rule["groupingKeyNames"] = random.choice(([ACCOUNT], [ACCOUNT], [ACCOUNT, "paymentType"]))
    rule |= {"when": random.choice(_ROLES), "filter": random.choice(_ROLES)}
    if random.random() < 0.3:
        rule["conditions"] = [{**_AGGREGATES[4], "filter": "role = 'out'"}]


_KEEP_GROUPING: tuple[Callable[[Rule, Random], None], ...] = (_limit, _previous, _long_window, _conditions)
_OTHER_GROUPING: tuple[Callable[[Rule, Random], None], ...] = (
    _calendar, _signal, _names_signal, _names_signal, _account, _account,
)  # fmt: skip
