"""`fraud create`: the folder of a new installation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.configuration.project import HOME_VARIABLE
from fraud_rules.configuration.shipped import create_installation


def create(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the installation.")]) -> None:
    """Write the configuration of a new installation: topics, schema, settings, seed rules.

    Each component of the installation reads it: the commands in this folder, the others with FRAUD_HOME.

    \b
    Examples:
      fraud create /opt/fraud-rules
    """
    root = folder.resolve()
    print(f"written: {create_installation(root)}")
    print(f"next: export {HOME_VARIABLE}={root}, then describe your payments: fraud init, docs/connect.md")
