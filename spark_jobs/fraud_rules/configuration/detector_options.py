"""The options of one start of the detector, declared once.

The fields of `DetectorOptions` define the parser of `detector.py`, the command line that an agent builds from a
release, and the options of `fraud detector run`, `fraud detector rebuild` and `fraud detector deploy`.
"""

# ruff: noqa: RUF009 - `_option` declares a field
from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Self

from fraud_rules.configuration.project import Project
from fraud_rules.errors import ConfigError

BOOTSTRAP_VARIABLE: Final = "FRAUD_BOOTSTRAP"
_OPTION: Final = "option"


@dataclass(frozen=True, slots=True)
class Option:
    """The command-line option of a field: its flag, help text and placeholder, and the minimum of a number."""

    flag: str
    help: str
    metavar: str | None = None
    at_least: int | None = None


def _option(
    flag: str, text: str, default: object = None, *, metavar: str | None = None, at_least: int | None = None
) -> Any:
    """Declare a field with its command-line option."""
    metadata = {_OPTION: Option(flag, text, metavar, at_least)}
    if default == {}:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class DetectorOptions:
    """The options of one start of the detector. `arguments` leaves out an option that is None, empty or False."""

    attempt: str | None = _option("--attempt", "The attempt that executes the intent.", metavar="ID")
    epoch: int = _option("--epoch", "The intent's epoch. The start is refused if a newer intent exists.", 0)
    bootstrap: str = _option("--bootstrap", "Kafka's bootstrap servers.", "", metavar="HOST:PORT,...")
    settings: Path | None = _option("--settings", "The file with the detector's settings.")
    schema: Path | None = _option("--schema", "The file with the schema of the transactions.")
    master: str = _option(
        "--master", "Spark's master; local[2,4]: two tasks at once, at most four failures each.", "local[2,4]"
    )
    tasks: int | None = _option(
        "--tasks", "Number of tasks of a large batch; by default a task for each core of the cluster.", at_least=1
    )
    driver_memory: str = _option("--driver-memory", "Memory of the driver's JVM, 512m or more.", "1536m")
    spark_conf: Mapping[str, str] = _option(
        "--spark-conf", "Another Spark setting; may be repeated.", {}, metavar="NAME=VALUE"
    )
    ui_port: int | None = _option("--ui-port", "Serve Spark's UI on this port.")
    metrics: str = _option("--metrics", "Serve metrics at this address.", "", metavar="HOST:PORT")
    resume: bool = _option("--resume", "Lift a stop that the rule log requested.", False)
    rebuild: str | None = _option("--rebuild", "Recompute the state from the topics, once per ID.", metavar="ID")
    partial: bool = _option("--partial", "Rebuild even if retention has removed the beginning of the topics.", False)
    accept_loss: bool = _option(
        "--accept-loss", "Skip transactions that retention removed before the detector read them.", False
    )
    hold: Path | None = _option(
        "--hold", "Prepare the start, then wait until FILE exists. Change nothing before.", metavar="FILE"
    )
    check: bool = _option("--check", "Report whether a start would be refused, and change nothing.", False)

    def in_project(self, project: Project, environ: Mapping[str, str] = os.environ) -> Self:
        """Replace unset options by the files of a project, and by the bootstrap servers in the environment."""
        return replace(
            self,
            bootstrap=self.bootstrap or environ.get(BOOTSTRAP_VARIABLE, "127.0.0.1:9092"),
            settings=self.settings or project.config / "detector.yaml",
            schema=self.schema or project.config / "schema.yaml",
        )

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None, description: str | None = None) -> Self:
        """Parse arguments, by default those of this process. Raises ConfigError for a --spark-conf without `=`."""
        parser = argparse.ArgumentParser(prog="detector", description=description)
        for each in fields(cls):
            _add(parser, each)
        given = vars(parser.parse_args(arguments))
        given["spark_conf"] = spark_settings(given["spark_conf"] or [])
        return cls(**{name: value for name, value in given.items() if value is not None})

    def arguments(self) -> list[str]:
        """The arguments from which `parse` builds these options. They contain no secrets."""
        return [argument for each in fields(self) for argument in _arguments(option_of(each), getattr(self, each.name))]


DEFAULTS: Final = DetectorOptions()


def option_of(of: Field[Any] | str) -> Option:
    """The command-line option of a field, or of the field with this name."""
    found = next(each for each in fields(DetectorOptions) if each.name == of) if isinstance(of, str) else of
    option: Option = found.metadata[_OPTION]
    return option


def _add(parser: argparse.ArgumentParser, declared: Field[Any]) -> None:
    option, kind = option_of(declared), str(declared.type)
    if kind == "bool":
        parser.add_argument(option.flag, action="store_true", help=option.help)
    elif kind.startswith("Mapping"):
        parser.add_argument(option.flag, action="append", metavar=option.metavar, help=option.help)
    else:
        parse = int if kind.startswith("int") else Path if kind.startswith("Path") else str
        shown = "" if declared.default in (None, "") else f" Default: {declared.default}."
        parser.add_argument(option.flag, type=parse, metavar=option.metavar, help=option.help + shown)


def _arguments(option: Option, value: object) -> list[str]:
    if value is True:
        return [option.flag]
    if isinstance(value, Mapping):
        return [f"{option.flag}={name}={each}" for name, each in sorted(value.items())]
    return [] if value is None or value is False or value == "" else [f"{option.flag}={value}"]


def spark_settings(texts: Sequence[str]) -> Mapping[str, str]:
    """The Spark settings of these values of --spark-conf. Raises ConfigError for a value without `=`."""
    pairs = [text.partition("=") for text in texts]
    if wrong := [text for text, (_, separator, _) in zip(texts, pairs, strict=True) if not separator]:
        raise ConfigError(f"--spark-conf {wrong[0]!r} must be name=value")
    return {name: value for name, _, value in pairs}
