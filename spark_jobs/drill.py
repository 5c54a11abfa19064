"""Test whether a checkpoint can be restored: `spark-submit drill.py --checkpoint DIR`. Prints a report as JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from fraud_rules.configuration.project import Project
from fraud_rules.errors import FraudError
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.spark.session import STATE_STORE
from fraud_rules.stream.driver.drill import drill

_WRONG_EXIT_CODE = 1


def main() -> int:
    """Run the drill. The exit code is 0 if the copy equals the original, 1 if it differs, else the error's."""
    project = Project.find()
    parser = argparse.ArgumentParser(prog="drill", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--schema", type=Path, default=project.config / "schema.yaml")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("fraud-restore-drill").config(map=STATE_STORE).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        report = drill(spark, options.checkpoint, TransactionSchema.load(options.schema))
    except FraudError as error:
        sys.stderr.write(f"drill: {type(error).__name__}: {error}\n")
        return error.exit_code
    finally:
        spark.stop()
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    return 0 if report.right else _WRONG_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
