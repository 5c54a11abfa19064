"""The loads: transactions as JSON lines, the same for the same seed. Pure.

A transaction is `{"transactionId":long,"eventTime":epoch ms,"payeeId":long,"beneficiaryId":long,
"paymentAmount":decimal with 2 digits,"paymentType":"CSH"|"CRD"}`. Two in every `marker_every` transactions are markers,
one per partition. A marker has a unique key and a unique large amount, so every SUM and MAX rule of the rule sets fires
on it. These rules fire on no other transaction.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

PARTITIONS = 2
MARKER_KEY = 9_000_000
MARKER_AMOUNT = "999999999.00"

Made = tuple[int, int, bytes]
"""A transaction of a load: its position from 0, its eventTime, and its JSON."""


@dataclass(frozen=True, slots=True)
class Load:
    """A stream of `count` transactions over `keys` keys, `spacing_ms` of event time apart from `start_ms` on.

    `zipf` is the exponent of the keys' weights 1 / rank ** zipf; None means uniform.
    """

    name: str
    count: int
    seed: int
    keys: int = 10_000
    zipf: float | None = None
    start_ms: int = 1_700_000_000_000
    spacing_ms: int = 10
    marker_every: int = 5_000
    payee_base: int = 1_000
    beneficiary_base: int = 100_000
    id_base: int = 0

    @property
    def end_ms(self) -> int:
        """The event time after the last transaction."""
        return self.start_ms + self.count * self.spacing_ms

    @property
    def markers(self) -> int:
        """The number of marker transactions."""
        return 2 * (self.count // self.marker_every) if self.marker_every else 0

    def is_marker(self, i: int) -> bool:
        """Whether transaction `i` (from 0) is a marker."""
        return bool(self.marker_every) and i % self.marker_every >= self.marker_every - 2

    def first(self, count: int) -> Load:
        """The first transactions of the load."""
        return replace(self, count=min(count, self.count))

    def after(self, other: Load, gap_ms: int) -> Load:
        """The same load with other ids. Its event times start `gap_ms` after the end of another load."""
        return replace(self, start_ms=other.end_ms + gap_ms, id_base=other.id_base + other.count)


UNIFORM_500K = Load("uniform_500k", 500_000, seed=42)
ZIPF_500K = Load("zipf_500k", 500_000, seed=42, zipf=1.2)
WARM_100K = Load(
    "warm_100k",
    100_000,
    seed=7,
    start_ms=1_699_990_000_000,
    payee_base=500_000,
    beneficiary_base=600_000,
    id_base=5_000_000_000,
)
RATE_UNIFORM = Load("rate_uniform", 0, seed=43, marker_every=0)


def transactions(load: Load, clock: Callable[[], int] | None = None) -> Iterator[Made]:
    """Yield each transaction. With a clock, the eventTime is the clock's time."""
    half = load.keys // 2
    drawn = _keys_and_cents(load)
    for i in range(load.count):
        key, cents = next(drawn)
        identity = load.id_base + i + 1
        time_ms = clock() if clock else load.start_ms + i * load.spacing_ms
        payee, beneficiary = load.payee_base + key // 5, load.beneficiary_base + 7 * key % half
        amount = f"{cents // 100}.{cents % 100:02d}"
        if load.is_marker(i):
            payee = beneficiary = MARKER_KEY + i
            amount = MARKER_AMOUNT
        kind = "CSH" if identity & 1 else "CRD"
        text = (
            f'{{"transactionId":{identity},"eventTime":{time_ms},"payeeId":{payee},"beneficiaryId":{beneficiary},'
            f'"paymentAmount":{amount},"paymentType":"{kind}"}}'
        )
        yield i, time_ms, text.encode()


def _keys_and_cents(load: Load) -> Iterator[tuple[int, int]]:
    rng = random.Random(load.seed)  # noqa: S311 - a seed makes the load repeatable
    if load.zipf is None:
        while True:
            yield rng.randrange(load.keys), 500 + rng.randrange(1_500)
    weights = list(accumulate(1.0 / rank**load.zipf for rank in range(1, load.keys + 1)))
    while True:
        yield min(bisect_left(weights, rng.random() * weights[-1]), load.keys - 1), 500 + rng.randrange(1_500)
