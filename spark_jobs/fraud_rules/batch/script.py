"""Shared by the entry scripts of batch jobs: the common options, the printed result and the exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.schema import TransactionSchema


def batch_parser(prog: str, description: str | None, project: Project) -> argparse.ArgumentParser:
    """Create a parser with the options that all archive jobs share."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    add = parser.add_argument
    add("--bootstrap", default=os.environ.get("FRAUD_BOOTSTRAP", "127.0.0.1:9092"), help="Kafka's bootstrap servers")
    add("--archive", default=str(project.var / "archive"), help="folder of the archive, the same path on every host")
    add("--settings", type=Path, default=project.config / "detector.yaml")
    add("--schema", type=Path, default=project.config / "schema.yaml")
    add("--master", default="local[2]", help="Spark's master")
    add("--driver-memory", default="1g")
    return parser


def common_parameters(
    options: argparse.Namespace,
) -> tuple[ArchiveStore, DetectorSettings, TransactionSchema, KafkaConnection, str, str]:
    """What the options of `batch_parser` name; the last two are master and memory. Raises ConfigError."""
    return (
        ArchiveStore.at(options.archive),
        DetectorSettings.load(options.settings),
        TransactionSchema.load(options.schema),
        KafkaConnection.load(options.bootstrap),
        options.master,
        options.driver_memory,
    )


def run_batch(prog: str, job: Callable[[], object], allowed: tuple[type[FraudError], ...] = ()) -> int:
    """Run a job, print its result as JSON, and return the exit code: 0, also for an `allowed` error, or the error's
    own (see `errors`)."""
    try:
        result = job()
    except FraudError as error:
        sys.stderr.write(f"{prog}: {type(error).__name__}: {error}\n")
        return 0 if isinstance(error, allowed) else error.exit_code
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    return 0
