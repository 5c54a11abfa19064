"""The demo's own list of mules, and the rule that finds payments to them.

They are not in `config`, because the list of an installation has the accounts of that installation.
"""

from __future__ import annotations

from typing import Final

from fraud_rules.codec.rules.codec import encode_document
from fraud_rules.codec.rules.collections.records import collection_key
from fraud_rules.model.value_list import CollectionKind

__all__ = ["LISTED_MULES", "RULE_ID", "list_and_rule"]

LISTED_MULES: Final = (8_000_000_001, 8_000_000_002, 8_000_000_003)
"""Accounts outside all other ranges of the generated traffic."""

RULE_ID: Final = 1_000

_LIST: Final = "demo-mules"
_SOURCE: Final = "demo"


def list_and_rule() -> list[tuple[bytes, bytes]]:
    """The records (key, value) of the list and of its rule, for the rule log."""
    mules = {
        "listName": _LIST,
        "listOperation": "SET",
        "listType": "long",
        "values": list(LISTED_MULES),
        "source": _SOURCE,
    }
    rule = {
        "ruleId": RULE_ID,
        "name": "Payment to a listed mule",
        "description": "The beneficiary is on the demo's list of mules.",
        "severity": "critical",
        "owner": "money-laundering",
        "source": _SOURCE,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["beneficiaryId"],
        "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">=",
        "limit": 1,
        "windowSeconds": 1,
        "when": f"beneficiaryId in list('{_LIST}')",
    }
    return [
        (collection_key(CollectionKind.LIST, _LIST), encode_document(mules)),
        (str(RULE_ID).encode(), encode_document(rule)),
    ]
