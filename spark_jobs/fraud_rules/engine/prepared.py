"""The prepared history of a warm-up: files of a host, with which a batch adds the history without loading its rows.

A task prepares the history of a key group before a pin names the result. It builds the arrays of a grouping state with
these rows, and packs the chunks. The batch moves the arrays into the view and adds only the rows that the grouping has
received since. The files are a cache: without them, the batch loads the rows and gets the same state.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from fraud_rules.engine.state.arrays import MappedArrays, named_full_disk
from fraud_rules.engine.state.chunks import ChunkPart, encode_parts
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.state.journal import PackedChunk, pack_rows, with_arrival_numbers
from fraud_rules.engine.statelog import chunk_digest
from fraud_rules.model.ruleset import Grouping, GroupingInForce
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch
from fraud_rules.runtime.compression import compress

__all__ = ["PreparedHistory", "prepare_history", "warm_state_id"]

_ARRAYS: Final = "arrays"
_NOTE: Final = "note"
_FIRST_WARM_ID: Final = 1 << 40


def warm_state_id(version: int) -> int:
    """The id of the grouping state that the rule record `version` has warmed. No other grouping state has it."""
    return _FIRST_WARM_ID + version


class _Chunk(msgspec.Struct, array_like=True):
    """A chunk: its digest as in its name, and the newest event time of its rows."""

    digest: str
    newest_ms: int


class _Note(msgspec.Struct, array_like=True):
    version: int
    fields: Grouping
    begins_ms: int
    chunks: list[_Chunk]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Note).decode


@dataclass(frozen=True, slots=True)
class PreparedHistory:
    """The prepared history of one key group. `note` describes its files in `folder`."""

    folder: Path
    note: _Note

    @classmethod
    def find(cls, folder: Path) -> PreparedHistory | None:
        """The complete history in a folder. None without one."""
        try:
            return cls(folder, _decode((folder / _NOTE).read_bytes()))
        except (OSError, msgspec.DecodeError):
            return None

    @property
    def arrays(self) -> Path:
        """The folder with the arrays of the grouping state."""
        return self.folder / _ARRAYS

    def chunks(self) -> Iterator[PackedChunk]:
        """The chunks in the order of their rows."""
        state_id = warm_state_id(self.note.version)
        for number, each in enumerate(self.note.chunks):
            plain, packed = (self.folder / f"{kind}-{number}" for kind in ("plain", "packed"))
            newest = {state_id: each.newest_ms}
            yield PackedChunk(each.digest, plain.read_bytes(), packed.read_bytes(), newest)

    def discard(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.folder, ignore_errors=True)


def prepare_history(
    version: int,
    grouping: GroupingInForce,
    rows: TransactionBatch,
    begins_ms: int,
    schema: TransactionSchema,
    folder: Path,
) -> None:
    """Prepare the history that the rule record `version` adds to `grouping` in one key group.

    `rows` are in arrival order. `grouping` determines the measures; a batch with other rules computes them again.
    Raises StorageFull.
    """
    shutil.rmtree(folder, ignore_errors=True)
    numbers = np.arange(-len(rows), 0, dtype=np.int64)
    state = GroupingState.create(schema, grouping.fields, MappedArrays(folder / _ARRAYS))
    state.load(rows, numbers, (), state.plan([grouping]).measures)
    chunks: list[_Chunk] = []
    for number, piece in enumerate(pack_rows(with_arrival_numbers(rows, numbers))):
        plain = encode_parts([ChunkPart(warm_state_id(version), piece.packed, None)])
        _write(folder / f"plain-{number}", plain)
        _write(folder / f"packed-{number}", compress(plain))
        chunks.append(_Chunk(chunk_digest(plain), piece.newest_ms))
    _write(folder / _NOTE, _encode(_Note(version, grouping.fields, begins_ms, chunks)))


def _write(file: Path, content: bytes) -> None:
    with named_full_disk(file.parent, len(content)):
        new = file.with_name(f"{file.name}.new")
        new.write_bytes(content)
        new.rename(file)
