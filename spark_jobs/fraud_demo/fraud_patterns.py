"""Fraud patterns for generated traffic. Each fraud is a few payments among actors without ordinary traffic."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

MAX_FRAUD_MS: Final = 5_000
"""The longest time from the first to the last payment of a fraud."""


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment of a fraud: the delay after the fraud's start, two of the fraud's actors (0, 1, 2 ...), the amount
    and the payment type."""

    after_ms: int
    payer: int
    beneficiary: int
    cents: int
    kind: str


Fraud: TypeAlias = tuple[Payment, ...]


def emptied_account(rng: random.Random) -> Fraud:
    """One payer moves more than 20,000 to one beneficiary in several payments of ordinary size."""
    return tuple(Payment(i * 1_200, 0, 1, rng.randint(6_000_00, 8_900_00), "CRD") for i in range(4))


def scripted_payer(rng: random.Random) -> Fraud:
    """One payer makes 110 small payments within five seconds."""
    return tuple(Payment(i * 45, 0, 1 + rng.randrange(30), rng.randint(5_00, 30_00), "CRD") for i in range(110))


def mule_fan_out(rng: random.Random) -> Fraud:
    """One payer spreads amounts of 1,000 to 1,900 over seven beneficiaries."""
    return tuple(Payment(i * 600, 0, 1 + i, rng.randint(1_000_00, 1_900_00), "CRD") for i in range(7))


def huge_payment(rng: random.Random) -> Fraud:
    """One payment is far above all others."""
    return (Payment(0, 0, 1, rng.randint(60_000_00, 95_000_00), "CRD"),)


def cash_collector(rng: random.Random) -> Fraud:
    """Several payers pay one beneficiary in cash, and the amounts are far above usual cash payments."""
    return tuple(Payment(i * 1_500, 1 + i, 0, rng.randint(2_600_00, 4_000_00), "CSH") for i in range(3))


def structured_payments(rng: random.Random) -> Fraud:
    """One beneficiary receives payments just below the reporting threshold of 10,000 from several payers."""
    return tuple(Payment(i * 1_500, 1 + i, 0, rng.randint(9_000_00, 9_999_99), "CRD") for i in range(3))


def tested_cards(rng: random.Random) -> Fraud:
    """One payer tries a dozen card payments below 2.00."""
    return tuple(Payment(i * 350, 0, 1 + i, rng.randint(10, 1_99), "CRD") for i in range(12))


FRAUDS: Final[Mapping[str, Callable[[random.Random], Fraud]]] = {
    "emptied-account": emptied_account,
    "huge-payment": huge_payment,
    "mule-fan-out": mule_fan_out,
    "scripted-payer": scripted_payer,
    "cash-collector": cash_collector,
    "structured-payments": structured_payments,
    "tested-cards": tested_cards,
}
"""All fraud patterns, in the order in which the traffic uses them."""
