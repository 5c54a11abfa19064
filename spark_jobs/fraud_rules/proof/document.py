"""The file of a proof: a zip of JSON, with a digest of its bytes as its comment. docs/proof.md describes it."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from fraud_rules.errors import ProofInvalid
from fraud_rules.proof.plain.rows import Boundary

FORMAT: Final = 1
"""The format of the files of this version. A file of another format is rejected, even if its parts can be decoded."""

EvaluationOrder: TypeAlias = Literal["arrival", "event"]
"""The order in which payments were evaluated: that of a detector, or that of a re-evaluation, by event time first."""

_CLOCK: Final = (1980, 1, 1, 0, 0, 0)
_MOST_BYTES: Final = 256 * 1024 * 1024


class Bytes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The bytes of a record: as text if they are UTF-8, else in base64. None for a tombstone."""

    text: str | None = None
    base64: str | None = None

    @classmethod
    def of(cls, value: bytes | None) -> Bytes:
        """The document of these bytes."""
        if value is None:
            return cls()
        try:
            return cls(text=value.decode())
        except UnicodeDecodeError:
            return cls(base64=base64.b64encode(value).decode())

    @property
    def value(self) -> bytes | None:
        """The bytes."""
        if self.base64 is not None:
            return base64.b64decode(self.base64, validate=True)
        return None if self.text is None else self.text.encode()


def headers_of(headers: Sequence[tuple[str, bytes | None]]) -> list[tuple[str, Bytes]]:
    """The document of the headers of a record."""
    return [(name, Bytes.of(value)) for name, value in headers]


class ProvedPayment(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A record of the payments' topic. `crc32` is that of its value. `batch` is the number of its batch in `batches`,
    and `retained_from` the retention bound of the key group right before the payment. The value of an `archived`
    payment is JSON of the values that the archive has."""

    partition: int
    offset: int
    append_ms: int
    batch: int
    retained_from: int
    crc32: int
    value: Bytes
    key: Bytes | None = None
    headers: list[tuple[str, Bytes]] = []
    archived: bool = False


class ProvedBatch(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A batch: the end of the rule log that it saw, and the payments' offsets where it starts and ends."""

    number: int
    rules_end: int
    starts: dict[str, int]
    ends: dict[str, int]
    time_zones: str = ""


class ProvedRule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A record of the rule log. `time_ms` is its rule time: the largest append time up to it."""

    offset: int
    append_ms: int
    time_ms: int
    value: Bytes
    headers: list[tuple[str, Bytes]] = []


class KeyGroupBounds(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The key group of the payment and its bounds right before the payment. `history_start` is None if the proof's
    maker could not read the beginning of the history."""

    key_group: int
    key_groups: int
    watermark: int
    retained_from: int
    history_start: int | None = None


class Statement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the proof says beside its records.

    `partition` and `offset` are the place of the payment, `role` is that of its row in a grouping by an entity.
    `incarnation` is the record that added the rule. `settings` bound the payments that are readable. `missing` names
    what the proof's maker could not read. `is_warm`: a warm-up has added payments from before the grouping to its
    history. `order`: an alert that a re-evaluation added has the order of event times. `restrictions` has the
    restriction of the alert, and the record that lifted it. `is_retracted`: the proof shows that the alert does not
    follow in the order of event times.
    """

    format: int
    product: str
    made_at: int
    topic: str
    partition: int
    offset: int
    rule_id: int
    rule_version: int
    incarnation: int
    batch: int
    bounds: KeyGroupBounds
    settings: dict[str, int]
    boundaries: list[Boundary]
    earlier_alerts: list[msgspec.Raw] = []
    missing: list[str] = []
    role: str | None = None
    is_warm: bool = False
    order: EvaluationOrder = "arrival"
    restrictions: list[msgspec.Raw] = []
    is_retracted: bool = False


class ProvedAuditRow(msgspec.Struct, frozen=True, rename="camel"):
    """A row of the audit log of the control plane, with the texts that its hash covers."""

    seq: int
    at_ms: int
    who: str
    action: str
    subject: str
    rule_id: int | None
    before: str
    after: str
    previous_hash: str
    hash: str
    program: str | None = None
    list_name: str | None = None
    map_name: str | None = None


class Proof(msgspec.Struct, frozen=True):
    """A proof: its parts are the files of the zip."""

    statement: Statement
    alert: bytes
    schema: str
    payments: Sequence[ProvedPayment]
    rules: Sequence[ProvedRule]
    batches: Sequence[ProvedBatch]
    audit: Sequence[ProvedAuditRow] = ()


_Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]*$")]
"""Hex has one form, so that no byte of a seal can change."""


class Seal(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The comment of the zip: the SHA-256 of all bytes before it, in hex, and an Ed25519 signature of that text."""

    sha256: _Hex
    public_key: _Hex = ""
    signature: _Hex = ""


_PARTS: Final[Mapping[str, Any]] = {
    "statement.json": Statement,
    "payments.json": list[ProvedPayment],
    "rules.json": list[ProvedRule],
    "batches.json": list[ProvedBatch],
    "audit.json": list[ProvedAuditRow],
}
_TEXTS: Final = ("alert.json", "schema.yaml")
_DAMAGE: Final = (ValueError, KeyError, RuntimeError, NotImplementedError, OSError, EOFError, OverflowError)
"""What the standard library raises for a zip with changed bytes, beside errors of its own."""

_encode = msgspec.json.Encoder().encode


def checksum(value: bytes | None) -> int:
    """The CRC-32 of a record's value."""
    return zlib.crc32(value or b"")


def _texts_of(proof: Proof) -> Mapping[str, bytes]:
    """The files of a proof by name."""
    parts = {name: getattr(proof, name.partition(".")[0]) for name in _PARTS}
    encoded = {name: msgspec.json.format(_encode(part), indent=1) + b"\n" for name, part in parts.items()}
    return {
        "statement.json": encoded.pop("statement.json"),
        "alert.json": proof.alert,
        "schema.yaml": proof.schema.encode(),
        **encoded,
    }


def write_file(proof: Proof, sign: Any = None) -> bytes:
    """The bytes of the file. `sign` makes the public key and the signature of a digest, both in hex."""
    return sealed_zip(_texts_of(proof), sign)


def sealed_zip(texts: Mapping[str, bytes], sign: Any = None) -> bytes:
    """A zip of files by name, with its seal."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name, _CLOCK), text, zipfile.ZIP_DEFLATED)
    head = content.getvalue()[:-2]  # without the length of the comment
    digest = hashlib.sha256(head).hexdigest()
    seal = Seal(digest) if sign is None else Seal(digest, *sign(digest))
    comment = _encode(seal)
    return head + len(comment).to_bytes(2, "little") + comment


def seal_of(content: bytes) -> tuple[Seal, str]:
    """The seal of a file, and the digest of the bytes before it. Raises ProofInvalid."""
    at = content.rfind(b'{"sha256":"')
    try:
        seal = msgspec.json.decode(content[at:], type=Seal)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProofInvalid(f"the end of the file is no digest: {error}") from error
    if at < 2 or content[at - 2 : at] != len(content[at:]).to_bytes(2, "little") or _encode(seal) != content[at:]:
        raise ProofInvalid("the end of the file is no digest")
    return seal, hashlib.sha256(content[: at - 2]).hexdigest()


class _Edition(msgspec.Struct):
    format: int


def check_format(statement: bytes) -> None:
    """Raises ProofInvalid if a statement has another format than this version reads, and msgspec's errors."""
    found = msgspec.json.decode(statement, type=_Edition).format
    if found != FORMAT:
        raise ProofInvalid(
            f"the file has format {found}, but this version reads {FORMAT}: use the release that the member `product` "
            "of its statement names"
        )


def unzipped(content: bytes) -> dict[str, bytes]:
    """The files of a zip by name. Raises ProofInvalid, which names the file that is damaged."""
    name = "the zip"
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = {each.filename: each for each in archive.infolist()}
            if sum(each.file_size for each in infos.values()) > _MOST_BYTES:
                raise ProofInvalid(f"the files of the zip have more than {_MOST_BYTES:,} bytes")
            texts = {}
            for name in infos:
                texts[name] = archive.read(name)
            return texts
    except (*_DAMAGE, zipfile.BadZipFile, zlib.error, struct.error) as error:
        raise ProofInvalid(f"{name} is damaged: {error}") from error


def read_file(content: bytes) -> Proof:
    """Read the parts of a file. Raises ProofInvalid, which names the part that is damaged, or another format."""
    texts, name, parts = unzipped(content), "statement.json", {}
    try:
        if name in texts:
            check_format(texts[name])
        if sorted(texts) != sorted((*_PARTS, *_TEXTS)):
            raise ProofInvalid(f"the file has other parts than a proof: {', '.join(sorted(texts))}")
        for name, kind in _PARTS.items():
            parts[name.partition(".")[0]] = msgspec.json.decode(texts[name], type=kind)
        name = "schema.yaml"
        return Proof(**parts, alert=texts["alert.json"], schema=texts["schema.yaml"].decode())
    except (ValueError, msgspec.MsgspecError) as error:
        raise ProofInvalid(f"{name} is damaged: {error}") from error
