"""20,000 mutated records: no errors, no lost records, and accepted values equal those of a slow independent reader.

`FUZZ_RECORDS` and `FUZZ_SEED` in the environment make it longer or different.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import cycle

from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.model.limits import RecordLimits
from tests.support.records.corpus import ACCEPTED, APPEND_MS, FUTURE_TOLERANCE_MS, REJECTED
from tests.support.records.reference import reference
from tests.support.rules import SCHEMA

RECORDS = int(os.environ.get("FUZZ_RECORDS", "20000"))
SEED = int(os.environ.get("FUZZ_SEED", "7"))
BATCHES = (1_000, 60)
"""The sizes of the batches, in turn: the reader converts the numbers of a few records in another way."""

SEEDS = [
    record
    for record in (*(case.record for case in ACCEPTED), *(case.record for case in REJECTED))
    if len(record) < 1_000
]
PIECES = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b" ", b"\t", b"\n", b"\0", b"\x1f", b"\x7f", b"\xff", b"\xc3"),
    *(
        b"null",
        b"true",
        b"NaN",
        b"0",
        b"-",
        b".",
        b"e9",
        b"E-2",
        b"1e999999999",
        b"6.005",
        b"00",
        b"9" * 20,
        b"9" * 300,
    ),
    *(b"\\u0000", b"\\ud83d", b"\\ude00", b"\\u0061", b"\xed\xa0\x80", b'"a:b"', b'"6.00"', b'"2023-11-14T22:13:20Z"'),
    *(b',"payeeId":7', b',"payerId":7', b',"note":{"a":1,"a":2}', b',"note":[]', b'"eventTime":', b'""'),
    *(b"[" * 40, b"]" * 40, b'{"a":' * 40),
]


def mutated(rng: random.Random) -> bytes:
    """A record near one of the corpus: pieces put in, taken out or doubled, bytes changed, two records spliced."""
    record = bytearray(rng.choice(SEEDS))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        at, to = sorted((rng.randint(0, len(record)), rng.randint(0, len(record))))
        match rng.randrange(6):
            case 0:
                record[at:at] = rng.choice(PIECES)
            case 1:
                record[at : at + rng.randint(1, 4)] = b""
            case 2:
                record[to:to] = record[at:to]
            case 3:
                record[at : at + 1] = bytes((rng.randrange(256),))
            case 4:
                record[at : at + 1] = rng.choice(PIECES)
            case _:
                other = rng.choice(SEEDS)
                record[at:] = other[rng.randint(0, len(other)) :]
    return bytes(record)


def swapped(rng: random.Random) -> bytes:
    """A well-formed object whose values, and sometimes names, are drawn from other records: mostly nearly right."""
    names = ["transactionId", "eventTime", "payeeId", "beneficiaryId", "paymentType", "paymentAmount"]
    names += rng.choices(("ingestionTimestamp", "payerId", "note", rng.choice(names)), k=rng.choice((0, 0, 1, 2)))
    usual = {"eventTime": b"1700000000000", "paymentType": b'"CSH"'}
    values = [usual.get(name, b"%d" % rng.randrange(-10, 1000)) for name in names]
    for _ in range(rng.choice((0, 1, 1, 2))):
        values[rng.randrange(len(values))] = rng.choice(VALUES)
    return (
        b"{" + b",".join(b'"%b":%b' % (name.encode(), value) for name, value in zip(names, values, strict=True)) + b"}"
    )


VALUES = [
    *(
        b"1.5",
        b"12.340",
        b"1e3",
        b"1E+2",
        b"-0.0",
        b"6.005",
        b"1e-2",
        b"0e99999999999",
        b"9999999999999999.99",
        b"1e16",
    ),
    *(
        b'"5.10"',
        b'"1e1"',
        b'"x"',
        b'""',
        b'"\\u0031"',
        b'"\xc3\xa9"',
        b'"a:b,c"',
        b'"\\ud800"',
        b'"a\\u0000"',
        b'"NaN"',
    ),
    *(b"null", b"true", b"[]", b"{}", b'{"a":1}', b'{"a":1,"a":1}', b"9223372036854775807", b"9223372036854775808"),
    *(
        b'"2023-11-14T22:13:20.1239Z"',
        b'"2023-11-14 22:13"',
        b'"1970-01-01T00:00:00-12:30"',
        b'"0001-01-01T00:00:00+1"',
    ),
    *(
        b'"1700000000000"',
        b"1700000000000.0",
        b"-62135596800001",
        b'"2023-02-29 00:00:00"',
        b'"2023-11-14T22:13:20+1860"',
    ),
]


def line(rng: random.Random) -> bytes:
    """A CSV line with cells drawn from other records."""
    amount = b"%d.%02d" % (rng.randrange(100), rng.randrange(100))
    cells = [b"%d" % rng.randrange(100), b"1700000000000", b"2", b"3", b"CSH", amount]
    for _ in range(rng.choice((0, 1, 1, 2))):
        cells[rng.randrange(len(cells))] = rng.choice(VALUES).strip(b'"')
    cells += rng.choice(([], [], [b""], [b"1700000000000"], [rng.choice(VALUES)], [b"", b""]))
    return rng.choice((b"", b"", b" ")) + b",".join(cells) + rng.choice((b"", b"", b"\n", b"\r\n", b" "))


def noise(rng: random.Random) -> bytes:
    """Any bytes, half of them after a `{`."""
    return rng.choice((b"", b"{")) + rng.randbytes(rng.randrange(60))


def batches(rng: random.Random) -> Iterator[list[bytes | None]]:
    makers = (mutated, mutated, swapped, swapped, swapped, line, noise)
    left = RECORDS
    for size in cycle(BATCHES):
        n = min(size, left)
        if not n:
            return
        left -= n
        yield [None if rng.random() < 0.01 else rng.choice(makers)(rng) for _ in range(n)]


FLOOR_MS = RecordLimits().event_time_floor_ms


def test_fuzz() -> None:
    rng = random.Random(SEED)
    accepted = 0
    for values in batches(rng):
        n = len(values)
        decoded = decode_transactions(
            RawTransactions.of(values, [0] * n, range(n), [APPEND_MS] * n), SCHEMA, RecordLimits(FUTURE_TOLERANCE_MS)
        )
        offsets = decoded.batch.offset.tolist()
        assert n == len(offsets) + len(decoded.rejects) + decoded.ignored
        assert {reject.reason for reject in decoded.rejects}.isdisjoint({"internal_error"})
        got = {offset: decoded.batch.row(i, SCHEMA) for i, offset in enumerate(offsets)}
        for i, value in enumerate(values):
            expected = None if value is None else reference(value, SCHEMA)
            if expected is not None and not FLOOR_MS <= int(expected["eventTime"]) <= APPEND_MS + FUTURE_TOLERANCE_MS:
                expected = None
            assert got.get(i) == expected, (SEED, value)
        accepted += len(offsets)
    assert RECORDS // 10 < accepted < RECORDS
