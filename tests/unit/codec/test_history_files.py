"""Files of past transactions: what every reader makes of the same mistakes, and what refuses a whole file."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fraud_rules.batch.rejections import Rejections, decode_history
from fraud_rules.codec.history.files import history_records, schema_of_file
from fraud_rules.codec.history.producer_form import producer_records
from fraud_rules.errors import HistoryRefused, InputInvalid
from fraud_rules.model.limits import RecordLimits
from fraud_rules.model.schema import Envelope, TransactionSchema
from tests.support.rules import SCHEMA

NAMES = "transactionId,eventTime,payeeId,beneficiaryId,paymentType,paymentAmount"
ROW = "1,2023-11-14T22:13:20Z,1,2,CSH,1.50"
TIME_MS = 1_700_000_000_000
LIMITS = RecordLimits()
COLUMNS: dict[str, list[Any]] = {
    "transactionId": [1],
    "eventTime": [TIME_MS],
    "payeeId": [1],
    "beneficiaryId": [2],
    "paymentType": ["CSH"],
    "paymentAmount": [Decimal("1.50")],
}
Outcome = list[tuple[int, object]]


def outcome(path: Path) -> Outcome:
    """The line of each record with its time and amount, or with its reason."""
    records = list(history_records(path, SCHEMA))
    decoded = decode_history(records, 0, 0, 2**42, SCHEMA, LIMITS)
    found: dict[int, object] = {}
    for i in range(len(decoded.batch)):
        row = decoded.batch.row(i, SCHEMA)
        found[records[int(decoded.batch.offset[i])].line] = (row["eventTime"], str(row["paymentAmount"]))
    for each in decoded.rejects:
        assert each.detail.startswith(f"line {records[each.index].line}: ")
        found[records[each.index].line] = each.reason
    return sorted(found.items(), key=lambda pair: pair[0])


GOOD = (TIME_MS, "1.50")
CSV: list[tuple[str, bytes, Outcome]] = [
    ("a row longer than the header", f"{NAMES}\n1,2023-11-14T22:13:20Z,1,2,CSH,1,234.50\n{ROW}\n".encode(),
     [(2, "bad_csv"), (3, GOOD)]),
    ("a row shorter than the header", f"{NAMES},note\n{ROW}\n{ROW},x\n".encode(), [(2, "bad_csv"), (3, GOOD)]),
    ("a row longer than the schema, without a header", f"{ROW}\n{ROW},,,,,,,\n".encode(), [(1, GOOD), (2, "bad_csv")]),
    ("byte order marks", b"\xef\xbb\xbf" + f"{NAMES}\n{ROW}\n".encode(), [(2, GOOD)]),
    ("byte order marks, without a header", b"\xef\xbb\xbf" + f"{ROW}\n".encode(), [(1, GOOD)]),
    ("the ids of pandas", f"{NAMES}\n1.0,1700000000000.0,1.0,2.0,CSH,1.5\n".encode(), [(2, GOOD)]),
    ("an id that a float does not have", f"{NAMES}\n9007199254740993.0,0,1,2,C,1\n".encode(),
     [(2, "wrong_type:transactionId")]),
    ("infinity", f"{NAMES}\n1,1700000000000,1,2,CSH,inf\n".encode(), [(2, "wrong_type:paymentAmount")]),
    ("another encoding in a row", f"{NAMES}\n1,1700000000000,1,2,\xe9,1\n{ROW}\n".encode("latin-1"),
     [(2, "invalid_utf8"), (3, GOOD)]),
    ("cells with line breaks", f'{NAMES},note\n{ROW},"a\n\nb"\n\n{ROW},\n'.encode(), [(2, GOOD), (6, GOOD)]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "expected"), [each[1:] for each in CSV], ids=[each[0] for each in CSV])
def test_a_csv_row_is_read_exactly_or_refused_by_its_line(content: bytes, expected: Outcome, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    assert outcome(path) == expected


def test_a_byte_order_mark_does_not_refuse_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = json.dumps(
        {name: str(cell[0]) if name == "paymentAmount" else cell[0] for name, cell in COLUMNS.items()}
    ).encode()
    path.write_bytes(b"\xef\xbb\xbf" + line + b"\n\n" + line + b"\n{}\n")
    assert outcome(path) == [(1, GOOD), (3, GOOD), (4, "missing_field:transactionId")]


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table({**COLUMNS, **columns}), path)
    return path


AUTUMN = [datetime(2023, 10, 29, 0, 30, tzinfo=UTC), datetime(2023, 10, 29, 1, 30, tzinfo=UTC)]
AUTUMN_MS = [int(each.timestamp() * 1_000) for each in AUTUMN]
TIMES = {
    "in the repeated hour of a zone": (
        pa.array(AUTUMN[:1], pa.timestamp("us", "Europe/Berlin")),
        (AUTUMN_MS[0], "1.50"),
    ),
    "a nanosecond before a millisecond": (pa.array([TIME_MS * 1_000_000 + 999_999], pa.timestamp("ns")), GOOD),
    "seconds": (pa.array([TIME_MS // 1_000], pa.timestamp("s", "+02:00")), GOOD),
    "milliseconds beyond all times": (pa.array([2**62], pa.timestamp("ms")), "out_of_range:eventTime"),
    "a date": (pa.array([19_000], pa.date32()), "bad_timestamp:eventTime"),
    "a float": (pa.array([float(TIME_MS)]), GOOD),
}
AMOUNTS = {
    "float32": (pa.array([57.16], pa.float32()), (TIME_MS, "57.16")),
    "float16": (pa.array([np.float16(1.5)], pa.float16()), GOOD),
    "infinity": (pa.array([float("inf")]), "wrong_type:paymentAmount"),
    "minus infinity": (pa.array([float("-inf")], pa.float32()), "wrong_type:paymentAmount"),
    "NaN": (pa.array([float("nan")]), "missing_field:paymentAmount"),
    "text": (pa.array(["1.50"]), GOOD),
}  # fmt: skip


@pytest.mark.parametrize(("array", "expected"), TIMES.values(), ids=TIMES)
def test_parquet_times_of_any_unit_and_zone(array: Any, expected: object, tmp_path: Path) -> None:
    assert outcome(parquet(tmp_path / "a.parquet", eventTime=array)) == [(1, expected)]


@pytest.mark.parametrize(("array", "expected"), AMOUNTS.values(), ids=AMOUNTS)
def test_parquet_amounts_of_any_type(array: Any, expected: object, tmp_path: Path) -> None:
    assert outcome(parquet(tmp_path / "a.parquet", paymentAmount=array)) == [(1, expected)]


@pytest.mark.parametrize("number", [1.0, float(2**53 - 1)])
def test_parquet_ids_of_pandas_are_whole_numbers(number: float, tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", payeeId=pa.array([number]))
    assert outcome(path) == [(1, GOOD)]
    assert b'"payeeId":%d,' % number in next(history_records(path, SCHEMA)).value


def test_int96_times_keep_their_year(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    days = [np.datetime64(each, "us") for each in ("9999-12-31", "0001-01-01", "2023-11-14T22:13:20")]
    times = pa.array(days, pa.timestamp("us"))
    table = pa.table({name: values * 3 for name, values in COLUMNS.items()} | {"eventTime": times})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert outcome(path) == [(1, "future_event_time"), (2, "past_event_time"), (3, GOOD)]


def write(content: bytes, suffix: str = "csv") -> Callable[[Path], Path]:
    def made(folder: Path) -> Path:
        path = folder / f"a.{suffix}"
        path.write_bytes(content)
        return path

    return made


def twice_in_parquet(folder: Path) -> Path:
    table = pa.table(list(map(pa.array, [*COLUMNS.values(), [Decimal(9)]])), names=[*COLUMNS, "paymentAmount"])
    pq.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


def without_declared_column(folder: Path) -> Path:
    pq.write_table(pa.table({"payment": [{"transactionId": 1}]}), folder / "a.parquet")
    return folder / "a.parquet"


def with_a_struct(folder: Path) -> Path:
    return parquet(folder / "a.parquet", paymentAmount=pa.array([{"value": 1}]))


WHOLE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "an unknown name in a header": (
        write(b"id,eventTime,beneficiaryId,payeeId,paymentType,paymentAmount\n1,2023-11-14T22:13:20Z,2,1,CSH,1.50\n"),
        "no column for transactionId; its columns are id, eventTime, .*aliases",
    ),
    "a header without any known name": (write(b"id,when,from,to,kind,amount\n" + ROW.encode()), "no column for tr"),
    "a column twice": (write(f"{NAMES},paymentAmount\n{ROW},999\n".encode()), "more than one column for paymentAmount"),
    "a column and its alias": (write(f"{NAMES},payerId\n{ROW},1\n".encode()), "more than one column for payeeId"),
    "semicolons": (write(NAMES.replace(",", ";").encode() + b"\n"), "';' separate its cells"),
    "tabs": (write(NAMES.replace(",", "\t").encode() + b"\n"), "tabs separate its cells"),
    "UTF-16": (write(f"{NAMES}\n{ROW}\n".encode("utf-16")), "UTF-16: save it as UTF-8"),
    "UTF-16 lines": (write("{}\n".encode("utf-16"), "jsonl"), "UTF-16: save it as UTF-8"),
    "an unclosed quote": (write(f'{NAMES}\n{ROW}\n1,0,1,2,"CSH,1\n{ROW}\n{ROW}\n'.encode()), "line 3: unexpected end"),
    "a quote that a later one closes": (
        write(f'{NAMES}\n1,0,1,2,"CSH,1\n{ROW}\n1,0,1,2,"CSH",1\n'.encode()),
        "line 2: ',' expected after '\"' .line 4.",
    ),
    "a quote that swallows rows": (
        write(f'{NAMES}\n1,0,1,2,"CSH,1\n{ROW}\n1,0,1,2,CSH",1,2\n'.encode()),
        "line 2: a quoted cell ends only in line 4",
    ),
    "one JSON array": (write(b'\n[{"transactionId":1}]\n', "json"), "one JSON array: write one object per line"),
    "Parquet without a declared column": (without_declared_column, "no column for .*columns are payment"),
    "a Parquet column twice": (twice_in_parquet, "more than one column for paymentAmount"),
    "a Parquet column of structs": (with_a_struct, "column paymentAmount has the type struct"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "said"), WHOLE.values(), ids=WHOLE)
def test_a_file_that_could_be_misread_is_refused_as_a_whole(
    make: Callable[[Path], Path], said: str, tmp_path: Path
) -> None:
    path = make(tmp_path)
    with pytest.raises(InputInvalid, match=said) as raised:
        list(history_records(path, SCHEMA))
    assert str(raised.value).startswith(f"{path} cannot be read: ")


def test_a_row_of_another_length_is_unreadable_for_the_detector_too(tmp_path: Path) -> None:
    """Without the header, the detector would read such a row by position."""
    path = tmp_path / "a.csv"
    path.write_text(f"note,{NAMES}\n{ROW}\n")
    (record,) = history_records(path, SCHEMA)
    unmarked = decode_history([record._replace(fault=None)], 0, 0, 2**42, SCHEMA, LIMITS)
    assert [each.reason for each in unmarked.rejects] == ["not_an_object"]


@pytest.mark.parametrize(("refused", "most", "raises"), [(0, 0, 0), (1, 0, 1), (1, 0.1, 0), (2, 0.1, 1), (10, 1, 1)])
def test_a_larger_share_of_refusals_than_permitted_is_an_error(
    refused: int, most: float, raises: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join([NAMES, *[ROW] * (10 - refused), *["x"] * refused]))
    records = list(history_records(path, SCHEMA))
    found = Rejections()
    found.add(path.name, len(records), decode_history(records, 0, 0, 2**42, SCHEMA, LIMITS).rejects)
    if raises:
        with pytest.raises(HistoryRefused, match=rf"{refused} of 10 .*bad_csv \(a.csv line {12 - refused}: 1 cells"):
            found.require_share([path], most)
    else:
        found.require_share([path], most)


FOREIGN = TransactionSchema.parse(
    {
        "unwrap": "connect",
        "fields": [
            {"name": "transactionId", "type": "string", "path": "meta.id", "written_as": "number"},
            {"name": "eventTime", "type": "timestamp", "path": "meta.at", "unit": "s"},
            {"name": "amount", "type": "decimal", "precision": 10, "scale": 2, "scaled": True, "path": "payment.cents"},
            {"name": "flag", "type": "boolean", "nullable": True, "from": "header.flag"},
            {"name": "seen", "type": "timestamp", "nullable": True, "zone": "Europe/Berlin", "unit": "iso8601"},
            {"name": "count", "type": "long", "nullable": True, "written_as": "text"},
        ],
    }
)
FOREIGN_ROW = {
    "transactionId": "4711", "eventTime": 1_700_000_000_250, "amount": Decimal("12.50"), "flag": True,
    "seen": 1_700_000_000_000, "count": 3,
}  # fmt: skip
TIME = datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)


def foreign_row(path: Path, schema: TransactionSchema = FOREIGN) -> dict[str, object]:
    """The one row of a file of the foreign schema."""
    decoded = decode_history(list(history_records(path, schema)), 0, 0, 2**42, schema_of_file(path, schema), LIMITS)
    assert decoded.rejects == []
    return decoded.batch.row(0, schema)


def test_cells_have_the_units_of_the_schema_but_not_its_places_and_forms(tmp_path: Path) -> None:
    path = tmp_path / "foreign.csv"
    path.write_text(
        "transactionId,eventTime,amount,flag,seen,count\n4711,1700000000.25,1250,True,2023-11-14T23:13:20,3\n"
    )
    assert foreign_row(path) == FOREIGN_ROW


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"transactionId": pa.array([4711])},
        {"eventTime": pa.array([TIME], pa.timestamp("ns", "UTC"))},
        {"eventTime": pa.array([TIME], pa.timestamp("us"))},
        {"eventTime": pa.array([1_700_000_000.25])},
        {"amount": pa.array([1250])},
        {"amount": pa.array([Decimal("12.50000")], pa.decimal128(38, 5))},
        {"amount": pa.array([Decimal(1250)], pa.decimal128(38, 0))},
        {"seen": pa.array(["2023-11-14T23:13:20"])},
        {"count": pa.array(["3"])},
    ],
)
def test_columns_are_times_and_amounts_by_their_types(tmp_path: Path, changed: dict[str, pa.Array]) -> None:
    columns = {
        "transactionId": pa.array(["4711"]),
        "eventTime": pa.array([TIME], pa.timestamp("ms", "UTC")),
        "amount": pa.array([Decimal("12.50")]),
        "flag": pa.array([True]),
        "seen": pa.array([TIME.replace(microsecond=0)], pa.timestamp("s", "UTC")),
        "count": pa.array([3]),
    }
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table(columns | changed), path)
    assert foreign_row(path) == FOREIGN_ROW


def test_lines_of_json_are_records_of_the_topic(tmp_path: Path) -> None:
    path = tmp_path / "foreign.jsonl"
    payment = {"meta": {"id": 4711, "at": 1_700_000_000}, "payment": {"cents": 1250}, "count": "3"}
    path.write_text(json.dumps({"schema": {}, "payload": payment}))
    expected = {"transactionId": "4711", "eventTime": 1_700_000_000_000, "amount": Decimal("12.50"), "count": 3}
    of_values = TransactionSchema(tuple(each for each in FOREIGN.fields if each.name != "flag"), FOREIGN.unwrap)
    assert foreign_row(path, of_values) == expected


PLACES: dict[str, dict[str, Any]] = {
    "transactionId": {"type": "string", "path": "meta[1].id", "written_as": "number"},
    "eventTime": {"type": "timestamp", "path": 'meta[0]."at.s"', "unit": "s"},
    "amount": {"type": "decimal", "precision": 10, "scale": 2, "written_as": "base64", "path": "amounts[2]"},
    "flag": {"type": "boolean", "nullable": True, "written_as": "text"},
    "count": {"type": "long", "nullable": True, "written_as": "text", "path": "more.count"},
}


@pytest.mark.parametrize("unwrap", list(Envelope))
def test_rows_are_sent_in_the_form_of_the_topic(tmp_path: Path, unwrap: Envelope) -> None:
    schema = TransactionSchema.parse(
        {"unwrap": unwrap.value, "fields": [{"name": name, **keys} for name, keys in PLACES.items()]}
    )
    path = tmp_path / "rows.csv"
    path.write_text(
        "transactionId,eventTime,amount,flag,count\n4711,1700000000.25,-12.50,true,3\n0,1700000001,327.68,,\nx,1,2,3,4\n"
    )
    records = list(producer_records(path, schema))
    decoded = decode_history(records, 0, 0, 2**42, schema, LIMITS)
    assert [decoded.batch.row(i, schema) for i in range(2)] == [
        {
            "transactionId": "4711",
            "eventTime": 1_700_000_000_250,
            "amount": Decimal("-12.50"),
            "flag": True,
            "count": 3,
        },
        {"transactionId": "0", "eventTime": 1_700_000_001_000, "amount": Decimal("327.68")},
    ]
    assert [each.index for each in decoded.rejects] == [2]


def test_rows_cannot_be_sent_without_a_field_outside_the_value(tmp_path: Path) -> None:
    path = tmp_path / "foreign.csv"
    path.write_text("transactionId,eventTime,amount\n1,1700000000,1\n")
    with pytest.raises(InputInvalid, match="flag is outside a record's value"):
        list(producer_records(path, FOREIGN))
