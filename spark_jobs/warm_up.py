"""Execute the requested warm-ups: `python warm_up.py --help`, or through `spark-submit`."""

from __future__ import annotations

import sys

from fraud_rules.batch.script import batch_parser, common_parameters, run_batch
from fraud_rules.batch.warm_up.job import WarmUpJob, warm_up
from fraud_rules.configuration.project import Project


def parse(arguments: list[str], project: Project) -> WarmUpJob:
    """Parse the arguments into a job. Raises ConfigError."""
    parser = batch_parser("warm_up", __doc__, project)
    parser.add_argument("--nice", type=int, default=10, help="niceness with a local master, beside a detector")
    args = parser.parse_args(arguments)
    return WarmUpJob(*common_parameters(args), args.nice)


def main() -> int:
    """Run the job and print its result as JSON."""
    return run_batch("warm_up", lambda: warm_up(parse(sys.argv[1:], Project.find())))


if __name__ == "__main__":
    sys.exit(main())
