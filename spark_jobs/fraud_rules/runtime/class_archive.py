"""Class archives: a JVM maps an archive instead of reading, parsing and verifying some ten thousand classes.

The idea is the JDK's (JEP 350, dynamic class data sharing). The JVM checks its own version, the class path, and the
size and time of each jar. It ignores an archive that does not fit, so an archive can never be stale. But a truncated
archive crashes the JVM. So a file beside the archive has its size, and an archive of another size is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fraud_rules.runtime.atomic_file import replaced_file, write_file

__all__ = ["recorded_archive", "sharing_options"]

# By default the JVM prints warnings and errors for an archive that does not fit, and a warning for each class that it
# cannot archive.
_SILENT = "-Xlog:cds*=off,class+path*=off"
_ERRORS = "-Xlog:cds*=error,class+path*=error"


def sharing_options(archive: Path) -> tuple[str, ...]:
    """The options of a JVM that maps this archive; none if it is not whole or does not exist."""
    try:
        is_whole = archive.stat().st_size == int(_size_file(archive).read_bytes())
    except (OSError, ValueError):
        return ()
    return (f"-XX:SharedArchiveFile={archive}", _SILENT) if is_whole else ()


@contextmanager
def recorded_archive(archive: Path) -> Iterator[tuple[str, ...]]:
    """Give the options of a JVM that writes its loaded classes to this archive when it ends.

    The JVM must have ended with exit code 0 at the end of the block. Raises OSError, also if the JVM wrote no archive.
    """
    with replaced_file(archive) as partial:
        yield (f"-XX:ArchiveClassesAtExit={partial}", _ERRORS)
        size = partial.stat().st_size
        _size_file(archive).unlink(missing_ok=True)
    write_file(_size_file(archive), b"%d\n" % size)


def _size_file(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.size")
