"""Starts the detector: `python detector.py --help`, or through `spark-submit`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.project import Project
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings
from fraud_rules.spark.session import SparkOptions
from fraud_rules.spark.streaming import DetectorJob, run


def parse(arguments: list[str], project: Project) -> DetectorJob:
    """The job that the arguments ask for. Raises ConfigError."""
    parser = argparse.ArgumentParser(prog="detector", description=__doc__)
    add = parser.add_argument
    add("--bootstrap", default=os.environ.get("FRAUD_BOOTSTRAP", "127.0.0.1:9092"), help="Kafka's address")
    add("--checkpoint", default=str(project.var / "checkpoint"), help="a folder, or a URI of a shared file system")
    add("--settings", type=Path, default=project.config / "detector.yaml")
    add("--schema", type=Path, default=project.config / "schema.yaml")
    add("--jars", type=Path, default=project.jars / "connector")
    add("--master", default="local[2,4]", help="Spark's master; local[2,4]: two at a time, each task tried four times")
    add(
        "--shuffle-partitions",
        type=int,
        default=2,
        help="parallel tasks of the stateful stage; fixed with a checkpoint",
    )
    add("--driver-memory", default="1536m")
    add("--ui-port", type=int, default=None, help="serve Spark's UI on this port (default: no UI)")
    add("--resume", action="store_true", help="lift a stop that the rule log asked for")
    add("--adopt", action="store_true", help="begin an empty checkpoint where the outputs written so far end")
    given = parser.parse_args(arguments)
    options = SparkOptions(
        checkpoint=given.checkpoint,
        jars=given.jars,
        master=given.master,
        shuffle_partitions=given.shuffle_partitions,
        driver_memory=given.driver_memory,
        ui_port=given.ui_port,
    )
    settings, schema = DetectorSettings.load(given.settings), TransactionSchema.load(given.schema)
    kafka = KafkaConnection.load(given.bootstrap)
    return DetectorJob(settings, schema, kafka, options, resume=given.resume, adopt=given.adopt)


def main() -> int:
    """Run; the exit code is the error's, see `fraud_rules.errors`."""
    try:
        run(parse(sys.argv[1:], Project.find()), on_ready=lambda: _say("running"))
    except FraudError as error:
        _say(str(error))
        return error.exit_code
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"detector: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
