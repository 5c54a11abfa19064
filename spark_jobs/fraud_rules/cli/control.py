"""`fraud control`: the commands of the rule control plane, which lives with Airflow's plugins and not in this
package.
"""

from __future__ import annotations

import runpy
import sys

import typer

from fraud_rules.errors import ConfigError
from fraud_rules.project import Project

_MODULE = "fraud_ops.control_plane"


def control(context: typer.Context) -> None:
    """The rule control plane's store: audit chain, outbox, drift. `fraud control --help` lists the commands.

    \b
    Examples:
      fraud control audit verify
      fraud control drift
    """
    plugins = Project.find().root / "plugins"
    if not (plugins / "fraud_ops" / "control_plane").is_dir():
        raise ConfigError(f"{plugins} has no control plane: run this where Airflow's plugins are")
    if str(plugins) not in sys.path:
        sys.path.insert(0, str(plugins))
    sys.argv = ["fraud control", *context.args]
    runpy.run_module(_MODULE, run_name="__main__")
