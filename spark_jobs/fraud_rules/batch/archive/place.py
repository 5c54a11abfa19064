"""Where the archive is: a folder that every host mounts under the same path, or a prefix in a bucket of an S3 store.

An object store has no locks, renames and folders. Its objects appear whole, and it creates an object only if there is
none, if the request says so (`If-None-Match`).
"""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

from upath import UPath

from fraud_rules.errors import ConfigError
from fraud_rules.runtime.atomic_file import create_file, write_file

ArchivePath: TypeAlias = Path | UPath
"""A path in a folder or in an object store. Both have the methods of `pathlib`."""

_S3: Final = re.compile(r"s3[an]?://(?P<bucket>[^/]+)/(?P<key>.*[^/])/*")
_FILE: Final = re.compile("^file:(//)?")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONNECT_S: Final = 10
_READ_S: Final = 60
_ATTEMPTS: Final = 5


def archive_path(place: str) -> ArchivePath:
    """The place of an archive: a path, a `file:` URI, or `s3://BUCKET/PREFIX`. Raises ConfigError for anything else.

    `s3a:` is another name of `s3:`. The keys, the region and the endpoint come from the environment, as for all clients
    of S3 (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, instance roles).
    """
    found = _S3.fullmatch(place)
    if found is None:
        return _folder(place)
    if find_spec("s3fs") is None:
        raise ConfigError(f"{place}: this environment has no client of S3: install fraud-rules[s3]")
    limits = {
        "connect_timeout": _CONNECT_S,
        "read_timeout": _READ_S,
        "retries": {"mode": "standard", "total_max_attempts": _ATTEMPTS},
    }
    # Each process of a job writes objects, so a listing is never taken from memory.
    return UPath(f"s3://{found['bucket']}/{found['key']}", use_listings_cache=False, config_kwargs=limits, anon=False)


def _folder(place: str) -> Path:
    """The folder of a path or a `file:` URI, whose locks and hard links the archive uses. Any other URI is wrong."""
    plain = _FILE.sub("", place, count=1)
    if _SCHEME.match(plain):
        raise ConfigError(f"{place}: the archive must be a folder that all hosts mount, or s3://BUCKET/PREFIX")
    return Path(plain).absolute()


def unreachable_errors() -> tuple[type[Exception], ...]:
    """The errors of an object store that does not answer. Without a client of S3, there are only those of a folder."""
    if find_spec("botocore") is None:
        return (TimeoutError,)
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError, TimeoutError


def is_local(path: ArchivePath) -> bool:
    """Whether the path is in the host's file system."""
    return isinstance(path, Path)


def make_folder(path: ArchivePath) -> None:
    """Create a folder. An object store has none."""
    if isinstance(path, Path):
        path.mkdir(parents=True, exist_ok=True)


def create(path: ArchivePath, content: bytes) -> bool:
    """Write a file that does not exist yet. Returns False, and changes nothing, if it exists. Raises OSError."""
    if isinstance(path, Path):
        return create_file(path, content)
    try:
        path.fs.pipe_file(path.path, content, mode="create")
    except FileExistsError:
        return False
    return True


def put(path: ArchivePath, content: bytes) -> None:
    """Write or replace a file, which readers see whole. Raises OSError."""
    if isinstance(path, Path):
        write_file(path, content)
    else:
        path.write_bytes(content)


def remove_tree(path: ArchivePath) -> None:
    """Remove a folder with its content, as far as possible."""
    if isinstance(path, Path):
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        path.fs.rm(path.path, recursive=True)
    except OSError:
        return  # the next run removes it
