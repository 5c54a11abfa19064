"""Class archives: a JVM maps an archive instead of reading, parsing and verifying some ten thousand classes.

The idea is the JDK's (JEP 350, dynamic class data sharing). The JVM checks its own version, the class path, and the
size and time of each jar. It ignores an archive that does not fit, so an archive can never be stale. But a truncated
archive crashes the JVM. So a file beside the archive has its size, and an archive of another size is not used.

A JVM before Java 21 archives no class of a jar whose path has a character that a URL escapes, such as a space: it
compares the path with the URL of the class. It resolves symbolic links first, so only hard links help.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from fraud_rules.runtime.atomic_file import replaced_file, write_file
from fraud_rules.runtime.caches.folder import cache_root

# By default the JVM prints warnings and errors for an archive that does not fit, and a warning for each class that it
# cannot archive.
_SILENT = "-Xlog:cds*=off,class+path*=off"
_ERRORS = "-Xlog:cds*=error,class+path*=error"


def archivable(jars: Path) -> Path:
    """A folder with these jars whose classes a JVM can archive.

    It is the folder itself, or a folder of hard links in the user's cache if the path has a character that a URL
    escapes. If the cache is on another file system, the folder itself is returned, and the archive has less effect.
    """
    if quote(str(jars)) == str(jars):
        return jars
    cache = cache_root()
    files = sorted(jars.glob("*.jar"))
    stats = [(path.name, path.stat().st_ino, path.stat().st_mtime_ns) for path in files]
    place = f"jars-{_digest(str(jars))}-"
    links = cache / f"{place}{_digest(repr(stats))}"
    if quote(str(links)) != str(links):
        return jars
    with suppress(OSError):
        if not links.is_dir():
            _link(files, links)
            for outdated in set(cache.glob(f"{place}*")) - {links}:
                shutil.rmtree(outdated, ignore_errors=True)
    return links if links.is_dir() else jars


def _link(files: list[Path], links: Path) -> None:
    """Create the folder in one step, because several processes may do so at once."""
    links.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=links.parent))
    try:
        for path in files:
            (fresh / path.name).hardlink_to(path)
        fresh.rename(links)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


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
