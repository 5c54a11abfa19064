"""Start the detector: `python detector.py --help`, or through `spark-submit`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import ConfigError, FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.spark.session import SparkOptions
from fraud_rules.stream.driver.job import AttemptRef, DetectorJob, RebuildOrder
from fraud_rules.stream.driver.streaming import Hold, check_start, run


def _parser(project: Project) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="detector", description=__doc__)
    add = parser.add_argument
    add("--bootstrap", default=os.environ.get("FRAUD_BOOTSTRAP", "127.0.0.1:9092"), help="Kafka's bootstrap servers")
    add("--checkpoint", default=str(project.var / "checkpoint"), help="a folder, or a URI of a shared file system")
    add("--settings", type=Path, default=project.config / "detector.yaml")
    add("--schema", type=Path, default=project.config / "schema.yaml")
    add("--jars", type=Path, default=project.jars / "connector")
    add("--master", default="local[2,4]", help="Spark's master; local[2,4]: two tasks at once, four tries each")
    add(
        "--shuffle-partitions",
        type=int,
        default=2,
        help="parallel tasks of the stateful stage; fixed for the life of a checkpoint",
    )
    add("--driver-memory", default="1536m")
    add(
        "--spark-conf", action="append", default=[], metavar="NAME=VALUE", help="another Spark setting; may be repeated"
    )
    add("--ui-port", type=int, default=None, help="serve Spark's UI on this port (default: no UI)")
    add("--metrics", default="", metavar="HOST:PORT", help="serve metrics at this address (default: no metrics)")
    add("--resume", action="store_true", help="lift a stop that the rule log requested")
    add("--adopt", action="store_true", help="start a new, empty checkpoint behind the last written output")
    add("--rebuild", metavar="ORDER", help="set the checkpoint aside and recompute it from the topics, once per ORDER")
    add("--partial", action="store_true", help="rebuild even if retention has removed the beginning of the topics")
    add(
        "--accept-loss",
        action="store_true",
        help="continue without transactions that were removed before they were read",
    )
    add("--attempt", metavar="ID", help="the attempt that executes the intent")
    add("--epoch", type=int, default=0, help="the intent's epoch; the start is refused if a newer intent exists")
    add("--hold", type=Path, metavar="FILE", help="prepare the start, then wait for FILE before changing anything")
    add("--check", action="store_true", help="report whether a start would be refused, and change nothing")
    return parser


def parse(arguments: list[str], project: Project) -> DetectorJob:
    """Parse the arguments into a job. Raises ConfigError."""
    return _job(_parser(project).parse_args(arguments))


def _job(given: argparse.Namespace) -> DetectorJob:
    options = SparkOptions(
        checkpoint=given.checkpoint,
        jars=given.jars,
        master=given.master,
        shuffle_partitions=given.shuffle_partitions,
        driver_memory=given.driver_memory,
        ui_port=given.ui_port,
        further=_pairs(given.spark_conf),
    )
    return DetectorJob(
        DetectorSettings.load(given.settings),
        TransactionSchema.load(given.schema),
        KafkaConnection.load(given.bootstrap),
        options,
        resume=given.resume,
        adopt=given.adopt,
        attempt=None if given.attempt is None else AttemptRef(given.attempt, given.epoch),
        rebuild=None if given.rebuild is None else RebuildOrder(given.rebuild, given.partial),
        metrics=given.metrics,
        accept_loss=given.accept_loss,
    )


def _pairs(texts: list[str]) -> Mapping[str, str]:
    pairs = [text.partition("=") for text in texts]
    if wrong := [text for text, (_, separator, _) in zip(texts, pairs, strict=True) if not separator]:
        raise ConfigError(f"--spark-conf {wrong[0]!r} must be name=value")
    return {name: value for name, _, value in pairs}


def main() -> int:
    """Run the detector. An error ends it with the exit code of the error, see `fraud_rules.errors`."""
    project = Project.find()
    given = _parser(project).parse_args()
    try:
        if given.check:
            check_start(_job(given))
        else:
            hold = None if given.hold is None else Hold(given.hold, lambda: _say("ready"))
            run(_job(given), on_running=lambda: _say("running"), hold=hold, say=_say)
    except FraudError as error:
        _say(str(error))
        return error.exit_code
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"detector: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
