"""Labels of past transactions: fraud, or not fraud. Read from a file, and found again among archived transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fraud_rules.codec.history.files import history_records
from fraud_rules.codec.scalar import INT64_MAX, INT64_MIN, TIMESTAMP_MAX_MS, is_integer, parse_timestamp
from fraud_rules.errors import InputInvalid
from fraud_rules.model.schema import ID_FIELD, Field, FieldType, TransactionSchema
from fraud_rules.model.transaction import Column
from fraud_rules.runtime.safe_text import is_unprintable

UNLABELLED: Final = 0
FRAUD: Final = 1
NOT_FRAUD: Final = 2
CLASSES: Final = 3

VERDICTS: Final = {FRAUD: "FRAUD", NOT_FRAUD: "NOT_FRAUD"}


class LabelSource(StrEnum):
    """The origin of a label: a mark on an alert, a file, or the topic `labels`."""

    MARK = "mark"
    FILE = "file"
    TOPIC = "topic"


Ints = NDArray[np.int64]
Classes = NDArray[np.int8]
TransactionId = int | str

ORIGIN_CHARS: Final = 64

_TRANSACTION: Final = "transaction"
_TIME: Final = "time"
_ALERT: Final = "alertId"
_SOURCE: Final = "source"
_SOURCES: Final = tuple(LabelSource)
_LABELS: Final = ("label", "verdict")
_CLASS_OF: Final = {
    **dict.fromkeys(("fraud", "true", "1", "1.0"), FRAUD),
    **dict.fromkeys(("not_fraud", "false", "0", "0.0"), NOT_FRAUD),
}
_LONGEST: Final = 1_000
_DIGITS: Final = 21
"""The length from which on the text of a number is none of 64 bits."""


@dataclass(frozen=True, slots=True)
class LabelLine:
    """A label of a transaction, or of the transaction of an alert. One of the two ids is None.

    `at_ms` is its time, None if the line has none. `origin` is the source that the line names, such as `chargeback`.
    """

    transaction_id: TransactionId | None
    alert_id: str | None
    label: int
    source: LabelSource = LabelSource.FILE
    at_ms: int | None = None
    origin: str = ""


@dataclass(slots=True)
class LabelLines:
    """The labels of a source, and the number of skipped lines by reason.

    The labels are in the order of their times, and of the file within one time. Those without a time come last.
    """

    lines: list[LabelLine] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def alert_ids(self) -> set[str]:
        """The alerts whose transactions are labelled."""
        return {line.alert_id for line in self.lines if line.alert_id is not None}


def read_label_lines(path: Path, schema: TransactionSchema) -> LabelLines:
    """Read a file of labels: CSV with a header, JSON Lines or Parquet.

    A line has `transactionId` (or `transaction`, or another alias) or `alertId`, and `label` or `verdict`: FRAUD or
    NOT_FRAUD, true or false, 1 or 0. It may have the `time` of the label (epoch ms, ISO-8601 or a date, by default in
    UTC) and its `source`. Other lines are skipped and counted. Raises InputInvalid for an unreadable file, and for one
    without any label.
    """
    ids = _id_field(schema)
    texts = [Field(name, FieldType.STRING, nullable=True) for name in (_ALERT, *_LABELS, _TIME, _SOURCE)]
    found = LabelLines()
    for record in history_records(path, TransactionSchema((ids, *texts))):
        line = _line(record.value, ids)
        if isinstance(line, str):
            found.skipped[line] += 1
        else:
            found.lines.append(line)
    if not found.lines:
        reasons = ", ".join(f"{reason} ({count})" for reason, count in found.skipped.most_common(3)) or "it is empty"
        raise InputInvalid(f"{path} has no label: {reasons}")
    found.lines.sort(key=lambda line: TIMESTAMP_MAX_MS if line.at_ms is None else line.at_ms)
    return found


def read_label(record: bytes, schema: TransactionSchema) -> LabelLine:
    """Read one line of labels in JSON. Raises ValueError with the reason why it has none."""
    line = _line(record, _id_field(schema))
    if isinstance(line, LabelLine):
        return line
    raise ValueError(line)


def _id_field(schema: TransactionSchema) -> Field:
    declared = schema.field(ID_FIELD)
    assert declared is not None, "every schema has the field"
    other = () if schema.field(_TRANSACTION) or _TRANSACTION in declared.member_names else (_TRANSACTION,)
    return Field(declared.name, declared.type, nullable=True, aliases=(*declared.aliases, *other))


def _line(record: bytes, ids: Field) -> LabelLine | str:
    """The label of a record, or the reason why it has none."""
    try:
        members = msgspec.json.decode(record, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return "not a record"
    given = next((members[name] for name in _LABELS if members.get(name) not in (None, "")), None)
    if given is None:
        return "without a label"
    label = _CLASS_OF.get(str(given).strip().lower()) if isinstance(given, str | bool | int | float) else None
    if label is None:
        return "unknown label"
    at_ms = _time_ms(members.get(_TIME))
    if isinstance(at_ms, str):
        return at_ms
    source, origin = _source(members)
    named = next((members[name] for name in ids.member_names if members.get(name) not in (None, "")), None)
    if named is not None:
        transaction_id = _transaction_id(named, ids.type)
        if transaction_id is None:
            return "unreadable transaction id"
        return LabelLine(transaction_id, None, label, source, at_ms, origin)
    alert_id = members.get(_ALERT)
    if isinstance(alert_id, str) and 0 < len(alert_id) <= _LONGEST:
        return LabelLine(None, alert_id, label, source, at_ms, origin)
    return "without a transaction id"


def _source(members: Mapping[str, Any]) -> tuple[LabelSource, str]:
    """The source of a label, and the word for it in the line. Another program's file may have other words."""
    named = members.get(_SOURCE)
    if not isinstance(named, str) or len(named) > ORIGIN_CHARS or is_unprintable(named):
        return LabelSource.FILE, ""
    return LabelSource(named) if named in _SOURCES else LabelSource.FILE, named


def _time_ms(value: object) -> int | str | None:
    """The time of a label, None if it has none, or the reason why it is unreadable."""
    if value is None or value == "":
        return None
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if is_integer(text) and len(text) < _DIGITS:
        found: int | None = int(text)
    else:
        found = parse_timestamp(text) or parse_timestamp(f"{text}T00:00")
    return found if found is not None and 0 <= found <= TIMESTAMP_MAX_MS else "unreadable time"


def _transaction_id(value: object, kind: FieldType) -> TransactionId | None:
    if kind is FieldType.STRING:
        return value if isinstance(value, str) and len(value) <= _LONGEST else None
    if isinstance(value, str) and is_integer(value) and len(value) < _DIGITS:
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and INT64_MIN <= value <= INT64_MAX else None  # type: ignore[operator, return-value]


@dataclass(frozen=True)
class Labels:
    """The labels of distinct transactions, by ascending id. `classes` int8[n] is FRAUD or NOT_FRAUD.

    `sources` int8[n] is the position of the source in `LabelSource`. `elsewhere` counts the labels of alerts that the
    archived days lack.
    """

    ids: tuple[TransactionId, ...] = ()
    classes: Classes = field(default_factory=lambda: np.zeros(0, np.int8))
    elsewhere: int = 0
    sources: Classes = field(default_factory=lambda: np.zeros(0, np.int8))

    @classmethod
    def of_lines(cls, lines: Iterable[LabelLine], transactions: Mapping[str, TransactionId]) -> tuple[Labels, int]:
        """Find the last label of each transaction; return also the number of labels that a later one replaces.

        `transactions` has the transactions of alerts.
        """
        last: dict[TransactionId, LabelLine] = {}
        elsewhere: dict[str, int] = {}
        count = 0
        for line in lines:
            count += 1
            known = line.transaction_id
            if known is None and line.alert_id is not None:
                known = transactions.get(line.alert_id)
            if known is not None:
                last[known] = line
            elif line.alert_id is not None:
                elsewhere[line.alert_id] = line.label
        ids = tuple(sorted(last))
        classes = np.array([last[each].label for each in ids], np.int8)
        sources = np.array([_SOURCES.index(last[each].source) for each in ids], np.int8)
        return cls(ids, classes, len(elsewhere), sources), count - len(last) - len(elsewhere)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _sorted(self) -> Ints:
        return np.array(self.ids, dtype=np.int64)

    @cached_property
    def _places(self) -> Mapping[TransactionId, int]:
        return {each: i for i, each in enumerate(self.ids)}

    def places(self, column: Column) -> Ints:
        """The position of the label of each row's transaction, int64[n]; -1 without a label. `column` has the ids."""
        if not self.ids:
            return np.full(len(column.values), -1, np.int64)
        if column.dictionary is not None:
            of_code = np.array([self._places.get(text, -1) for text in column.dictionary], np.int64)
            return of_code[column.values]
        at = np.minimum(np.searchsorted(self._sorted, column.values), len(self.ids) - 1)
        return np.where(self._sorted[at] == column.values, at, -1)

    def classes_at(self, places: Ints) -> Classes:
        """The classes at the results of `places`, int8[n]; UNLABELLED for -1."""
        return np.concatenate([self.classes, np.zeros(1, np.int8)])[places]

    def count(self, kind: int, among: NDArray[np.bool_]) -> int:
        """The number of labels of a class among those of a mask, bool[n]."""
        return int(((self.classes == kind) & among).sum())


def source_counts(labels: Labels, among: NDArray[np.bool_]) -> dict[str, int]:
    """The number of labels of each source among those of a mask, bool[n]."""
    counts = np.bincount(labels.sources[among], minlength=len(_SOURCES)).tolist()
    return {source.value: count for source, count in zip(_SOURCES, counts, strict=True) if count}


def ids_of(labels: Labels, among: NDArray[np.bool_], most: int) -> list[TransactionId]:
    """The first ids of a mask, bool[n]."""
    return [labels.ids[i] for i in np.nonzero(among)[0][:most].tolist()]
