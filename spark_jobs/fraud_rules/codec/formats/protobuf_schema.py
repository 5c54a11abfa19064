"""Message types of Protobuf, from a descriptor set or from the sources that a registry keeps.

`protoc --descriptor_set_out=FILE --include_imports` writes a descriptor set. A registry keeps .proto sources. protoc
compiles them here too, in a process of its own, so that no source can harm this one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

import google.protobuf
from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from fraud_rules.codec.formats.schemas import NamedText, RegisteredSchema
from fraud_rules.errors import Stalled
from fraud_rules.runtime.safe_text import quote

_PROTOC_LIMIT_S: Final = 60.0
_MAX_FAULT: Final = 200
_SOURCE: Final = "registered.proto"
_COMMON: Final = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)


def message_named(content: bytes, name: str) -> Descriptor:
    """The message type with this full name in a descriptor set. Raises ValueError with a fault for people."""
    files = _parse_set(content)
    try:
        return _find(files, name)
    except KeyError as error:
        types = sorted(
            ".".join(filter(None, (file.package, each.name))) for file in files for each in file.message_type
        )
        raise ValueError(f"it has no message type {quote(name)}, but {', '.join(types[:20])}") from error


def message_at(schema: RegisteredSchema, positions: tuple[int, ...]) -> Descriptor:
    """The message type at these positions in the source of the registry. Raises ValueError with a fault for people."""
    files = _parse_set(compile_sources(schema))
    file = next(file for file in files if file.name == _SOURCE)
    names = [file.package] if file.package else []
    types: Iterable[DescriptorProto] = file.message_type
    for position in positions:
        listed = list(types)
        if not 0 <= position < len(listed):
            raise ValueError(f"it has no message type at the position {list(positions)}")
        names.append(listed[position].name)
        types = listed[position].nested_type
    return _find(files, ".".join(names))


def _find(files: Iterable[FileDescriptorProto], name: str) -> Descriptor:
    message: Descriptor = _pool_of(files).FindMessageTypeByName(name)  # type: ignore[no-untyped-call]
    return message


@lru_cache(maxsize=64)
def compile_sources(schema: RegisteredSchema) -> bytes:
    """The descriptor set of a source and its imports. Raises ValueError with a fault for people.

    Raises Stalled if protoc takes too long, which says nothing about the schema: its records must not be rejected.
    """
    with tempfile.TemporaryDirectory(prefix="fraud-protoc-") as name:
        folder = Path(name)
        for source in (*schema.references, NamedText(_SOURCE, schema.text)):
            _write(folder, source)
        packages = Path(google.protobuf.__file__).parents[2]  # with the sources of google.type
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{packages}", "--include_imports"]
        try:
            done = subprocess.run(
                [*command, f"--descriptor_set_out={folder / 'set'}", _SOURCE],
                capture_output=True,
                timeout=_PROTOC_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Stalled(f"protoc has not compiled a schema in {_PROTOC_LIMIT_S:g} s: the host is too slow") from error
        if done.returncode != 0:
            raise ValueError(f"protoc cannot compile it: {_fault(done.stderr.decode(errors='replace'))}")
        return (folder / "set").read_bytes()


def _fault(output: str) -> str:
    """The first fault that protoc names, in printable characters."""
    lines = output.splitlines() or [""]
    return ascii(next((line for line in lines if ".proto:" in line), lines[0])[:_MAX_FAULT])[1:-1]


def _write(folder: Path, source: NamedText) -> None:
    """Write a source under the name by which others import it."""
    path = (folder / source.name).resolve()
    if not path.is_relative_to(folder.resolve()) or path == folder.resolve():
        raise ValueError(f"it imports {quote(source.name)}, which is no name of a source")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source.text, encoding="utf-8")


def _parse_set(content: bytes) -> list[FileDescriptorProto]:
    try:
        files = list(FileDescriptorSet.FromString(content).file)
    except DecodeError as error:
        raise ValueError("no descriptor set: write one with protoc --descriptor_set_out --include_imports") from error
    return files


def _pool_of(files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    """A pool of the files, which may be in any order, and of the common files that they import."""
    common = {module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb for module in _COMMON}
    by_name = {name: FileDescriptorProto.FromString(content) for name, content in common.items()}
    by_name |= {file.name: file for file in files}
    pool, added = DescriptorPool(), set[str]()

    def add(name: str, importer: str) -> None:
        if name in added:
            return
        if name not in by_name:
            raise ValueError(f"{importer} imports {quote(name)}, which is missing: use protoc with --include_imports")
        added.add(name)
        for dependency in by_name[name].dependency:
            add(dependency, name)
        pool.Add(by_name[name])  # type: ignore[no-untyped-call]

    try:
        for name in by_name:
            add(name, name)
    except TypeError as error:
        raise ValueError(f"the descriptor set is inconsistent: {quote(str(error))}") from error
    return pool
