"""Lists the fires of a draft in a file: CSV, JSON Lines or Parquet. The file is also a file of labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fraud_rules.batch.archive.store import write_whole
from fraud_rules.batch.whatif.evaluate import DraftFire
from fraud_rules.batch.whatif.labels import FRAUD, NOT_FRAUD, UNLABELLED
from fraud_rules.errors import InputInvalid
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import ID_FIELD, TIME_FIELD
from fraud_rules.runtime.clock import utc
from fraud_rules.runtime.safe_text import scalar_text, without_formula

Row: TypeAlias = Mapping[str, object]

_NAMES: Final = {UNLABELLED: None, FRAUD: "FRAUD", NOT_FRAUD: "NOT_FRAUD"}
_VALUE: Final = "value"
_LABEL: Final = "label"

_encode = msgspec.json.Encoder(decimal_format="number").encode


def check_fires_file(path: Path) -> None:
    """Raise InputInvalid unless the name of the file has a known ending."""
    if path.suffix.lower() not in _WRITERS:
        raise InputInvalid(f"{path}: the name of a file of fires must end in {', '.join(_WRITERS)}")


def write_fires(path: Path, draft: Rule, fires: Sequence[DraftFire], count: int) -> None:
    """Write the fires in their order: time, transaction, the members of the key, aggregate and label.

    Raises InputInvalid if `fires` are fewer than the `count` fires of the draft, and StorageFull.
    """
    check_fires_file(path)
    if len(fires) < count:
        raise InputInvalid(f"{path}: the rule fires {count:,} times, too often for a list: evaluate fewer days")
    rows = [
        {TIME_FIELD: fire.time_ms, ID_FIELD: fire.transaction_id}
        | dict(zip(draft.grouping, fire.key, strict=True))
        | {_VALUE: fire.value, _LABEL: _NAMES[fire.label]}
        for fire in fires
    ]
    names = list(dict.fromkeys([TIME_FIELD, ID_FIELD, *draft.grouping, _VALUE, _LABEL]))
    write_whole(path.absolute(), _WRITERS[path.suffix.lower()](rows, names))


def _csv(rows: Sequence[Row], names: Sequence[str]) -> bytes:
    """CSV with a header. Times are ISO 8601. A quote precedes text that a spreadsheet would run as a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(names)
    writer.writerows([_cell(name, row[name]) for name in names] for row in rows)
    return text.getvalue().encode()


def _cell(name: str, value: object) -> object:
    if name == TIME_FIELD and isinstance(value, int):
        return utc(value).isoformat(timespec="milliseconds")
    if isinstance(value, bool):
        return scalar_text(value)
    return value if name == _VALUE else without_formula(value)


def _json_lines(rows: Sequence[Row], _: Sequence[str]) -> bytes:
    return b"".join(_encode({name: each for name, each in row.items() if each is not None}) + b"\n" for row in rows)


def _parquet(rows: Sequence[Row], names: Sequence[str]) -> bytes:
    columns = {name: pa.array([row[name] for row in rows], _type(name)) for name in names}
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target)
    return target.getvalue()


def _type(name: str) -> pa.DataType | None:
    if name == TIME_FIELD:
        return pa.timestamp("ms", tz="UTC")
    return pa.string() if name in (_VALUE, _LABEL) else None


_WRITERS: Final[dict[str, Callable[[Sequence[Row], Sequence[str]], bytes]]] = {
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
