"""Recorded streams: the file that `fraud streams replay` reads and `fraud streams record` writes.

A recording is one JSON object `{"keyGroups": 1, "steps": [...], "batches": [...], "settings": {...}}`. Only `steps` is
required, and a reader ignores other members. A step is `{"at": append ms, "rule": record}` or `{"at": append ms,
"tx": record, "partition": 0}`, in append order. A record is

- an object: the bytes of the record as they are, with all digits of numbers, repeated members and `NaN`;
- a string: the bytes of a record that is not a JSON object, or that has too many brackets. Bytes that are not UTF-8
  appear as the lone surrogates of Python's `surrogateescape`;
- null: a tombstone.

A transaction may have `"key": text` and `"headers": [[name, text], ...]`, whose texts are written like strings above; a
text of null is none. `fraud streams record` writes them only if the schema reads them.

The position of a rule among the rule steps is its version. The position of a transaction among the steps of its
partition is its offset. A step can override its position with `"version"` or `"offset"`, because the markers of Kafka
transactions take offsets too.

`batches` are the recorded batches with their cuts: `{"offsets": {"transactions": {"0": end}}, "pin": end of the rule
log, "refused": {version: [[field, reason], ...]}}`. A batch at whose start warm-ups joined the state also has
`"warmUps": [{"version": n, "ends": {"0": end}}]`: the rule record that requested each, and the ends of the transactions
that its job has read. `"timeZones"` is the release of the time zones that the batch used. Ends are exclusive.
Transactions that belong to no batch form a last batch, which reads the whole rule log. `settings` may have
`maxOutOfOrdernessMs`, `futureToleranceMs`, `eventTimeFloorMs` and `maxTransactionBytes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from fraud_rules.codec.json_reader import JsonReader
from fraud_rules.codec.transactions.raw import Headers, RawTransactions
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.runtime.atomic_file import Durability, replaced_file

_TimeMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
_Offset: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Partition: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_UpToOneDayMs: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=86_400_000)]

_PLAIN_BRACKETS = 32
"""The most brackets in a record that is written as an object. Every JSON reader accepts this depth."""

_RECORDS = frozenset({"rule", "tx"})

_TEXTS = _RECORDS | {"key", "headers"}
"""The members of a step with bytes, which a string may spell with lone surrogates."""


class RecordedSettings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The settings of the recorded run that affect its results. None keeps the configured value."""

    max_out_of_orderness_ms: _UpToOneDayMs | None = None
    future_tolerance_ms: _UpToOneDayMs | None = None
    max_transaction_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    event_time_floor_ms: _TimeMs | None = None
    detail_minutes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_long_window_minutes: Annotated[int, msgspec.Meta(ge=1)] | None = None


_AS_CONFIGURED = RecordedSettings()


class _FileStep(msgspec.Struct):
    at: _TimeMs
    rule: bytes | msgspec.UnsetType | None = msgspec.UNSET
    tx: bytes | msgspec.UnsetType | None = msgspec.UNSET
    partition: _Partition = 0
    offset: _Offset | None = None
    version: _Offset | None = None
    key: str | None = None
    headers: list[tuple[str, str | None]] = []


class _Ends(msgspec.Struct):
    transactions: dict[_Partition, _Offset] = {}


class RecordedWarmUp(msgspec.Struct, frozen=True, omit_defaults=True):
    """A warm-up that joined the state: the version of the rule record that requested it, and the offset after the last
    transaction that its job has read, by partition."""

    version: _Offset
    ends: dict[_Partition, _Offset] = {}


class _FileBatch(msgspec.Struct, rename="camel"):
    pin: _Offset
    offsets: _Ends = msgspec.field(default_factory=_Ends)
    rejected: dict[_Offset, list[tuple[str, str]]] = msgspec.field(name="refused", default_factory=dict)
    warm_ups: tuple[RecordedWarmUp, ...] = ()
    time_zones: str = ""


class _RecordingFile(msgspec.Struct, rename="camel"):
    steps: list[_FileStep]
    key_groups: Annotated[int, msgspec.Meta(ge=1, le=4_096)] = 1
    batches: list[_FileBatch] = []
    settings: RecordedSettings = _AS_CONFIGURED


_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class RecordedRule:
    """One record of the rule log; `value` is None for a tombstone. A file has no `headers`."""

    version: int
    append_ms: int
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class RecordedTransaction:
    """One transaction record; `value` is None for a tombstone."""

    append_ms: int
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()


def raw_transactions(records: Sequence[RecordedTransaction], topic: str) -> RawTransactions:
    """The recorded transactions as undecoded records of a topic."""
    return RawTransactions.of(
        [record.value for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [record.append_ms for record in records],
        topic,
        [record.key for record in records],
        [record.headers for record in records],
    )


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """One recorded batch.

    `ends` has the offset after the batch's last transaction, by partition. `pin` is the end of the rule log that the
    batch read. `rejections` has the reasons for the rules that exceeded a budget, by version. The results
    of `warm_ups` joined the state at the start of the batch. `time_zones` is the release of the time zones, empty if it
    is unknown.
    """

    ends: Mapping[int, int]
    pin: int
    rejections: Mapping[int, Sequence[Reason]] = field(default_factory=dict)
    warm_ups: Sequence[RecordedWarmUp] = ()
    time_zones: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded stream. Rules ascend by version, and transactions by offset within each partition."""

    rules: list[RecordedRule]
    transactions: list[RecordedTransaction]
    batches: list[RecordedBatch] = field(default_factory=list)
    key_groups: int = 1
    settings: RecordedSettings = _AS_CONFIGURED

    @classmethod
    def read(cls, content: bytes, where: str = "the recording") -> Recording:
        """Parse a file's content. `where` names the file in errors. Raises InputInvalid for invalid content."""
        try:
            file = msgspec.convert(_document(JsonReader(content.decode("utf-8-sig"))), _RecordingFile, str_keys=True)
            return cls(*_split_logs(file.steps), [_to_batch(b) for b in file.batches], file.key_groups, file.settings)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InputInvalid(f"{where} is not a recording: {' '.join(str(error).split())}") from error

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Recording:
        """Parse a decoded document. Its numbers with a fraction must be `Decimal` to keep their digits. Raises
        InputInvalid."""
        steps = [
            {name: _to_raw(value) if name in _TEXTS else value for name, value in step.items()}
            for step in document["steps"]
        ]
        known = {name: document[name] for name in ("keyGroups", "batches", "settings") if name in document}
        return cls.read(_encode({**known, "steps": steps}), "the document")

    def write(self, path: Path) -> None:
        """Write the file atomically. Raises OSError."""
        with replaced_file(path, Durability.NONE) as partial, partial.open("wb") as file:
            file.writelines(self.lines())

    def lines(self) -> Iterator[bytes]:
        """The lines of the file: one step per line, in the order of append times. At equal times, rules come first."""
        yield b'{"keyGroups":%d,"settings":%b,"steps":[\n' % (self.key_groups, _encode(self.settings))
        steps = sorted(chain(_rule_steps(self.rules), _transaction_steps(self.transactions)), key=lambda step: step[0])
        yield from _join_lines(step for _, step in steps)
        yield b'],"batches":[\n'
        yield from _join_lines(_encode(_batch_document(batch)) for batch in self.batches)
        yield b"]}\n"


def _document(reader: JsonReader) -> dict[str, object]:
    """Decode the file, but keep the bytes of each record in place of the record."""
    document = {name: _read_steps(reader) if name == "steps" else reader.value() for name in reader.members()}
    reader.expect("")
    return document


def _read_steps(reader: JsonReader) -> object:
    return [_read_step(reader) for _ in reader.items("[", "]")] if reader.peek() == "[" else reader.value()


def _read_step(reader: JsonReader) -> object:
    if reader.peek() != "{":
        return reader.value()
    return {name: _read_record(reader) if name in _RECORDS else reader.value() for name in reader.members()}


def _read_record(reader: JsonReader) -> bytes | None:
    """Read a record as bytes; None for a tombstone."""
    reader.peek()
    start = reader.at
    value = reader.value()
    if value is None:
        return None
    return _bytes_of(value) if isinstance(value, str) else reader.text[start : reader.at].encode()


def _bytes_of(text: str) -> bytes:
    """The bytes of a record that is written as a string."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # lone surrogates that do not stand for a byte
        return text.encode("utf-8", "surrogatepass")


def _split_logs(steps: Iterable[_FileStep]) -> tuple[list[RecordedRule], list[RecordedTransaction]]:
    """Split the steps into the rule log and the transactions. Raises ValueError for a step out of order."""
    rules: list[RecordedRule] = []
    transactions: list[RecordedTransaction] = []
    next_offset: dict[int, int] = {}
    for position, step in enumerate(steps):
        if (step.tx is msgspec.UNSET) == (step.rule is msgspec.UNSET):
            raise ValueError(f"step {position} must have one of `rule` and `tx`")
        if step.tx is not msgspec.UNSET:
            offset = _in_order("offset", step.offset, next_offset.get(step.partition, 0), position)
            key = None if step.key is None else _bytes_of(step.key)
            headers = tuple([(name, None if text is None else _bytes_of(text)) for name, text in step.headers])
            transactions.append(RecordedTransaction(step.at, step.partition, offset, step.tx, key, headers))
            next_offset[step.partition] = offset + 1
        elif step.rule is not msgspec.UNSET:
            version = _in_order("version", step.version, rules[-1].version + 1 if rules else 0, position)
            rules.append(RecordedRule(version, step.at, step.rule))
    return rules, transactions


def _in_order(name: str, number: int | None, lowest: int, position: int) -> int:
    """A step's offset or version: the lowest possible number by default. Raises ValueError for a lower number."""
    if number is not None and number < lowest:
        raise ValueError(f"step {position} has the {name} {number}, but {lowest} or more is required")
    return lowest if number is None else number


def _to_raw(member: object) -> msgspec.Raw:
    """Encode a record, key or headers of a decoded document as they would appear in a file."""
    return msgspec.Raw(json.dumps(member).encode() if isinstance(member, str | list) else _encode(member))


def _to_batch(batch: _FileBatch) -> RecordedBatch:
    rejections = {version: [Reason(*pair) for pair in pairs] for version, pairs in batch.rejected.items()}
    return RecordedBatch(batch.offsets.transactions, batch.pin, rejections, batch.warm_ups, batch.time_zones)


def _batch_document(batch: RecordedBatch) -> dict[str, object]:
    document: dict[str, object] = {"offsets": {"transactions": dict(batch.ends)}, "pin": batch.pin}
    if batch.rejections:
        document["refused"] = {
            version: [(each.field, each.message) for each in reasons] for version, reasons in batch.rejections.items()
        }
    if batch.warm_ups:
        document["warmUps"] = list(batch.warm_ups)
    if batch.time_zones:
        document["timeZones"] = batch.time_zones
    return document


def _rule_steps(rules: Iterable[RecordedRule]) -> Iterator[tuple[int, bytes]]:
    expected = 0
    for rule in rules:
        version = b"" if rule.version == expected else b',"version":%d' % rule.version
        yield rule.append_ms, b'{"at":%d%b,"rule":%b}' % (rule.append_ms, version, _encode_record(rule.value))
        expected = rule.version + 1


def _transaction_steps(transactions: Iterable[RecordedTransaction]) -> Iterator[tuple[int, bytes]]:
    expected: dict[int, int] = {}
    for tx in transactions:
        members = b',"partition":%d' % tx.partition if tx.partition else b""
        if tx.offset != expected.get(tx.partition, 0):
            members += b',"offset":%d' % tx.offset
        if tx.key is not None:
            members += b',"key":%b' % _encode_text(tx.key)
        if tx.headers:
            headers = [b"[%b,%b]" % (json.dumps(name).encode(), _encode_text(text)) for name, text in tx.headers]
            members += b',"headers":[%b]' % b",".join(headers)
        yield tx.append_ms, b'{"at":%d%b,"tx":%b}' % (tx.append_ms, members, _encode_record(tx.value))
        expected[tx.partition] = tx.offset + 1


def _encode_record(value: bytes | None) -> bytes:
    """Encode a record as JSON from which `_read_record` restores the exact bytes."""
    return value if value is not None and _is_plain_object(value) else _encode_text(value)


def _encode_text(value: bytes | None) -> bytes:
    """Encode bytes as a string from which `_bytes_of` restores them; none as null."""
    return b"null" if value is None else json.dumps(value.decode("utf-8", "surrogateescape")).encode()


def _is_plain_object(value: bytes) -> bool:
    """Whether every JSON reader accepts the bytes as one JSON object."""
    if not (value.startswith(b"{") and value.endswith(b"}")) or value.count(b"{") + value.count(b"[") > _PLAIN_BRACKETS:
        return False
    try:
        msgspec.json.decode(value, type=dict[str, msgspec.Raw])
        json.loads(value.decode())
    except (msgspec.MsgspecError, ValueError):
        return False
    return True


def _join_lines(items: Iterable[bytes]) -> Iterator[bytes]:
    """Put one item on each line, separated by commas."""
    for position, item in enumerate(items):
        yield b",\n" + item if position else item
    yield b"\n"
