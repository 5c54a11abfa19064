"""A SPARK_HOME for a local Spark, whose Python workers import pyspark from a folder with bytecode.

Spark puts `python/lib/pyspark.zip` of its home first in the path of every Python worker. Python caches no bytecode for
a zip file, so each worker compiles its imports. That adds half of the CPU time of a worker's start, which must end
within Spark's limit of ten seconds. Here a folder with the name of the zip file links to the installed package.

Spark puts the jar of slf4j-api into the class path twice: by its name, and with all jars. Java 21 ignores a class
archive if a jar comes again before the end of the path. So this jar has another name here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import py4j
import pyspark

from fraud_rules.runtime.caches.class_archive import archivable

_FIRST: Final = "slf4j-"
"""The prefix of the jar that Spark's launcher finds by its name."""

_LAYOUT: Final = 2
"""The number of the layout below. An older release of this product has a home of its own."""


def spark_home() -> Path:
    """The path of the home, a folder of links to the installed Spark. Several processes may create it at once."""
    installed = Path(pyspark.__file__).parent
    jars = archivable(installed / "jars")
    source = installed if jars.parent == installed else jars
    mark = hashlib.blake2b(f"{source} {_LAYOUT}".encode(), digest_size=8).hexdigest()
    home = Path(tempfile.gettempdir()) / f"fraud-rules-{os.getuid()}" / f"spark-{pyspark.__version__}-{mark}"
    if _is_whole(home):
        return home
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.parent.stat().st_uid != os.getuid():
        return installed
    fresh = Path(tempfile.mkdtemp(dir=home.parent))
    for part in ("bin", "sbin"):
        (fresh / part).symlink_to(installed / part)
    (fresh / "jars").mkdir()
    for jar in sorted(jars.glob("*.jar")):
        (fresh / "jars" / jar.name.removeprefix(_FIRST)).symlink_to(jar)
    for package, archive in ((installed, "pyspark.zip"), (Path(py4j.__file__).parent, _py4j_archive(installed))):
        folder = fresh / "python" / "lib" / archive
        folder.mkdir(parents=True)
        (folder / package.name).symlink_to(package)
    try:
        fresh.rename(home)
    except OSError:
        shutil.rmtree(fresh)
    return home if _is_whole(home) else installed


def _is_whole(home: Path) -> bool:
    return (home / "bin" / "spark-submit").exists() and (home / "python/lib/pyspark.zip/pyspark/worker.py").exists()


def _py4j_archive(installed: Path) -> str:
    return next((path.name for path in (installed / "python" / "lib").glob("py4j-*.zip")), "py4j.zip")
