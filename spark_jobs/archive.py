"""Archives what the logs have gained, and ends: `python archive.py --help`, or through `spark-submit`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from fraud_rules.archive.store import ArchiveStore
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.project import Project
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings
from fraud_rules.spark.archive import ArchiveJob, archive


def parse(arguments: list[str], project: Project) -> ArchiveJob:
    """The job that the arguments ask for. Raises ConfigError."""
    parser = argparse.ArgumentParser(prog="archive", description=__doc__)
    add = parser.add_argument
    add("--bootstrap", default=os.environ.get("FRAUD_BOOTSTRAP", "127.0.0.1:9092"), help="Kafka's address")
    add("--archive", default=str(project.var / "archive"), help="the archive's folder, the same on every host")
    add("--settings", type=Path, default=project.config / "detector.yaml")
    add("--schema", type=Path, default=project.config / "schema.yaml")
    add("--jars", type=Path, default=project.jars / "connector")
    add("--master", default="local[2]", help="Spark's master")
    add("--driver-memory", default="1g")
    add("--records-a-batch", type=int, default=1_000_000)
    add("--retired-for-ms", type=int, default=3_600_000, help="how long files stay that a compaction has replaced")
    add(
        "--accept-loss",
        action="store_true",
        help="go on behind records that retention removed before they were archived",
    )
    given = parser.parse_args(arguments)
    return ArchiveJob(
        ArchiveStore.at(given.archive),
        DetectorSettings.load(given.settings),
        TransactionSchema.load(given.schema),
        KafkaConnection.load(given.bootstrap),
        given.jars,
        given.master,
        given.driver_memory,
        given.records_a_batch,
        given.retired_for_ms,
        given.accept_loss,
    )


def main() -> int:
    """Run; prints what it did as JSON. The exit code is the error's, see `fraud_rules.errors`."""
    try:
        result = archive(parse(sys.argv[1:], Project.find()))
    except FraudError as error:
        sys.stderr.write(f"archive: {type(error).__name__}: {error}\n")
        return error.exit_code
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
