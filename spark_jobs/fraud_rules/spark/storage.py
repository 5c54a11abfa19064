"""Reads and writes small files in a checkpoint's folder, on this host's disk or on another file system through Hadoop.

`pyarrow.fs` has the same file systems, but not the guarantees that pins and markers need. None of its file systems can
create a file only if it is absent. Its local file system syncs nothing to disk, and its S3 file system copies instead
of renaming. HDFS needs libhdfs, and S3 a second set of credentials beside Spark's. Spark's own manager of checkpoint
files gives the guarantees on each file system that can hold a checkpoint.
"""

from __future__ import annotations

import posixpath
import shutil
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from fraud_rules.errors import CheckpointDamaged
from fraud_rules.runtime.atomic_file import create_file, write_file
from fraud_rules.runtime.file_lock import FileLock

_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$"
_EXISTS = "FileAlreadyExistsException"
_MISSING = ("FileNotFoundException", "NoSuchFileException")


_IN_USE = ".in-use"


class Folder(Protocol):
    """A folder whose files are written atomically. Names are relative paths with slashes.

    Every method raises CheckpointDamaged if the file system fails.
    """

    root: str

    def names(self, folder: str = "") -> list[str]:
        """The names in a sub-folder, sorted. Empty if it does not exist."""

    def read(self, name: str) -> bytes | None:
        """The content of a file. None if it does not exist."""

    def create(self, name: str, content: bytes, *, replace: bool = False) -> bool:
        """Write a file. Without `replace`, leave an existing file unchanged and return False."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    def exists(self, name: str) -> bool:
        """Whether a file or folder exists."""

    def hold(self, *, exclusive: bool = False) -> bool:
        """Lock the folder: shared while this process uses it, or `exclusive` to set it aside.

        Returns False if another process holds an incompatible lock. Only a disk has locks; elsewhere the result is
        always True.
        """

    def release(self) -> None:
        """Release the lock."""

    def beside(self, suffix: str) -> Folder:
        """The folder with the name of this one and a suffix."""

    def move(self, root: str) -> bool:
        """Rename the folder to an unused name. Return False if the folder does not exist."""

    def remove(self) -> None:
        """Delete the folder and its content, if it exists."""


class DiskFolder:
    """A folder on this host's disk. There, Hadoop's client would start a process for each file that it creates."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self.root = str(self._path)
        self._held: FileLock | None = None

    def names(self, folder: str = "") -> list[str]:
        try:
            return sorted(path.name for path in (self._path / folder).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._damaged(folder, error) from error

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._damaged(name, error) from error

    def create(self, name: str, content: bytes, *, replace: bool = False) -> bool:
        path = self._path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not replace:
                return create_file(path, content)
            write_file(path, content)
        except OSError as error:
            raise self._damaged(name, error) from error
        return True

    def delete(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        return (self._path / name).exists()

    def hold(self, *, exclusive: bool = False) -> bool:
        self.release()
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._held = FileLock(self._path / _IN_USE)
            if self._held.acquire(shared=not exclusive):
                return True
        except OSError as error:
            raise self._damaged(_IN_USE, error) from error
        self.release()
        return False

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def beside(self, suffix: str) -> DiskFolder:
        return DiskFolder(self._path.with_name(self._path.name + suffix))

    def move(self, root: str) -> bool:
        try:
            self._path.rename(root)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._damaged("", error) from error
        return True

    def remove(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)

    def _damaged(self, name: str, error: OSError) -> CheckpointDamaged:
        return CheckpointDamaged(f"{self.root}/{name} cannot be used: {error.strerror}")


class HadoopFolder:
    """A folder on any file system that Hadoop supports, through the driver's JVM."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        self._spark = spark
        self._jvm = jvm
        self._conf: Any = session.sessionState().newHadoopConf()
        path: Any = jvm.org.apache.hadoop.fs.Path(root)
        self._fs = path.getFileSystem(self._conf)
        self.root: str = self._fs.makeQualified(path).toString()
        self._to_bytes = jvm.org.apache.commons.io.IOUtils.toByteArray
        companion = jvm.java.lang.Class.forName(_MANAGER).getField("MODULE$").get(None)
        # Spark's manager writes a file atomically on this file system, by a rename or by a means of the store.
        self._manager: Any = companion.create(jvm.org.apache.hadoop.fs.Path(self.root), self._conf)

    def names(self, folder: str = "") -> list[str]:
        try:
            return sorted(status.getPath().getName() for status in self._fs.listStatus(self._path(folder)))
        except Py4JJavaError as error:
            if _is(error, *_MISSING):
                return []
            raise self._damaged(folder, error) from error

    def read(self, name: str) -> bytes | None:
        try:
            stream = self._fs.open(self._path(name))
        except Py4JJavaError as error:
            if _is(error, *_MISSING):
                return None
            raise self._damaged(name, error) from error
        try:
            return bytes(self._to_bytes(stream))
        except Py4JJavaError as error:
            raise self._damaged(name, error) from error
        finally:
            stream.close()

    def create(self, name: str, content: bytes, *, replace: bool = False) -> bool:
        if not replace and self.exists(name):
            return False
        try:
            self._fs.mkdirs(self._path(posixpath.dirname(name)))
            stream = self._manager.createAtomic(self._path(name), replace)
            stream.write(bytearray(content))
            stream.close()
        except Py4JJavaError as error:
            if _is(error, _EXISTS):
                return False
            raise self._damaged(name, error) from error
        return True

    def delete(self, name: str) -> None:
        self._fs.delete(self._path(name), False)

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._path(name)))

    def hold(self, *, exclusive: bool = False) -> bool:
        return True

    def release(self) -> None:
        pass

    def beside(self, suffix: str) -> HadoopFolder:
        return HadoopFolder(self._spark, self.root + suffix)

    def move(self, root: str) -> bool:
        try:
            return bool(self._fs.rename(self._path(""), self._jvm.org.apache.hadoop.fs.Path(root)))
        except Py4JJavaError as error:
            if _is(error, *_MISSING):
                return False
            raise self._damaged("", error) from error

    def remove(self) -> None:
        self._fs.delete(self._path(""), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)

    def _damaged(self, name: str, error: Py4JJavaError) -> CheckpointDamaged:
        text = " ".join(str(error.java_exception.toString()).split())
        return CheckpointDamaged(f"{self.root}/{name} cannot be used: {text[:300]}")


def _is(error: Py4JJavaError, *names: str) -> bool:
    return error.java_exception.getClass().getSimpleName() in names
