"""Reads a rule log as each Python process of a detector does at its start, and measures time and memory."""

from __future__ import annotations

import argparse
import json
import sys
import time

import psutil

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.schema import TransactionSchema


def read_rule_log(bootstrap: str, topic: str) -> dict[str, float]:
    """The seconds from the first connection until the current rules are known, the CPU time in them, and the additional
    resident memory in bytes. Run it once in a process."""
    schema = TransactionSchema.load(Project.find().config / "schema.yaml")
    limits, process = DetectorSettings().limits, psutil.Process()
    memory, cpu_s, started_s = process.memory_info().rss, time.process_time(), time.monotonic()
    with TopicReader(KafkaConnection(bootstrap), topic) as reader:
        log = RuleLog.of(reader, schema, limits)
        rules = log.up_to(reader.ends()[1], {}).latest.rules
        return {
            "seconds": time.monotonic() - started_s,
            "cpu_s": time.process_time() - cpu_s,
            "bytes": process.memory_info().rss - memory,
            "rules": len(rules),
        }


def main() -> int:
    """Read the log, and print one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.meters.rule_log_reading", description=main.__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    options = parser.parse_args()
    print(json.dumps(read_rule_log(options.bootstrap, options.topic)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
