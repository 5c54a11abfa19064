"""What a key group hands to the writer for one batch."""

from __future__ import annotations

import msgspec


class AlertRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One alert as JSON, with its place in the order of alerts: (append_ms, partition, offset, rule_id)."""

    append_ms: int
    partition: int
    offset: int
    rule_id: int
    alert_id: str
    shadow: bool
    json: bytes
    restriction: bytes | None


class LateRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One late transaction as JSON, as one grouping saw it."""

    append_ms: int
    partition: int
    offset: int
    grouping: str
    lateness_ms: int
    json: bytes


class DuplicateRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One delivery that one grouping ignored because it retains the same transactionId."""

    append_ms: int
    partition: int
    offset: int
    grouping: str
    transaction_id: int | str


class KeyGroupOutput(msgspec.Struct, array_like=True, frozen=True):
    """One key group's part of a batch. `rows` counts a transaction once a grouping; `watermark_ms` is the lowest of its
    groupings' watermarks. `retained_marks` are those of alerts: see `window.spent`."""

    key_group: int
    rows: int
    retained_events: int
    retained_bytes: int
    watermark_ms: int | None
    alerts: list[AlertRecord]
    late: list[LateRecord]
    duplicates: list[DuplicateRecord]
    evaluations: list[bytes]
    retained_marks: int = 0

    def encode(self) -> bytes:
        """The output as bytes; `decode` gives it back."""
        return _encode(self)

    @staticmethod
    def decode(blob: bytes) -> KeyGroupOutput:
        """What `encode` made."""
        return _decode(blob)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KeyGroupOutput).decode
