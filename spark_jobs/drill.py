"""Test whether the detector's state can be restored: `python drill.py --help`, or through `spark-submit`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.stream.driver.drill import drill

_WRONG_EXIT_CODE = 1


def main() -> int:
    """Run the drill and print a report as JSON. The exit code is 0 if the state can be restored, 1 if not, else the
    error's."""
    project = Project.find()
    parser = argparse.ArgumentParser(prog="drill", description=__doc__)
    bootstrap = os.environ.get("FRAUD_BOOTSTRAP", "127.0.0.1:9092")
    parser.add_argument("--bootstrap", default=bootstrap, help="Kafka's bootstrap servers")
    parser.add_argument("--settings", type=Path, default=project.config / "detector.yaml")
    parser.add_argument("--schema", type=Path, default=project.config / "schema.yaml")
    options = parser.parse_args()
    try:
        kafka = KafkaConnection.load(options.bootstrap)
        report = drill(kafka, DetectorSettings.load(options.settings), TransactionSchema.load(options.schema))
    except FraudError as error:
        sys.stderr.write(f"drill: {type(error).__name__}: {error}\n")
        return error.exit_code
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    return 0 if report.right else _WRONG_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
