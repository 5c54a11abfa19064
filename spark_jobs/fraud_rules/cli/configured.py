"""What most commands read before they start: the configuration of the project they run in."""

from __future__ import annotations

from dataclasses import dataclass

from fraud_rules.project import Project
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings


@dataclass(frozen=True, slots=True)
class Configured:
    """A project with its settings and its transaction schema."""

    project: Project
    settings: DetectorSettings
    schema: TransactionSchema


def configured() -> Configured:
    """The configuration in force here. Raises ConfigError with everything wrong in it."""
    project = Project.find()
    settings = DetectorSettings.load(project.config / "detector.yaml")
    return Configured(project, settings, TransactionSchema.load(project.config / "schema.yaml"))
