"""Where this installation's files are: configuration, jars, and what running leaves behind."""

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
        """What is declared: topics, schema, settings, seed rules."""
        return self.root / "config"

    @property
    def jars(self) -> Path:
        """Jars by configuration of config/ivy.xml: `connector` and `broker`."""
        return self.root / "lib"

    @property
    def var(self) -> Path:
        """What running leaves behind: broker data, checkpoints, logs."""
        return self.root / "var"

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ, start: Path | None = None) -> Project:
        """The project of this process. Raises ConfigError when there is none.

        FRAUD_HOME; else the nearest folder at or above `start` (the current folder) that has a config/topics.yaml; else
        the checkout this module was imported from.
        """
        named = environ.get(HOME_VARIABLE)
        here = (start or Path.cwd()).resolve()
        candidates = [Path(named).resolve()] if named else [here, *here.parents, Path(__file__).resolve().parents[2]]
        for folder in candidates:
            if (folder / _LANDMARK).is_file():
                return cls(folder)
        raise ConfigError(
            f"no {_LANDMARK} in {candidates[0]}: run this in the project's folder, or name it by {HOME_VARIABLE}"
        )


def port_setting(variable: str, default: int, environ: Mapping[str, str] = os.environ) -> int:
    """A TCP port from the environment. Raises ConfigError when it is not one."""
    text = environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 65_535):
        raise ConfigError(f"{variable}={text[:20]!r} is not a port: give a number from 1 to 65535")
    return int(text)
