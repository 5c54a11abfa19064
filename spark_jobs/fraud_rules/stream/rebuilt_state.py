"""Hands the recomputed state of key groups from the driver to the workers, as files that Spark distributes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark import SparkFiles
from pyspark.sql import SparkSession

__all__ = ["restored_state", "share_state"]

_FILE: Final = "fraud-state-{}"


def share_state(spark: SparkSession, images: Mapping[int, bytes]) -> tempfile.TemporaryDirectory[str]:
    """Send the images to every worker. The returned folder must exist while the first batch runs."""
    folder = tempfile.TemporaryDirectory(prefix="fraud-rebuild-")
    for key_group, image in images.items():
        file = Path(folder.name, _FILE.format(key_group))
        file.write_bytes(image)
        spark.sparkContext.addFile(str(file))
    return folder


def restored_state(key_group: int) -> bytes | None:
    """The image of a key group, None if it is empty. Call this in a worker."""
    file = Path(SparkFiles.get(_FILE.format(key_group)))
    return file.read_bytes() if file.exists() else None
