"""Every record of the corpus, alone and in one batch, through both readers of transactions."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from fraud_rules.codec.transactions.codec import NO_APPEND_TIME, UNTIMED, DecodeResult, decode_transactions
from fraud_rules.codec.transactions.columns import quick_reader
from fraud_rules.codec.transactions.field_value import MAX_DETAIL_LENGTH
from fraud_rules.codec.transactions.raw import RawTransactions
from fraud_rules.codec.transactions.record import read_record
from fraud_rules.errors import RecordRejected
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import TransactionSchema
from tests.support.places import ROOT
from tests.support.records.corpus import (
    ACCEPTED,
    APPEND_MS,
    FUTURE_TOLERANCE_MS,
    REJECTED,
    AcceptedCase,
    RejectedCase,
    raw_records,
)
from tests.support.rules import SCHEMA

MALFORMED = [case for case in REJECTED if not case.reason.endswith("_event_time")]
STRING_IDS = TransactionSchema.parse(
    {
        "fields": [
            {"name": "transactionId", "type": "string"},
            {"name": "eventTime", "type": "timestamp"},
            {
                "name": "fee",
                "type": "decimal",
                "precision": 4,
                "scale": 4,
                "nullable": True,
                "aliases": ["cost", "costs"],
            },
            {"name": "units", "type": "decimal", "precision": 3, "nullable": True},
            {"name": "branch", "type": "long", "nullable": True},
            {"name": "note", "type": "string", "nullable": True},
        ]
    }
)


def decode(*values: bytes | None, schema: TransactionSchema = SCHEMA, append_ms: int = APPEND_MS) -> DecodeResult:
    return decode_transactions(raw_records(*values, append_ms=append_ms), schema, RecordLimits(FUTURE_TOLERANCE_MS))


def rows(decoded: DecodeResult, schema: TransactionSchema = SCHEMA) -> list[dict[str, int | str]]:
    """The accepted rows with decimals as text, as the corpus writes them."""
    dicts = [decoded.batch.row(i, schema) for i in range(len(decoded.batch))]
    return [{name: v if isinstance(v, int | str) else str(v) for name, v in row.items()} for row in dicts]


def test_accepted() -> None:
    found = {case.name: decode(case.record) for case in ACCEPTED}
    wanted = {case.name: ([case.values], [], 0) for case in ACCEPTED}
    assert {name: (rows(each), each.rejects, each.ignored) for name, each in found.items()} == wanted


def test_rejected() -> None:
    found = {case.name: decode(case.record) for case in REJECTED}
    reasons = {name: [(reject.index, reject.reason) for reject in each.rejects] for name, each in found.items()}
    assert reasons == {case.name: [(0, case.reason)] for case in REJECTED}
    assert not any(len(each.batch) for each in found.values())
    details = [each.rejects[0].detail for each in found.values()]
    assert [each for each in details if not (each.isprintable() and 0 < len(each) <= MAX_DETAIL_LENGTH)] == []


def test_a_record_without_an_append_time_is_rejected_wherever_it_stands() -> None:
    values = [case.record for case in ACCEPTED]
    times = [APPEND_MS if place % 2 else NO_APPEND_TIME for place in range(len(values))]
    count = len(values)
    decoded = decode_transactions(
        RawTransactions.of(values, [0] * count, range(count), times), SCHEMA, RecordLimits(FUTURE_TOLERANCE_MS)
    )
    assert decoded.batch.offset.tolist() == list(range(1, count, 2))
    assert [(each.index, each.reason) for each in decoded.rejects] == [(at, UNTIMED) for at in range(0, count, 2)]


def test_the_whole_corpus_in_one_batch() -> None:
    """Good, bad and tombstones interleaved: each fares as it does alone, and accepted rows keep their order."""
    cases = [case for pair in zip(ACCEPTED * 5, REJECTED, strict=False) for case in pair]
    values = [value for case in cases for value in (case.record, None)]
    decoded = decode(*values)
    good = {2 * i: case.values for i, case in enumerate(cases) if isinstance(case, AcceptedCase)}
    bad = [(2 * i, case.reason) for i, case in enumerate(cases) if isinstance(case, RejectedCase)]
    assert decoded.batch.offset.tolist() == list(good)
    assert rows(decoded) == list(good.values())
    assert [(reject.index, reject.reason) for reject in decoded.rejects] == bad
    assert decoded.ignored == len(cases)


def test_the_careful_reader_alone_agrees() -> None:
    for case in ACCEPTED:
        (quick,) = rows(decode(case.record))
        unscaled = {"paymentAmount": int(str(quick["paymentAmount"]).replace(".", ""))}
        wanted = tuple((quick | unscaled).get(name) for name in SCHEMA.names)
        assert read_record(case.record, SCHEMA) == wanted, case.name


def test_the_quick_reader_is_never_certain_of_a_bad_record() -> None:
    for case in MALFORMED:
        reading = quick_reader(SCHEMA).read(raw_records(case.record), RecordLimits().max_bytes)
        assert (len(reading.positions), reading.doubtful) == (0, [0]), case.name
        with pytest.raises(RecordRejected, match=case.reason):
            read_record(case.record, SCHEMA)


COMMON = (
    b'{"transactionId":1,"eventTime":1700000000000,"payeeId":2,"beneficiaryId":3,"paymentAmount":1.2,"paymentType":"CSH"}',
    b'{"transactionId":1,"eventTime":1700000000000,"payerId":2,"beneficiaryId":3,"paymentAmount":"5","paymentType":"a:b"}',
    (
        b'{"transactionId":1,"eventTime":"2023-11-14T22:13:20Z","payeeId":2,"beneficiaryId":3,"paymentAmount":-1.5,'
        b'"paymentType":"CSH","ingestionTimestamp":"2023-11-14 22:13:20","channel":["web",1.5,null]}'
    ),
    b"1,1700000000000,2,3,CSH,12.34",
    b"1,1700000000000,2,3,CSH,12.34,1700000000005\n",
)


@pytest.mark.parametrize("record", COMMON)
def test_common_forms_stay_on_the_quick_path(record: bytes) -> None:
    assert quick_reader(SCHEMA).read(raw_records(*[record, b"{"] * 3), RecordLimits().max_bytes).positions.tolist() == [
        0,
        2,
        4,
    ]


def test_a_schema_with_string_ids_nullable_fields_and_two_aliases() -> None:
    decoded = decode(
        b'{"transactionId":"a-1","eventTime":1700000000000}',
        b'{"transactionId":"a-2","eventTime":1700000000000,"fee":0.5,"units":-7,"branch":null,"note":"x"}',
        b'{"transactionId":"a-3","eventTime":1700000000000,"cost":null,"units":"999","branch":5,"note":null}',
        b'{"transactionId":"a-4","eventTime":1700000000000,"costs":1e-4}',
        b'{"transactionId":"a-5","eventTime":1700000000000,"cost":1,"units":0}',
        b'{"transactionId":"a-6","eventTime":1700000000000,"cost":0,"costs":0}',
        b'{"transactionId":7,"eventTime":1700000000000}',
        b"a-8,1700000000000",
        b"a-9,1700000000000,0.0001,,7,",
        schema=STRING_IDS,
    )
    assert rows(decoded, STRING_IDS) == [
        {"transactionId": "a-1", "eventTime": 1_700_000_000_000},
        {"transactionId": "a-2", "eventTime": 1_700_000_000_000, "fee": "0.5000", "units": "-7", "note": "x"},
        {"transactionId": "a-3", "eventTime": 1_700_000_000_000, "units": "999", "branch": 5},
        {"transactionId": "a-4", "eventTime": 1_700_000_000_000, "fee": "0.0001"},
        {"transactionId": "a-8", "eventTime": 1_700_000_000_000},
        {"transactionId": "a-9", "eventTime": 1_700_000_000_000, "fee": "0.0001", "branch": 7},
    ]
    assert [(reject.index, reject.reason) for reject in decoded.rejects] == [
        (4, "does_not_fit:fee"),
        (5, "duplicate_field"),
        (6, "wrong_type:transactionId"),
    ]


def test_no_records_give_an_empty_batch_with_all_columns() -> None:
    decoded = decode()
    assert (len(decoded.batch), tuple(decoded.batch.columns), decoded.rejects) == (0, SCHEMA.names, [])


def test_places_follow_their_rows() -> None:
    good = COMMON[0]
    decoded = decode_transactions(
        RawTransactions.of(
            [good, b"x", None, good, good + b" ", b"1,1700000000000,2,3,CSH,1"],
            np.arange(6, dtype=np.int32),
            np.arange(100, 106),
            np.arange(APPEND_MS, APPEND_MS + 6),
        ),
        SCHEMA,
        RecordLimits(FUTURE_TOLERANCE_MS),
    )
    assert decoded.batch.partition.tolist() == [0, 3, 4, 5]
    assert decoded.batch.partition.dtype == np.int32
    assert decoded.batch.offset.tolist() == [100, 103, 104, 105]
    assert (decoded.batch.append_ms - APPEND_MS).tolist() == [0, 3, 4, 5]


NORMALIZED = TransactionSchema.parse(
    {
        "fields": [
            {"name": "transactionId", "type": "long"},
            {"name": "eventTime", "type": "timestamp"},
            {"name": "shop", "type": "string", "nullable": True, "normalize": ["trim", "nfc"]},
            {"name": "note", "type": "string", "nullable": True},
        ]
    }
)


@pytest.mark.parametrize("text", ["café", "cafe\u0301", " café ", "\u00a0\u200bcafé\ufeff\t", "\u2060cafe\u0301\u3000"])
def test_a_normalized_field_has_one_form_in_both_readers_and_both_formats(text: str) -> None:
    fields = json.dumps({"transactionId": 1, "eventTime": APPEND_MS, "shop": text, "note": text}).encode()
    careful = fields.replace(b"{", b'{"x":{"x":1},')
    csv = f'1,{APPEND_MS},"{text}","{text}"'.encode()
    decoded = decode(fields, careful, csv, schema=NORMALIZED)
    assert [(row["shop"], row["note"]) for row in rows(decoded, NORMALIZED)] == [("café", text)] * 3
    assert decoded.batch.columns["shop"].dictionary == ("café",)
    assert read_record(fields, NORMALIZED)[2:] == ("café", text)


def test_texts_are_bounded_before_and_after_their_normalization() -> None:
    """U+FB2C becomes three characters."""
    texts = ["x" * 256, "x" * 256 + " ", "\ufb2c" * 85, "\ufb2c" * 86, " "]
    values = [json.dumps({"transactionId": 1, "eventTime": APPEND_MS, "shop": text}).encode() for text in texts]
    decoded = decode(*values, schema=NORMALIZED)
    assert [(each.index, each.reason) for each in decoded.rejects] == [(1, "bad_text:shop"), (3, "bad_text:shop")]
    assert rows(decoded, NORMALIZED)[-1]["shop"] == ""


@pytest.mark.parametrize(
    ("time", "hint"),
    [
        (b"1700000000", "1700000000 looks like seconds: set `unit: s`"),
        (b"1700000000000000", "1700000000000000 looks like microseconds: set `unit: us`"),
        (b"1700000000000000000", "1700000000000000000 looks like nanoseconds: set `unit: ns`"),
    ],
)
def test_a_time_in_another_unit_is_rejected_with_the_unit(time: bytes, hint: str) -> None:
    (reject,) = decode(COMMON[0].replace(b"1700000000000", time), append_ms=APPEND_MS).rejects
    assert reject.detail.endswith(hint)


@pytest.mark.parametrize("time", [b"0", b"-1", b'"0001-01-01T00:00:00Z"', b"946684799999", b"-62135596800000"])
def test_a_time_before_the_floor_is_rejected_with_the_floor_and_no_unit(time: bytes) -> None:
    (reject,) = decode(COMMON[0].replace(b"1700000000000", time)).rejects
    assert (reject.reason, "before 2000-01-01T00:00:00Z" in reject.detail) == ("past_event_time", True)
    assert "looks like" not in reject.detail


def test_the_floor_is_an_argument() -> None:
    record, limits = COMMON[0].replace(b"1700000000000", b"1700000000"), RecordLimits(event_time_floor_ms=1_700_000_000)
    assert len(decode_transactions(RawTransactions.of([record], [0], [0], [APPEND_MS]), SCHEMA, limits).batch) == 1


def test_the_size_limit_is_an_argument() -> None:
    good = COMMON[0]
    decoded = decode_transactions(
        RawTransactions.of([good, good + b" "], [0, 0], [0, 1], [APPEND_MS] * 2),
        SCHEMA,
        RecordLimits(0, max_bytes=len(good)),
    )
    assert [(reject.index, reject.reason) for reject in decoded.rejects] == [(1, "too_large")]


def test_the_first_batch_of_a_process_does_not_wait_for_pandas() -> None:
    """Loading pandas takes longer than an alert may: a fresh worker must not do it."""
    program = f"""
import sys
from {__name__} import COMMON, decode
assert "pandas" not in sys.modules
assert len(decode(*COMMON * 2, b"bad").batch) == {2 * len(COMMON)}
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
