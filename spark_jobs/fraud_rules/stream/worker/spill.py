"""Large outputs leave the workers as files: a row holds the output itself, or the name of its file.

Everything a query collects passes through the driver's JVM. A batch whose alerts do not fit there would fail, and fail
again each time it is repeated.
"""

from __future__ import annotations

import posixpath
import uuid
from dataclasses import dataclass
from typing import Final

from pyarrow import fs

from fraud_rules.stream.worker.compression import expand, squeeze

FOLDER: Final = "outputs"

_INLINE: Final = b"\x00"
_FILE: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class Spill:
    """The files of a checkpoint, on a file system that workers and driver share; rows have at most `limit_bytes`."""

    checkpoint: str
    limit_bytes: int

    def pack(self, output: bytes, batch_id: int) -> bytes:
        """The row for an output, after writing its file if it needs one. Each attempt of a task has files of its
        own."""
        squeezed = squeeze(output)
        if len(squeezed) <= self.limit_bytes:
            return _INLINE + squeezed
        name = f"{batch_id}/{uuid.uuid4().hex}"
        system, root = self.system()
        path = posixpath.join(root, name)
        system.create_dir(posixpath.dirname(path), recursive=True)
        with system.open_output_stream(path) as stream:
            stream.write(squeezed)
        return _FILE + name.encode()

    def unpack(self, row: bytes) -> bytes:
        """The output of a row."""
        kind, rest = row[:1], row[1:]
        if kind == _INLINE:
            return expand(rest)
        system, root = self.system()
        with system.open_input_stream(posixpath.join(root, rest.decode())) as stream:
            return expand(bytes(stream.read()))

    def clean(self) -> None:
        """Remove all files; call it when no batch is in hand."""
        system, root = self.system()
        if system.get_file_info(root).type is fs.FileType.Directory:
            system.delete_dir(root)

    def system(self) -> tuple[fs.FileSystem, str]:
        """The file system, and the folder on it."""
        system, root = fs.FileSystem.from_uri(self.checkpoint)
        return system, posixpath.join(root, FOLDER)


def is_file(row: bytes) -> bool:
    """Whether the row names a file."""
    return row[:1] == _FILE
