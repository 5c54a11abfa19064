"""Fraud patterns for generated traffic. Each fraud is a few payments among actors without ordinary traffic."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

MAX_FRAUD_MS: Final = 5_000
"""The longest time from the first to the last payment of a fraud."""

LISTED: Final = -1
"""As a beneficiary: an account on the demo's list of mules."""

LIMITED: Final = -2
"""As a payer: an account with a limit in the demo's map."""


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment of a fraud: the delay after the fraud's start, two of the fraud's actors (0, 1, 2 ...), the amount
    and the payment type. The beneficiary can also be `LISTED`, the payer `LIMITED`. `away` means far from the payer's
    home."""

    after_ms: int
    payer: int
    beneficiary: int
    cents: int
    kind: str
    away: bool = False


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


def tested_and_used_card(rng: random.Random) -> Fraud:
    """One payer tries a card with four payments below 2.00, and then pays 600 to 900 with it."""
    tests = tuple(Payment(i * 900, 0, 1 + i, rng.randint(10, 1_99), "CRD") for i in range(4))
    return (*tests, Payment(4_500, 0, 5, rng.randint(600_00, 900_00), "CRD"))


def unusual_amount(rng: random.Random) -> Fraud:
    """One payer makes a dozen payments of 20 to 40, and then one of 4,000 to 4,900."""
    usual = tuple(Payment(i * 300, 0, 1 + i % 3, rng.randint(20_00, 40_00), "CRD") for i in range(12))
    return (*usual, Payment(4_800, 0, 4, rng.randint(4_000_00, 4_900_00), "CRD"))


def listed_mule(rng: random.Random) -> Fraud:
    """One payer makes an ordinary payment to an account on the demo's list of mules."""
    return (Payment(0, 0, LISTED, rng.randint(50_00, 400_00), "CRD"),)


def above_own_limit(rng: random.Random) -> Fraud:
    """One payer, whose limit is 100, makes an ordinary payment above it."""
    return (Payment(0, LIMITED, 0, rng.randint(110_00, 400_00), "CRD"),)


def two_signals(rng: random.Random) -> Fraud:
    """One payer pays three beneficiaries ordinary amounts, and a fourth 810 to 990 in cash."""
    spread = tuple(Payment(i * 900, 0, 1 + i, rng.randint(20_00, 90_00), "CRD") for i in range(3))
    return (*spread, Payment(3_000, 0, 4, rng.randint(810_00, 990_00), "CSH"))


def impossible_travel(rng: random.Random) -> Fraud:
    """One payer makes an ordinary payment near home, and four seconds later another one in a distant city."""
    return tuple(Payment(i * 4_000, 0, 1 + i, rng.randint(20_00, 90_00), "CRD", away=i == 1) for i in range(2))


SEED_FRAUDS: Final[Mapping[str, Callable[[random.Random], Fraud]]] = {
    "emptied-account": emptied_account,
    "huge-payment": huge_payment,
    "mule-fan-out": mule_fan_out,
    "scripted-payer": scripted_payer,
    "cash-collector": cash_collector,
    "structured-payments": structured_payments,
    "tested-cards": tested_cards,
    "tested-and-used-card": tested_and_used_card,
    "unusual-amount": unusual_amount,
}
"""The fraud patterns that the seed rules find, in the order in which the traffic uses them."""

FRAUDS: Final[Mapping[str, Callable[[random.Random], Fraud]]] = {
    **SEED_FRAUDS,
    "listed-mule": listed_mule,
    "above-own-limit": above_own_limit,
    "two-signals": two_signals,
    "impossible-travel": impossible_travel,
}
"""All fraud patterns. The last four need the demo's own rules (`own_rules`)."""
