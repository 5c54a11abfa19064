"""Generates plausible traffic with planted frauds, for the demo and for tests. Pure: the seed and time are arguments.

Ordinary payers follow a flattened Zipf distribution (a few pay about seven times as often as the average). They mostly
pay their own regular beneficiaries, and the amounts are log-normal around 35. With at least twenty payers per
transaction per second, this traffic stays far below the limits of fraud rules. Payers pay near their homes. A planted
fraud has its own payers and beneficiaries, so that no cool-down or mark of another fraud, or of another run, hides it.
Its records arrive once, in time and in order. A schema without places skips them.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, count
from operator import attrgetter
from typing import Final

from fraud_demo.fraud_patterns import FRAUDS, LIMITED, LISTED, MAX_FRAUD_MS, SEED_FRAUDS, Fraud
from fraud_demo.own_rules import LIMITED_PAYERS, LISTED_MULES
from fraud_demo.places import place_away, place_near_home
from fraud_rules.errors import ConfigError

FIRST_FRAUD_S: Final = 1.0
"""When the first fraud is planted: soon, because users wait for its alert."""

MAX_SEND_AGAIN: Final = 1_000
"""A duplicate repeats one of this many earlier records."""

_FIRST_PAYER: Final = 1_000_000
_FIRST_BENEFICIARY: Final = 5_000_000
_FIRST_FRAUDSTER: Final = 9_000_000_000
_REGULARS: Final = 12
_MAX_DELAY_MS: Final = 60_000  # of a record out of order
_LOWEST_CENTS: Final = 5_00
_HIGHEST_CENTS: Final = 950_00


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """Parameters of the generator. Fractions (0 to 1) apply to the ordinary records. Planted frauds add to the rate.

    `patterns` are the patterns of the frauds (names of `FRAUDS`), which the traffic plants in turn.
    """

    rate_per_s: float = 100.0
    seconds: float | None = None
    payers: int = 20_000
    seed: int = 1
    out_of_order: float = 0.0
    late: float = 0.0
    max_out_of_orderness_ms: int = 300_000
    duplicates: float = 0.0
    malformed: float = 0.0
    first_fraud_s: float = FIRST_FRAUD_S
    fraud_every_s: float = 5.0
    patterns: tuple[str, ...] = tuple(SEED_FRAUDS)

    def __post_init__(self) -> None:
        faults = [
            message
            for wrong, message in (
                (not 0 < self.rate_per_s <= 1_000_000, "the rate must be above 0, and at most 1,000,000 per second"),
                (self.seconds is not None and self.seconds <= 0, "the seconds must be above 0"),
                (not 1 <= self.payers <= 10_000_000, "there must be 1 to 10,000,000 payers"),
                (
                    min(self._fractions) < 0 or sum(self._fractions) > 1,
                    "each fraction must be 0 to 1, and their sum at most 1",
                ),
                (self.max_out_of_orderness_ms < 1, "delays must be at least 1 ms"),
                (self.fraud_every_s * 1_000 < MAX_FRAUD_MS, f"frauds must be {MAX_FRAUD_MS} ms apart"),
                (self.first_fraud_s < 0, "the first fraud cannot come before the start"),
            )
            if wrong
        ]
        if faults:
            raise ConfigError("traffic: " + "; ".join(faults))

    @property
    def _fractions(self) -> tuple[float, ...]:
        return (self.out_of_order, self.late, self.duplicates, self.malformed)


@dataclass(frozen=True, slots=True)
class TrafficRecord:
    """One Kafka record: the time to send it, its value, and the label of its planted fraud, if any.

    `transaction_id` is None for a malformed record. `ends_fraud` marks the last record of a fraud. A planted fraud is
    detected if one of the records with its label triggers an alert.
    """

    due_ms: int
    value: bytes
    transaction_id: int | None
    planted: str | None = None
    ends_fraud: bool = False


def generate(settings: TrafficSettings, start_ms: int) -> Iterator[TrafficRecord]:
    """Generate traffic from `start_ms` on, by `due_ms`; endless unless the settings limit the seconds.

    Transaction ids depend on `start_ms`, so that two runs do not share ids.
    """
    ids = count(start_ms * 1_000)
    ordinary, planted = _ordinary(settings, start_ms, ids), _planted(settings, start_ms, ids)
    return heapq.merge(ordinary, planted, key=attrgetter("due_ms"))


def _ordinary(settings: TrafficSettings, start_ms: int, ids: Iterator[int]) -> Iterator[TrafficRecord]:
    rng = random.Random(settings.seed)  # noqa: S311 - plausible, not secret
    draw = _payer_draw(settings.payers, rng)
    sent: deque[TrafficRecord] = deque(maxlen=MAX_SEND_AGAIN)
    total = None if settings.seconds is None else int(settings.rate_per_s * settings.seconds)
    malformed = settings.malformed
    duplicate = malformed + settings.duplicates
    late = duplicate + settings.late
    delayed = late + settings.out_of_order
    for i in count() if total is None else range(total):
        due_ms = start_ms + int(i * 1_000 / settings.rate_per_s)
        lot = rng.random()
        if malformed <= lot < duplicate and sent:
            again = rng.choice(sent)
            yield TrafficRecord(due_ms, again.value, again.transaction_id)
            continue
        delay_ms = 0
        if duplicate <= lot < late:
            delay_ms = settings.max_out_of_orderness_ms + rng.randint(1_000, settings.max_out_of_orderness_ms + 1_000)
        elif late <= lot < delayed:
            delay_ms = rng.randint(1, _MAX_DELAY_MS)
        transaction_id = next(ids)
        value = _payment(transaction_id, due_ms - delay_ms, *draw())
        if lot < malformed:
            yield TrafficRecord(due_ms, rng.choice(MALFORMED)(value, due_ms), None)
            continue
        record = TrafficRecord(due_ms, value, transaction_id)
        sent.append(record)
        yield record


def _payer_draw(payers: int, rng: random.Random) -> Callable[[], tuple[int, int, int, str]]:
    """Return a function that draws payer, beneficiary, cents and type of an ordinary payment."""
    flat = payers / 20  # Zipf-Mandelbrot: the busiest pays about seven times as often as the average
    cumulated = list(accumulate(1 / (rank + 1 + flat) for rank in range(payers)))
    whole, highest = cumulated[-1], payers - 1

    def draw() -> tuple[int, int, int, str]:
        payer = min(bisect_left(cumulated, rng.random() * whole), highest)
        if rng.random() < 0.8:
            beneficiary = (payer * 7_919 + rng.randrange(_REGULARS) * 104_729) % payers
        else:
            beneficiary = rng.randrange(payers)
        cents = min(max(int(rng.lognormvariate(8.16, 0.9)), _LOWEST_CENTS), _HIGHEST_CENTS)
        return _FIRST_PAYER + payer, _FIRST_BENEFICIARY + beneficiary, cents, "CRD" if rng.random() < 0.7 else "CSH"

    return draw


def _payment(
    transaction_id: int, time_ms: int, payer: int, beneficiary: int, cents: int, kind: str, away: bool = False
) -> bytes:
    latitude, longitude = (place_away if away else place_near_home)(payer, transaction_id)
    return (
        b'{"transactionId":%d,"eventTime":%d,"payeeId":%d,"beneficiaryId":%d,"paymentAmount":%d.%02d,"paymentType":"%b",'
        b'"latitude":%b,"longitude":%b}'
        % (
            transaction_id,
            time_ms,
            payer,
            beneficiary,
            *divmod(cents, 100),
            kind.encode(),
            _degrees(latitude),
            _degrees(longitude),
        )
    )


def _degrees(millionths: int) -> bytes:
    return b"%b%d.%06d" % (b"-" if millionths < 0 else b"", *divmod(abs(millionths), 1_000_000))


def _planted(settings: TrafficSettings, start_ms: int, ids: Iterator[int]) -> Iterator[TrafficRecord]:
    """Generate the fraud patterns in turn, as long as each fraud ends within the run."""
    rng = random.Random(settings.seed + 1)  # noqa: S311 - plausible, not secret
    actor = _FIRST_FRAUDSTER + start_ms // 1_000 % 1_000_000 * 1_000
    names = settings.patterns
    for number in count():
        begin_s = settings.first_fraud_s + number * settings.fraud_every_s
        if settings.seconds is not None and begin_s + MAX_FRAUD_MS / 1_000 > settings.seconds:
            return
        name = names[number % len(names)]
        payments = FRAUDS[name](rng)
        yield from _records_of(payments, f"{name}-{number + 1}", start_ms + int(begin_s * 1_000), actor, ids)
        actor += 1 + max(max(pay.payer, pay.beneficiary) for pay in payments)


def planted_fraud(pattern: str, label: str, start_ms: int, seed: int) -> Iterator[TrafficRecord]:
    """Generate one fraud of a pattern (see `FRAUDS`) from `start_ms` on. Each seed has its own actors."""
    ids = count(start_ms * 1_000 + 500)  # ordinary traffic of the same millisecond uses the ids before these
    actor = _FIRST_FRAUDSTER + 1_000_000_000 + seed % 1_000_000 * 1_000
    payments = FRAUDS[pattern](random.Random(seed))  # noqa: S311 - plausible, not secret
    return _records_of(payments, label, start_ms, actor, ids)


def _records_of(payments: Fraud, label: str, start_ms: int, actor: int, ids: Iterator[int]) -> Iterator[TrafficRecord]:
    """Generate the records of one fraud. `actor` is the first of its accounts."""
    for pay in payments:
        due_ms, transaction_id = start_ms + pay.after_ms, next(ids)
        listed = LISTED_MULES[transaction_id % len(LISTED_MULES)]
        beneficiary = listed if pay.beneficiary == LISTED else actor + pay.beneficiary
        limited = LIMITED_PAYERS[transaction_id % len(LIMITED_PAYERS)]
        payer = limited if pay.payer == LIMITED else actor + pay.payer
        value = _payment(transaction_id, due_ms, payer, beneficiary, pay.cents, pay.kind, pay.away)
        yield TrafficRecord(due_ms, value, transaction_id, label, pay is payments[-1])


def _changed(old: bytes, new: bytes) -> Callable[[bytes, int], bytes]:
    return lambda value, due_ms: value.replace(old, new, 1)


MALFORMED: Final[tuple[Callable[[bytes, int], bytes], ...]] = (
    lambda value, due_ms: value[: len(value) * 2 // 3],
    lambda value, due_ms: value + b"garbage",
    lambda value, due_ms: b"",
    lambda value, due_ms: b"\x00\xff\xfe" + value,
    lambda value, due_ms: b"transactionId;eventTime;payeeId",
    lambda value, due_ms: b'{"eventTime":%d,' % (due_ms + 86_400_000) + value[1:].replace(b'"eventTime"', b'"sent"'),
    lambda value, due_ms: value[:-1] + b',"payeeId":1}',
    lambda value, due_ms: value[:-1] + b',"note":' + b"[" * 500 + b"]" * 500 + b"}",
    _changed(b'"beneficiaryId"', b'"beneficiary"'),
    _changed(b'"paymentAmount":', b'"paymentAmount":NaN,"was":'),
    _changed(b'"paymentAmount":', b'"paymentAmount":6.005,"was":'),
    _changed(b'"paymentAmount":', b'"paymentAmount":' + b"9" * 5_000),
    _changed(b'"paymentType":"', b'"paymentType":"\\ud800'),
    _changed(b'"payeeId":', b'"payeeId":"x","was":'),
    _changed(b'"transactionId":', b'"transactionId":null,"was":'),
)
"""Functions that damage a valid record with a due time, so that it goes to quarantine."""
