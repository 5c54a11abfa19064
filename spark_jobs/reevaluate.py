"""Re-evaluate one day from the archive: `python reevaluate.py --help`, or through `spark-submit`."""

from __future__ import annotations

import argparse
import sys

from fraud_rules.batch.reevaluation.job import ReevaluationJob, reevaluate
from fraud_rules.batch.reevaluation.run import DayOptions
from fraud_rules.batch.script import batch_parser, common_parameters, run_batch
from fraud_rules.configuration.project import Project
from fraud_rules.errors import DayEmpty, DayErased
from fraud_rules.model.day import Day

_ALLOW_EMPTY = "--allow-empty"


def parse(arguments: list[str], project: Project) -> ReevaluationJob:
    """Parse the arguments into a job. Raises ConfigError, InputInvalid."""
    parser = batch_parser("reevaluate", __doc__, project)
    add = parser.add_argument
    add("--day", required=True, help="the day of event time, for example 2026-11-20 (UTC)")
    add("--tasks", type=int, default=2, help="number of tasks; with more tasks, each needs less memory")
    add("--incomplete-history", action="store_true", help="continue if windows start before the archive does")
    add("--report-only", action=argparse.BooleanOptionalAction, help="write the report, but publish no corrections")
    add(_ALLOW_EMPTY, action="store_true", help="succeed for a day without data, or with erased payments")
    args = parser.parse_args(arguments)
    store, settings, schema, kafka, master, memory = common_parameters(args)
    options = DayOptions(Day.parse(args.day), store, settings, schema, args.tasks, args.incomplete_history)
    return ReevaluationJob(options, kafka, master, memory, publish=not args.report_only)


def main() -> int:
    """Run the job and print its result as JSON."""
    allowed = (DayEmpty, DayErased) if _ALLOW_EMPTY in sys.argv else ()
    return run_batch("reevaluate", lambda: reevaluate(parse(sys.argv[1:], Project.find())), allowed)


if __name__ == "__main__":
    sys.exit(main())
