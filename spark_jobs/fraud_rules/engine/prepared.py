"""The prepared history of a warm-up: files of a host, with which a batch adds the history without loading its rows.

A task prepares the history of a key group before a pin names the result. It builds the arrays of a grouping state with
these rows, and writes their chunks to the durable store. The batch moves the arrays into the view, names the chunks in
its head, and adds only the rows that the grouping has received since. So its length does not depend on the history. The
files are a cache: without them, the batch loads the rows and gets the same state.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec
import numpy as np

from fraud_rules.engine.state.arrays import MappedArrays, named_full_disk
from fraud_rules.engine.state.chunks import ChunkPart, encode_parts
from fraud_rules.engine.state.grouping_state import GroupingState
from fraud_rules.engine.state.journal import Journal, PreparedChunk, pack_rows, with_arrival_numbers
from fraud_rules.engine.statelog import FIRST_PREPARED, chunk_name
from fraud_rules.model.ruleset import Grouping, GroupingInForce
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

_ARRAYS: Final = "arrays"
_NOTE: Final = "note"


def warm_state_id(version: int) -> int:
    """The id of the grouping state that the rule record `version` has warmed. No other grouping state has it."""
    return FIRST_PREPARED + version


class _Chunk(msgspec.Struct, array_like=True):
    """A chunk: its name, the size of its content, and the newest event time of its rows."""

    name: str
    size_bytes: int
    newest_ms: int


class _Note(msgspec.Struct, array_like=True):
    version: int
    fields: Grouping
    begins_ms: int
    chunks: list[_Chunk]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Note).decode


class ChunkStore(Protocol):
    """Writes prepared chunks to the durable store of a key group's log."""

    def send(self, name: str, content: bytes) -> None:
        """Begin to write a chunk. The store may have it already."""

    def flush(self) -> None:
        """Wait until all chunks are durable."""


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

    def chunks(self) -> Iterator[PreparedChunk]:
        """The chunks in the order of their rows."""
        state_id = warm_state_id(self.note.version)
        for each in self.note.chunks:
            yield PreparedChunk(each.name, self.folder / each.name, each.size_bytes, {state_id: each.newest_ms})

    def leave(self, journal: Journal) -> None:
        """Delete the chunks, because the batch does not use them."""
        for chunk in self.chunks():
            journal.discard_prepared(chunk)

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
    store: ChunkStore,
) -> None:
    """Prepare the history that the rule record `version` adds to `grouping` in one key group.

    `rows` are in arrival order. `grouping` determines the measures; a batch with other rules computes them again.
    Raises StorageFull, and the errors of the store.
    """
    shutil.rmtree(folder, ignore_errors=True)
    numbers = np.arange(-len(rows), 0, dtype=np.int64)
    state = GroupingState.create(schema, grouping.fields, MappedArrays(folder / _ARRAYS))
    state.load(rows, numbers, (), state.plan([grouping]).measures)
    state_id, chunks = warm_state_id(version), list[_Chunk]()
    for piece in pack_rows(with_arrival_numbers(rows, numbers)):
        content = encode_parts([ChunkPart(state_id, piece.packed, None)])
        name = chunk_name(state_id, content)
        store.send(name, content)
        _write(folder / name, content)
        chunks.append(_Chunk(name, len(content), piece.newest_ms))
    store.flush()
    _write(folder / _NOTE, _encode(_Note(version, grouping.fields, begins_ms, chunks)))


def _write(file: Path, content: bytes) -> None:
    with named_full_disk(file.parent, len(content)):
        new = file.with_name(f"{file.name}.new")
        new.write_bytes(content)
        new.rename(file)
