"""Archives what the logs have gained, and ends: `python archive.py --help`, or through `spark-submit`."""

from __future__ import annotations

import sys

from fraud_rules.archive.store import ArchiveStore
from fraud_rules.batch_script import batch_parser, run_batch
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.project import Project
from fraud_rules.schema import TransactionSchema
from fraud_rules.settings import DetectorSettings
from fraud_rules.spark.archive import ArchiveJob, archive


def parse(arguments: list[str], project: Project) -> ArchiveJob:
    """The job that the arguments ask for. Raises ConfigError."""
    parser = batch_parser("archive", __doc__, project)
    add = parser.add_argument
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
    """Run; prints what came of it as JSON."""
    return run_batch("archive", lambda: archive(parse(sys.argv[1:], Project.find())))


if __name__ == "__main__":
    sys.exit(main())
