"""Writes alerts as CSV or Parquet, piece by piece."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from fraud_control.domain.canonical import document_of, encoded
from fraud_control.domain.masking import Mask, plain
from fraud_control.domain.read_models import Mark
from fraud_control.service.alerts.index import IndexedAlert, amount_field
from fraud_rules.kafka.decoding import UNDECODABLE
from fraud_rules.model.schema import ID_FIELD, TransactionSchema
from fraud_rules.runtime.clock import utc
from fraud_rules.runtime.safe_text import without_formula

_DIGITS: Final = 38
_TIME: Final = pa.timestamp("ms", tz="UTC")
_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "alertId": pa.string(),
    "appendTime": _TIME,
    "eventTime": _TIME,
    "ruleId": pa.int64(),
    "ruleVersion": pa.int64(),
    "ruleName": pa.string(),
    "severity": pa.string(),
    "shadow": pa.bool_(),
    "key": pa.string(),
    "value": pa.string(),
    "windowStart": _TIME,
    "windowEnd": _TIME,
    "transactionId": pa.string(),
    "payment": pa.string(),
    "correction": pa.string(),
    "verdict": pa.string(),
    "markedBy": pa.string(),
    "markedAt": _TIME,
}


class ExportFormat(StrEnum):
    """The form of an exported file."""

    CSV = "csv"
    PARQUET = "parquet"

    @property
    def media_type(self) -> str:
        """The content type of the file."""
        return "text/csv; charset=utf-8" if self is ExportFormat.CSV else "application/vnd.apache.parquet"


class AlertFile(ABC):
    """A file that grows. Each method returns the next bytes of the file. `mask` masks the keys and payments."""

    def __init__(self, schema: TransactionSchema, mask: Mask) -> None:
        self._mask = mask
        self._amount = amount_field(schema)
        field = None if self._amount is None else schema.field(self._amount)
        self._columns = dict(_COLUMNS)
        if field is not None:
            self._columns["amount"] = pa.decimal128(_DIGITS, field.scale)
            self._step = Decimal(1).scaleb(-field.scale)

    def add(self, alerts: Sequence[IndexedAlert], marks: Mapping[str, Mark]) -> bytes:
        """Add alerts with their marks, by alert id."""
        return self._write([self._cells(each, marks.get(each.alert.facts.alert_id)) for each in alerts])

    @abstractmethod
    def _write(self, rows: Sequence[Mapping[str, Any]]) -> bytes: ...

    @abstractmethod
    def end(self) -> bytes:
        """End the file."""

    def _cells(self, indexed: IndexedAlert, mark: Mark | None) -> Mapping[str, Any]:
        alert, facts = indexed.alert, indexed.alert.facts
        document = _document(alert.json)
        rule, payment = _members(document, "violatedRule"), self._mask(_members(document, "triggeringEvent"))
        cells = {
            "alertId": facts.alert_id,
            "appendTime": alert.append_ms,
            "eventTime": facts.event_time,
            "ruleId": facts.rule_id,
            "ruleVersion": facts.rule_version,
            "ruleName": _text(rule.get("name")),
            "severity": _text(rule.get("severity")),
            "shadow": facts.shadow,
            "key": encoded(self._mask(dict(facts.key))),
            "value": _text(document.get("triggeringValue")),
            "windowStart": facts.window_start,
            "windowEnd": facts.window_end,
            "transactionId": _text(payment.get(ID_FIELD)),
            "payment": encoded(payment),
            "correction": None if indexed.correction is None else indexed.correction[0],
            "verdict": None if mark is None else mark.verdict,
            "markedBy": None if mark is None else mark.who,
            "markedAt": None if mark is None else mark.at_ms,
        }
        if self._amount is not None:
            cells["amount"] = self._decimal(payment.get(self._amount))
        return cells

    def _decimal(self, value: object) -> Decimal | None:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            return None
        try:
            return Decimal(value).quantize(self._step)
        except InvalidOperation:
            return None


class _CsvFile(AlertFile):
    """CSV with a header. Times are ISO 8601 in UTC. A quote precedes text that a spreadsheet would run as a formula."""

    def __init__(self, schema: TransactionSchema, mask: Mask) -> None:
        super().__init__(schema, mask)
        self._has_header = False

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> bytes:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self._columns), lineterminator="\r\n")
        if not self._has_header:
            writer.writeheader()
            self._has_header = True
        writer.writerows({name: self._cell(name, value) for name, value in row.items()} for row in rows)
        return text.getvalue().encode()

    def _cell(self, name: str, value: object) -> object:
        if self._columns[name] == _TIME and isinstance(value, int):
            return _iso(value)
        return without_formula(value)

    def end(self) -> bytes:
        return b"" if self._has_header else self._write([])


class _ParquetFile(AlertFile):
    """Parquet with one row group for each call of `add`."""

    def __init__(self, schema: TransactionSchema, mask: Mask) -> None:
        super().__init__(schema, mask)
        self._schema = pa.schema(list(self._columns.items()))
        self._bytes = io.BytesIO()
        self._writer = pq.ParquetWriter(pa.PythonFile(_Unseekable(self._bytes), mode="w"), self._schema)

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> bytes:
        if rows:
            self._writer.write_table(pa.Table.from_pylist([dict(row) for row in rows], self._schema))
        return self._drained()

    def end(self) -> bytes:
        self._writer.close()
        return self._drained()

    def _drained(self) -> bytes:
        content = self._bytes.getvalue()
        self._bytes.seek(0)
        self._bytes.truncate()
        return content


class _Unseekable:
    """A file to which Parquet only appends, so that written bytes can leave memory."""

    closed = False

    def __init__(self, target: io.BytesIO) -> None:
        self._target = target
        self._size = 0

    def write(self, content: Any) -> int:
        written = self._target.write(bytes(content))
        self._size += written
        return written

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Do nothing: the bytes are in memory."""

    def close(self) -> None:
        """Do nothing: the exporter reads the bytes after the end."""


def new_alert_file(form: ExportFormat, schema: TransactionSchema, mask: Mask = plain) -> AlertFile:
    """Create an empty file."""
    return _CsvFile(schema, mask) if form is ExportFormat.CSV else _ParquetFile(schema, mask)


def _document(json: bytes) -> dict[str, Any]:
    try:
        return document_of(json)
    except UNDECODABLE:
        return {}


def _members(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _iso(at_ms: int) -> str | None:
    try:
        return utc(at_ms).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None
