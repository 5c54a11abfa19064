"""Spills large outputs of workers to files: a row holds the output itself, or the name of its file.

All collected rows pass through the driver's JVM. A batch whose alerts do not fit there would fail at every repetition.
"""

from __future__ import annotations

import posixpath
import uuid
from dataclasses import dataclass
from typing import Final

from pyarrow import fs

from fraud_rules.runtime.compression import compress, decompress

FOLDER: Final = "outputs"

_INLINE: Final = b"\x00"
_FILE: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class Spill:
    """The spill files of a checkpoint, on a file system that workers and driver share. `limit_bytes` bounds a row."""

    checkpoint: str
    limit_bytes: int

    def pack(self, output: bytes, batch_id: int) -> bytes:
        """Pack an output into a row, and write a file for a large output. Each attempt of a task has separate files."""
        compressed = compress(output)
        if len(compressed) <= self.limit_bytes:
            return _INLINE + compressed
        name = f"{batch_id}/{uuid.uuid4().hex}"
        system, root = self.system()
        path = posixpath.join(root, name)
        system.create_dir(posixpath.dirname(path), recursive=True)
        with system.open_output_stream(path) as stream:
            stream.write(compressed)
        return _FILE + name.encode()

    def unpack(self, row: bytes) -> bytes:
        """Unpack the output of a row."""
        kind, rest = row[:1], row[1:]
        if kind == _INLINE:
            return decompress(rest)
        system, root = self.system()
        with system.open_input_stream(posixpath.join(root, rest.decode())) as stream:
            return decompress(bytes(stream.read()))

    def clean(self) -> None:
        """Remove all files. Call this only when no batch runs."""
        system, root = self.system()
        if system.get_file_info(root).type is fs.FileType.Directory:
            system.delete_dir(root)

    def system(self) -> tuple[fs.FileSystem, str]:
        """The file system and the folder of the files."""
        system, root = fs.FileSystem.from_uri(self.checkpoint)
        return system, posixpath.join(root, FOLDER)


def is_file(row: bytes) -> bool:
    """Whether the row holds the name of a file."""
    return row[:1] == _FILE
