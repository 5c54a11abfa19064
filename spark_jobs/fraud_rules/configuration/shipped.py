"""The files that come with the code: the configuration with which an installation begins, and pages of documents."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from fraud_rules.errors import InputInvalid

RUNBOOK_PAGES: Final = Path("docs", "runbooks")
"""The folder of the runbooks below `shipped()`."""

_OF_THIS_CHECKOUT: Final = ("images", "ivy.xml", "jars.sha256", "broker.properties")
"""Files of config/ that a wheel does not contain: they build images and start the local broker."""


def shipped() -> Path:
    """The folder with `config` and `docs`: a part of the package in a wheel, else the checkout."""
    packaged = Path(__file__).resolve().parents[1] / "shipped"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3]


def create_installation(root: Path) -> Path:
    """Write the configuration into the new folder `root`/config, and return that folder.

    Raises InputInvalid if the folder exists or cannot be written.
    """
    config = root / "config"
    try:
        shutil.copytree(shipped() / "config", config, ignore=shutil.ignore_patterns(*_OF_THIS_CHECKOUT))
    except FileExistsError as error:
        raise InputInvalid(f"{config} exists: name a folder without a config/") from error
    except OSError as error:
        raise InputInvalid(f"{config} cannot be written: {error.strerror}") from error
    return config
