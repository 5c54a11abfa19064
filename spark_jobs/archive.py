"""Copy the new records of the logs to the archive: `python archive.py --help`, or through `spark-submit`."""

from __future__ import annotations

import sys

from fraud_rules.batch.archive.job import ArchiveJob, archive
from fraud_rules.batch.script import batch_parser, common_parameters, run_batch
from fraud_rules.configuration.project import Project


def parse(arguments: list[str], project: Project) -> ArchiveJob:
    """Parse the arguments into a job. Raises ConfigError."""
    parser = batch_parser("archive", __doc__, project)
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="skip records that retention removed before they were archived",
    )
    options = parser.parse_args(arguments)
    return ArchiveJob(*common_parameters(options), options.accept_loss)


def main() -> int:
    """Run the job and print its result as JSON."""
    return run_batch("archive", lambda: archive(parse(sys.argv[1:], Project.find())))


if __name__ == "__main__":
    sys.exit(main())
