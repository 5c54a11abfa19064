"""The demo's installation: the files of the project, and a schema whose payments have places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from fraud_demo.places import PLACE_FIELDS
from fraud_rules.cli.configured import CommandContext
from fraud_rules.configuration.project import Project
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.yaml_file import read_yaml

_SCHEMA: Final = "schema.yaml"
_FOLDERS: Final = ("dags", "docs", "lib", "plugins", "spark_jobs", "var")


def demo_schema(project: Project) -> TransactionSchema:
    """The project's schema with the fields of a place."""
    return TransactionSchema.parse(_document(project), _SCHEMA, project.config)


def demo_context(context: CommandContext, root: Path) -> CommandContext:
    """The context of the demo, whose files `write_installation` writes below `root`."""
    return replace(context, project=Project(root), schema=demo_schema(context.project))


def write_installation(root: Path, project: Project) -> None:
    """Link the project's files into the new folder `root`, so that a change of a rule file applies there too."""
    config = root / "config"
    config.mkdir(parents=True)
    for folder in _FOLDERS:
        (root / folder).symlink_to(project.root / folder)
    for file in project.config.iterdir():
        if file.name != _SCHEMA:
            (config / file.name).symlink_to(file)
    (config / _SCHEMA).write_text(yaml.safe_dump(_document(project), sort_keys=False), encoding="utf-8")


def _document(project: Project) -> dict[str, Any]:
    document: dict[str, Any] = read_yaml(project.config / _SCHEMA)
    declared = {each["name"] for each in document["fields"]}
    return {**document, "fields": [*document["fields"], *(f for f in PLACE_FIELDS if f["name"] not in declared)]}
