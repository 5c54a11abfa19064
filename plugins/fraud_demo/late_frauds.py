"""Generates frauds of a past day that arrive too late for live evaluation, for the demo and for tests.

The live alerts do not contain these frauds. The re-evaluation of their day finds them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from fraud_demo.fraud_patterns import SEED_FRAUDS
from fraud_rules.model.day import Day

FIRST_ID = 8_000_000_000_000
FIRST_ACTOR = 7_000_000
_NOON_MS = 12 * 3_600_000
_APART_MS = 1_800_000
_IDS_A_SEED = 10**9
_ACTORS_A_SEED = 10_000


def late_frauds(day: Day, seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """Generate one fraud of each pattern of `SEED_FRAUDS`, half an hour apart from noon: (pattern, JSON).

    Each seed has other payments by other actors.
    """
    rng = random.Random(f"{day.number}/{seed}")  # noqa: S311 - the same frauds for the same seed
    number, actor = _IDS_A_SEED * seed + 1_000 * (day.number % 1_000_000), FIRST_ACTOR + _ACTORS_A_SEED * seed
    for position, (label, make) in enumerate(SEED_FRAUDS.items()):
        payments = make(rng)
        for payment in payments:
            number += 1
            time_ms = day.start_ms + _NOON_MS + position * _APART_MS + payment.after_ms
            yield (
                label,
                _encoded(
                    FIRST_ID + number,
                    time_ms,
                    actor + payment.payer,
                    actor + payment.beneficiary,
                    payment.cents,
                    payment.kind,
                ),
            )
        actor += 1 + max(max(payment.payer, payment.beneficiary) for payment in payments)


def _encoded(number: int, time_ms: int, payer: int, beneficiary: int, cents: int, kind: str) -> bytes:
    return (
        f'{{"transactionId":{number},"eventTime":{time_ms},"payeeId":{payer},"beneficiaryId":{beneficiary},'
        f'"paymentType":{json.dumps(kind)},"paymentAmount":{cents // 100}.{cents % 100:02d}}}'
    ).encode()
