"""Quarantined records: rejected records with their position and reason, and the text form that people repair.

Pure. `logs.quarantine` reads the records from the topic and sends them again. `batch.archive.quarantine` reads the
archive.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from fraud_rules.codec.transactions.raw import Headers
from fraud_rules.errors import InputInvalid
from fraud_rules.runtime.safe_text import is_unprintable

_EXCERPT_CHARS: Final = 120

_OWN: Final = "header."
"""Before the name of each header that the rejected record had."""


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """A record of the topic `quarantine`, at `partition` and `offset` there since `time_ms`.

    `raw` holds the bytes of the rejected record, whose own position is `source`. It has its key and its headers if the
    schema read them. `cut`: the record is not complete.
    """

    partition: int
    offset: int
    time_ms: int
    reason: str
    detail: str
    source: str
    raw: bytes
    cut: bool = False
    key: bytes | None = None
    headers: Headers = ()

    @property
    def position(self) -> str:
        """The position in the topic `quarantine`, in the form that people write: `0:17`."""
        return f"{self.partition}:{self.offset}"

    @property
    def mark(self) -> bytes:
        """The key of the record that marks this record as sent again. A recreated topic has other keys."""
        return f"{self.position}@{self.time_ms}".encode()

    @property
    def excerpt(self) -> str:
        """The first bytes of the record as printable ASCII on one line."""
        text = ascii(self.raw[:_EXCERPT_CHARS].decode("utf-8", "backslashreplace"))[1:-1]
        return text[:_EXCERPT_CHARS] + ("..." if len(text) > _EXCERPT_CHARS or len(self.raw) > _EXCERPT_CHARS else "")


@dataclass(frozen=True, slots=True)
class QuarantineSelection:
    """Selects quarantined records by position, by reason, and by quarantine time (`since_ms` or later). An empty set
    selects all."""

    positions: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    since_ms: int = 0

    def includes(self, record: QuarantinedRecord) -> bool:
        """Whether the selection includes the record."""
        named = not self.positions or record.position in self.positions
        return named and (not self.reasons or record.reason in self.reasons) and record.time_ms >= self.since_ms

    def select(self, records: Iterable[QuarantinedRecord]) -> Iterator[QuarantinedRecord]:
        """Filter the selected records."""
        return filter(self.includes, records)


def own_headers(headers: Headers) -> list[tuple[str, bytes | None]]:
    """The headers of a rejected record as headers in the topic `quarantine`, apart from those of the detector."""
    return [(_OWN + name, value) for name, value in headers]


def decode_quarantined(
    partition: int, offset: int, time_ms: int, key: bytes | None, value: bytes | None, headers: Headers
) -> QuarantinedRecord:
    """Decode a record of the topic. A record written by another program gets the reason `unknown`."""
    texts: Mapping[str, str] = {name: (text or b"").decode("utf-8", "replace") for name, text in headers}
    source = f"{texts.get('topic', '?')}-{texts.get('partition', '?')}@{texts.get('offset', '?')}"
    return QuarantinedRecord(
        partition,
        offset,
        time_ms,
        texts.get("reason", "unknown"),
        texts.get("detail", ""),
        source,
        value or b"",
        "truncatedFrom" in texts,
        key,
        [(name.removeprefix(_OWN), text) for name, text in headers if name.startswith(_OWN)],
    )


class _Text(msgspec.Struct, omit_defaults=True):
    """Bytes: readable text, or in base64."""

    text: str | None = None
    base64: str | None = None

    @classmethod
    def of(cls, raw: bytes) -> _Text:
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = None
        if text is None or is_unprintable(text):
            return cls(base64=base64.b64encode(raw).decode())
        return cls(text)

    def bytes(self) -> bytes:
        if self.text is not None:
            return self.text.encode()
        return base64.b64decode(self.base64 or "", validate=True)


class _Line(msgspec.Struct, rename="camel", omit_defaults=True):
    """The text form. Readable text is in `record`, other bytes are in `record_base64`."""

    position: str
    time: int
    reason: str = ""
    detail: str = ""
    source: str = ""
    record: str | None = None
    record_base64: str | None = None
    key: _Text | None = None
    headers: list[tuple[str, _Text | None]] = []
    cut: bool = False
    replayed: bool = False


_decode = msgspec.json.Decoder(_Line).decode


def to_line(record: QuarantinedRecord, *, replayed: bool) -> bytes:
    """Encode the record as one line of JSON for `from_line`."""
    raw = _Text.of(record.raw)
    line = _Line(
        record.position,
        record.time_ms,
        record.reason,
        record.detail,
        record.source,
        raw.text,
        raw.base64,
        None if record.key is None else _Text.of(record.key),
        [(name, None if value is None else _Text.of(value)) for name, value in record.headers],
        record.cut,
        replayed,
    )
    return msgspec.json.encode(line)


def from_line(text: bytes, where: str) -> QuarantinedRecord:
    """Decode a line of `to_line`, whose record may have been repaired. `where` names the line in InputInvalid."""
    try:
        line = _decode(text)
        partition, _, offset = line.position.partition(":")
        return QuarantinedRecord(
            int(partition),
            int(offset),
            line.time,
            line.reason,
            line.detail,
            line.source,
            _Text(line.record, line.record_base64).bytes(),
            key=None if line.key is None else line.key.bytes(),
            headers=[(name, None if value is None else value.bytes()) for name, value in line.headers],
        )
    except (msgspec.MsgspecError, ValueError, binascii.Error) as error:
        raise InputInvalid(f"{where} is not a line of `fraud quarantine list --json`: {error}") from error
