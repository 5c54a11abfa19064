"""`fraud control`: the commands of the rule control plane, which is part of the Airflow plugins."""

from __future__ import annotations

import runpy
import sys

import typer

from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError

_MODULE = "fraud_control"


def control(context: typer.Context) -> None:
    """Work through the API of the control plane, and check its store. See `fraud control --help`.

    \b
    Examples:
      fraud control rules list
      fraud control audit verify
    """
    plugins = Project.find().root / "plugins"
    if not (plugins / _MODULE).is_dir():
        raise ConfigError(f"{plugins} has no control plane: run this command in a checkout with the Airflow plugins")
    if str(plugins) not in sys.path:
        sys.path.insert(0, str(plugins))
    sys.argv = ["fraud control", *context.args]
    runpy.run_module(_MODULE, run_name="__main__")
