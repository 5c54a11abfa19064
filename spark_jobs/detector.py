"""Start the detector: `python detector.py --help`, or through `spark-submit`."""

from __future__ import annotations

import sys

from fraud_rules.configuration.detector_options import DetectorOptions
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.stream.driver.job import DetectorJob, job_of
from fraud_rules.stream.driver.streaming import StartGate, check_start, run


def parse(arguments: list[str], project: Project) -> DetectorJob:
    """Parse the arguments into a job. Raises ConfigError."""
    return _job(DetectorOptions.parse(arguments), project)


def _job(arguments: DetectorOptions, project: Project) -> DetectorJob:
    options = arguments.in_project(project)
    assert options.settings is not None
    assert options.schema is not None
    settings, schema = DetectorSettings.load(options.settings), TransactionSchema.load(options.schema)
    return job_of(options, settings, schema, KafkaConnection.load(options.bootstrap))


def main() -> int:
    """Run the detector. An error ends it with the exit code of the error, see `fraud_rules.errors`."""
    project = Project.find()
    try:
        arguments = DetectorOptions.parse(description=__doc__)
        if arguments.check:
            check_start(_job(arguments, project))
        else:
            hold = None if arguments.hold is None else StartGate(arguments.hold, lambda: _report("ready"))
            run(_job(arguments, project), on_running=lambda: _report("running"), hold=hold, report=_report)
    except FraudError as error:
        _report(str(error))
        return error.exit_code
    return 0


def _report(text: str) -> None:
    sys.stderr.write(f"detector: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
