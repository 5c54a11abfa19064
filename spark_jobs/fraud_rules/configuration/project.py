"""Locates this installation's files: configuration, jars and run-time data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fraud_rules.errors import ConfigError

HOME_VARIABLE = "FRAUD_HOME"

_LANDMARK = Path("config", "topics.yaml")


@dataclass(frozen=True, slots=True)
class Project:
    """The folders of one checkout or installation, all under `root`."""

    root: Path

    @property
    def config(self) -> Path:
        """The declarations: topics, schema, settings, seed rules."""
        return self.root / "config"

    @property
    def jars(self) -> Path:
        """The jars of config/ivy.xml, in the folder `broker`, and the class archives."""
        return self.root / "lib"

    @property
    def var(self) -> Path:
        """Run-time data: broker data, logs."""
        return self.root / "var"

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ, start: Path | None = None) -> Project:
        """Find the project of this process. Raises ConfigError if there is none.

        FRAUD_HOME names the folder. Otherwise it is the nearest folder at or above `start` (default: the current
        folder) that has a config/topics.yaml, or else the checkout from which this module was imported.
        """
        named = environ.get(HOME_VARIABLE)
        here = (start or Path.cwd()).resolve()
        candidates = [Path(named).resolve()] if named else [here, *here.parents, Path(__file__).resolve().parents[3]]
        for folder in candidates:
            if (folder / _LANDMARK).is_file():
                return cls(folder)
        raise ConfigError(
            f"no {_LANDMARK} in {candidates[0]}: run this in the project's folder, set {HOME_VARIABLE} to it, or "
            "begin with fraud create"
        )


def port_setting(variable: str, default: int, environ: Mapping[str, str] = os.environ) -> int:
    """Read a TCP port from the environment. Raises ConfigError for an invalid port."""
    text = environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 65_535):
        raise ConfigError(f"{variable}={text[:20]!r} is not a port: give a number from 1 to 65535")
    return int(text)
