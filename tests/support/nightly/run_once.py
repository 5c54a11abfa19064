"""Re-evaluates a test's archive against a real broker, in this process.

Run it as `python -m tests.support.nightly.run_once PLACE BROKER PREFIX DAY`: the archive's folder or URI, the broker,
the prefix of the topics, the day. It prints the result as JSON.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import msgspec

from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation.job import ReevaluationJob, reevaluate
from fraud_rules.batch.reevaluation.report import DayResult
from fraud_rules.batch.reevaluation.run import DayOptions
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.kafka.own_topics import named
from tests.support.nightly.archived import TRANSACTIONS
from tests.support.nightly.in_process import in_process


def job_of(store: ArchiveStore, bootstrap: str, prefix: str, day: Day) -> ReevaluationJob:
    """Create the job for a day of a `Site` archive; it publishes to a test's topics."""
    settings = replace(
        DetectorSettings(), key_groups=2, topics=replace(named(prefix), transactions=TRANSACTIONS, rules="rules")
    )
    options = DayOptions(day, store, settings, load_schema("default"))
    return ReevaluationJob(options, KafkaConnection(bootstrap))


def run_once(job: ReevaluationJob) -> DayResult:
    """Evaluate the day in this process, without Spark."""
    return reevaluate(job, in_process)


if __name__ == "__main__":
    place, bootstrap, prefix, day = sys.argv[1:]
    result = run_once(job_of(ArchiveStore.at(place), bootstrap, prefix, Day.parse(day)))
    sys.stdout.write(msgspec.json.encode(result).decode())
