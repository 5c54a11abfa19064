"""Small files beside a checkpoint, on whatever file system it is: Hadoop's client, through the driver's JVM."""

from __future__ import annotations

import posixpath
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from fraud_rules.errors import CheckpointDamaged

_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$"
_EXISTS = "FileAlreadyExistsException"
_MISSING = ("FileNotFoundException", "NoSuchFileException")


class Folder:
    """A folder of a Hadoop file system. Files appear whole or not at all."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()
        path: Any = jvm.org.apache.hadoop.fs.Path(root)
        self._fs = path.getFileSystem(self._conf)
        self.root: str = self._fs.makeQualified(path).toString()
        self._to_bytes = jvm.org.apache.commons.io.IOUtils.toByteArray
        self._manager: Any = None
        self._made: set[str] = set()

    def names(self, folder: str = "") -> list[str]:
        """What is in a sub-folder, sorted; nothing when it does not exist."""
        try:
            return sorted(status.getPath().getName() for status in self._fs.listStatus(self._path(folder)))
        except Py4JJavaError as error:
            if _is(error, *_MISSING):
                return []
            raise self._damaged(folder, error) from error

    def read(self, name: str) -> bytes | None:
        """A file's content; None when there is no such file."""
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
        """Write a file whole; False, and nothing changed, when it exists and is not to be replaced."""
        manager = self._checkpoint_manager()
        parent = posixpath.dirname(name)
        if parent not in self._made:
            self._fs.mkdirs(self._path(parent))
            self._made.add(parent)
        if not replace and self._fs.exists(self._path(name)):
            return False
        try:
            stream = manager.createAtomic(self._path(name), replace)
            stream.write(bytearray(content))
            stream.close()
        except Py4JJavaError as error:
            if _is(error, _EXISTS):
                return False
            raise self._damaged(name, error) from error
        return True

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._fs.delete(self._path(name), False)

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._fs.exists(self._path(name)))

    def _checkpoint_manager(self) -> Any:
        """Spark's own way to write a file whole on this file system (by rename, or a store's own means)."""
        if self._manager is None:
            companion = self._jvm.java.lang.Class.forName(_MANAGER).getField("MODULE$").get(None)
            self._manager = companion.create(self._jvm.org.apache.hadoop.fs.Path(self.root), self._conf)
        return self._manager

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}" if name else self.root)

    def _damaged(self, name: str, error: Py4JJavaError) -> CheckpointDamaged:
        text = " ".join(str(error.java_exception.toString()).split())
        return CheckpointDamaged(f"{self.root}/{name} cannot be used: {text[:300]}")


def _is(error: Py4JJavaError, *names: str) -> bool:
    return error.java_exception.getClass().getSimpleName() in names
