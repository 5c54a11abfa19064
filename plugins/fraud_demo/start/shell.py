"""The file that makes the commands of a shell use the demo: its Kafka, Airflow, store, archive and keys.

The commands of README, docs and runbooks then work beside the demo as they are written.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = "var/demo/environment"
"""The path of the file below the project, for the screen."""

_SHARED: Final = ("AIRFLOW", "FRAUD_CONTROL_", "FRAUD_HOME")


def write_environment(path: Path, site: Mapping[str, str], own: Mapping[str, str]) -> None:
    """Write the file, which has secrets, so that only its owner may read it.

    `site` is the environment of Airflow's components, of which a shell gets the part about Airflow and the control
    plane. `own` are further variables.
    """
    shared = {name: value for name, value in site.items() if name.startswith(_SHARED)}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted({**shared, **own}.items())]
    lines.append(f'export PATH={shlex.quote(str(Path(sys.executable).parent))}:"$PATH"')
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
