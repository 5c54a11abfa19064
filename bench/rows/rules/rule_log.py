"""Measures the reading of a long rule log, which every Python process of a detector does at its start."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bench.detector import command
from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.rulesets import encoded, history
from bench.lab import Lab, Session
from fraud_rules.kafka.record_writer import append_records

_RECORDS = (10_000, 100_000)
_APPENDED_AT_ONCE = 10_000
_RULES = 300


def _measure(lab: Lab, scale: Scale) -> Mapping[str, float]:
    values: dict[str, float] = {}
    for records in _RECORDS:
        with lab.session("rulelog") as session:
            count = scale.of(records)
            _fill(session, count)
            found = _read_in_own_process(session)
        assert found["rules"] > _RULES * 0.9, f"the log has only {found['rules']} rules in force"
        values |= {
            f"start_{records}_s": found["seconds"],
            f"start_{records}_cpu_s": found["cpu_s"],
            f"memory_{records}": found["bytes"] / count,
        }
    return values


def _fill(session: Session, count: int) -> None:
    records = encoded(history(count, _RULES))
    for start in range(0, count, _APPENDED_AT_ONCE):
        append_records(session.kafka, session.names.rules, records[start : start + _APPENDED_AT_ONCE])


def _read_in_own_process(session: Session) -> dict[str, float]:
    arguments = ("bench.meters.rule_log_reading", "--bootstrap", session.bootstrap, "--topic", session.names.rules)
    with command(*arguments) as process:
        output, _ = process.communicate()
    assert process.returncode == 0, "the rule log was not read"
    found: dict[str, float] = json.loads(output)
    return found


ROWS = (
    Rows(
        "rule_log",
        "A start with a long rule log",
        f"The log has revisions of {_RULES} rules (half of them with a filter, 1% of the filters invalid), 1% deletions"
        " and a few controls. A new process with imported modules connects to Kafka, reads the log and computes the "
        "rules in force. Driver and Python workers do this at a start. Memory is the additional resident memory.",
        tuple(
            figure
            for records in _RECORDS
            for figure in (
                Figure(
                    f"start_{records}_s",
                    f"{records:,} records until the rules are known",
                    "s",
                    at_most(2) if records == _RECORDS[-1] else None,
                ),
                Figure(f"start_{records}_cpu_s", f"{records:,} records, CPU time", "s"),
                Figure(f"memory_{records}", f"{records:,} records, memory", "bytes per record"),
            )
        ),
        _measure,
    ),
)
