"""Folders that every host of a cluster mounts under the same path: an archive on disks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from fraud_rules.errors import ConfigError

_FILE: Final = re.compile("file:(//)?")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def mounted_folder(place: str, what: str) -> Path:
    """The folder of a path or a `file:` URI. `what` names it in the error.

    Raises ConfigError for any other URI, such as `s3a:` or `hdfs:`. The product uses locks of files and hard links of
    the host's file system.
    """
    plain = _FILE.sub("", place, count=1) if _FILE.match(place) else place
    if _SCHEME.match(plain):
        raise ConfigError(f"{place}: the {what} must be a folder that all hosts mount, not an object store or HDFS")
    return Path(plain).absolute()
