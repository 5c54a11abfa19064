"""The demo's own list and map, and the rules that need them, need places or show signals.

They are not in `config`, because an installation lists its own accounts and declares its own fields.
"""

from __future__ import annotations

from typing import Any, Final

from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.codec.rules.collections.records import collection_key
from fraud_rules.model.value_list import CollectionKind

LISTED_MULES: Final = (8_000_000_001, 8_000_000_002, 8_000_000_003)
"""Accounts outside all other ranges of the generated traffic."""

LIMITED_PAYERS: Final = (8_000_000_101, 8_000_000_102, 8_000_000_103)
"""Such accounts, whose limit is in the demo's map."""

MULE_RULE_ID: Final = 1_000
LIMIT_RULE_ID: Final = 1_001
SIGNALS_RULE_ID: Final = 1_004
TRAVEL_RULE_ID: Final = 1_005

_SPREAD_ID: Final = 1_002
_CASH_ID: Final = 1_003
_LIST: Final = "demo-mules"
_MAP: Final = "demo-limits"
_SOURCE: Final = "demo"
_ONE_PAYMENT: Final = {
    "aggregatorFunctionType": "COUNT",
    "limitOperatorType": ">=",
    "limit": 1,
    "windowSeconds": 1,
}


def own_records() -> list[tuple[bytes, bytes]]:
    """The records (key, value) of the list, the map and the rules, for the rule log."""
    mules = {"listName": _LIST, "listOperation": "SET", "listType": "long", "values": list(LISTED_MULES)}
    limits = {
        "mapName": _MAP,
        "mapOperation": "SET",
        "keyType": "long",
        "valueType": "decimal",
        "entries": {str(payer): "100.00" for payer in LIMITED_PAYERS},
    }
    return [
        (collection_key(CollectionKind.LIST, _LIST), encode_document({**mules, "source": _SOURCE})),
        (collection_key(CollectionKind.MAP, _MAP), encode_document({**limits, "source": _SOURCE})),
        *((str(rule["ruleId"]).encode(), encode_document({**rule, "source": _SOURCE})) for rule in _RULES),
    ]


_RULES: Final[tuple[dict[str, Any], ...]] = (
    {
        "ruleId": MULE_RULE_ID,
        "name": "Payment to a listed mule",
        "description": "The beneficiary is on the demo's list of mules.",
        "severity": "critical",
        "owner": "money-laundering",
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["beneficiaryId"],
        **_ONE_PAYMENT,
        "when": f"beneficiaryId in list('{_LIST}')",
    },
    {
        "ruleId": LIMIT_RULE_ID,
        "name": "Above the payer's own limit",
        "description": "A payer spends more in ten minutes than the demo's map allows for this payer.",
        "severity": "high",
        "owner": "payments",
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payeeId"],
        "aggregateFieldName": "paymentAmount",
        "aggregatorFunctionType": "SUM",
        "limitOperatorType": ">",
        "limit": f"map('{_MAP}', payeeId)",
        "windowMinutes": 10,
    },
    {
        "ruleId": _SPREAD_ID,
        "name": "Signal: many beneficiaries",
        "description": "A payer pays four beneficiaries within a minute.",
        "owner": "payments",
        "ruleState": "SIGNAL",
        "groupingKeyNames": ["payeeId"],
        "unique": ["beneficiaryId"],
        "aggregatorFunctionType": "COUNT_DISTINCT",
        "limitOperatorType": ">=",
        "limit": 4,
        "windowMinutes": 1,
    },
    {
        "ruleId": _CASH_ID,
        "name": "Signal: much cash",
        "description": "A beneficiary receives more than 800 in cash.",
        "owner": "payments",
        "ruleState": "SIGNAL",
        "groupingKeyNames": ["beneficiaryId"],
        **_ONE_PAYMENT,
        "when": "paymentType = 'CSH' and paymentAmount > 800",
    },
    {
        "ruleId": SIGNALS_RULE_ID,
        "name": "Much cash to one of many beneficiaries",
        "description": "Two signals hold for one payment: many beneficiaries, and much cash.",
        "severity": "high",
        "owner": "payments",
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payeeId"],
        "conditions": [{"ruleId": _SPREAD_ID}, {"ruleId": _CASH_ID}],
    },
    {
        "ruleId": TRAVEL_RULE_ID,
        "name": "Impossible travel",
        "description": "Two payments of a payer are too far apart for the time between them.",
        "severity": "high",
        "owner": "payments",
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payeeId"],
        "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">=",
        "limit": 2,
        "windowMinutes": 60,
        "filter": "latitude is not null and longitude is not null",
        "when": "distance_m(latitude, longitude, previous(latitude), previous(longitude))"
        " > 250 * (eventTime - previous(eventTime)) + 50000",
    },
)
