"""The words in the names of a record's members, and what they suggest about the member. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from fraud_rules.model.declared.field_source import Path

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

ID_WORDS: Final = {
    **dict.fromkeys(("transaction", "txn", "tx", "trx", "payment", "pmt"), 4),
    **dict.fromkeys(("id", "uuid", "guid", "identifier", "reference", "ref"), 3),
    **dict.fromkeys(("number", "no", "nr", "key", "uid"), 1),
    **dict.fromkeys(("payer", "payee", "account", "customer", "card", "merchant", "user", "client", "trace"), -4),
}
TIME_WORDS: Final = {
    **dict.fromkeys(("event", "occurred", "transaction", "payment", "txn", "executed"), 3),
    **dict.fromkeys(("time", "timestamp", "ts", "datetime", "created", "at"), 2),
    **dict.fromkeys(("date", "on", "when"), 1),
    **dict.fromkeys(("ingestion", "ingested", "received", "processed", "updated", "modified", "sent"), -3),
    **dict.fromkeys(("expiry", "expires", "valid", "birth", "opened", "since", "until", "settlement"), -6),
}
AMOUNT_WORDS: Final = dict.fromkeys(
    ("amount", "amt", "value", "sum", "total", "price", "betrag", "fee", "balance", "cents", "minor"), 1
)
MINOR_WORDS: Final = dict.fromkeys(("cents", "minor", "pence", "unscaled"), 1)
CURRENCY_WORDS: Final = dict.fromkeys(("currency", "ccy", "cur"), 1)
KEY_WORDS: Final = dict.fromkeys(
    (
        *("payer", "payee", "account", "customer", "card", "iban", "merchant", "sender", "receiver", "beneficiary"),
        *("debtor", "creditor", "client", "user", "device", "from", "to", "terminal", "ip", "email", "phone", "pan"),
        *("orig", "dest", "source", "destination", "src", "dst"),
    ),
    1,
)


def words_of(path: Path) -> list[str]:
    """The words of a path's last two names, in lower case. `paymentTS` has payment and ts."""
    return [word.lower() for part in path[-2:] for word in _WORD.findall(str(part))]


def score(path: Path, words: Mapping[str, int]) -> int:
    """The sum of the words' numbers. The last name counts twice."""
    last = words_of(path[-1:])
    return sum(words.get(word, 0) for word in (*words_of(path), *last))


def is_about(path: Path, words: Mapping[str, int]) -> bool:
    """Whether the last name of the path has one of these words; for `value`, also the name before it."""
    own: Sequence[str] = words_of(path[-1:])
    return any(word in words for word in own) or (
        own == ["value"] and any(word in words for word in words_of(path[-2:-1]))
    )
