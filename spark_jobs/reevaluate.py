"""Re-evaluates one day from the archive, and ends: `python reevaluate.py --help`, or through `spark-submit`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from fraud_rules.archive.store import ArchiveStore
from fraud_rules.day import Day
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.project import Project
from fraud_rules.reevaluation.run import DayOptions
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings
from fraud_rules.spark.reevaluation import ReevaluationJob, reevaluate


def parse(arguments: list[str], project: Project) -> ReevaluationJob:
    """The job that the arguments ask for. Raises ConfigError, InputInvalid."""
    parser = argparse.ArgumentParser(prog="reevaluate", description=__doc__)
    add = parser.add_argument
    add("--day", required=True, help="the day of event time, as 2026-11-20 (UTC)")
    add("--bootstrap", default=os.environ.get("FRAUD_BOOTSTRAP", "127.0.0.1:9092"), help="Kafka's address")
    add("--archive", default=str(project.var / "archive"), help="the archive's folder, the same on every host")
    add("--settings", type=Path, default=project.config / "detector.yaml")
    add("--schema", type=Path, default=project.config / "schema.yaml")
    add("--jars", type=Path, default=project.jars / "connector")
    add("--master", default="local[2]", help="Spark's master")
    add("--driver-memory", default="1g")
    add("--tasks", type=int, default=2, help="parts of the key groups; more of them take less memory each")
    add("--incomplete-history", action="store_true", help="go on where windows reach back behind the archive")
    add("--report-only", action="store_true", help="publish nothing")
    given = parser.parse_args(arguments)
    options = DayOptions(
        Day.parse(given.day),
        ArchiveStore.at(given.archive),
        DetectorSettings.load(given.settings),
        TransactionSchema.load(given.schema),
        given.tasks,
        given.incomplete_history,
    )
    kafka = KafkaConnection.load(given.bootstrap)
    return ReevaluationJob(options, kafka, given.jars, given.master, given.driver_memory, not given.report_only)


def main() -> int:
    """Run; prints the result as JSON. The exit code is the error's, see `fraud_rules.errors`."""
    try:
        result = reevaluate(parse(sys.argv[1:], Project.find()))
    except FraudError as error:
        sys.stderr.write(f"reevaluate: {type(error).__name__}: {error}\n")
        return error.exit_code
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
