"""The configuration that most commands read first."""

from __future__ import annotations

from dataclasses import dataclass

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.schema import TransactionSchema


@dataclass(frozen=True, slots=True)
class CommandContext:
    """A project with its settings and its transaction schema."""

    project: Project
    settings: DetectorSettings
    schema: TransactionSchema


def load_context() -> CommandContext:
    """Load the configuration of the current project. Raises ConfigError, which lists every fault."""
    project = Project.find()
    settings = DetectorSettings.load(project.config / "detector.yaml")
    return CommandContext(project, settings, TransactionSchema.load(project.config / "schema.yaml"))
