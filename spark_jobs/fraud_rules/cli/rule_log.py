"""Reads the rule log, and writes rules and lists to it without the control plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fraud_rules.cli.configured import CommandContext
from fraud_rules.codec.rules.apply import PlannedRecord, RulesRejected, log_faults
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection

if TYPE_CHECKING:
    from fraud_rules.logs.rule_status import RuleLogStatus
    from fraud_rules.model.ruleset import RuleTimeline


def read_rule_log(context: CommandContext, kafka: KafkaConnection, *, settled: bool = False) -> RuleLogStatus:
    """Read the rule log and the detector's reports about it. Raises BrokerUnavailable."""
    from fraud_rules.kafka.reachable import require_broker
    from fraud_rules.logs.rule_status import read_rules

    require_broker(kafka)
    return read_rules(kafka, context.schema, context.settings, settled=settled)


def check_against_log(context: CommandContext, log: RuleTimeline, records: Sequence[tuple[str, bytes]]) -> None:
    """Raise RulesRejected if the detector would reject a record because of the log before it. Each has its place."""
    found = log_faults(log, [record for _, record in records], context.schema, context.settings.limits)
    faults = [f"{where}{reason}" for (where, _), reasons in zip(records, found, strict=True) for reason in reasons]
    if faults:
        raise RulesRejected(f"nothing was written: {'; '.join(dict.fromkeys(faults))}")


def append(context: CommandContext, kafka: KafkaConnection, records: Sequence[tuple[bytes, bytes]]) -> list[int]:
    """Append records with their keys to the rule log. Return their versions."""
    from fraud_rules.kafka.record_writer import append_records

    return append_records(kafka, context.settings.topics.rules, records) if records else []


def write_rules(context: CommandContext, kafka: KafkaConnection, planned: Sequence[PlannedRecord]) -> dict[int, int]:
    """Append the records that have an effect. Return the version of each, by its position in `planned`."""
    positions = [position for position, each in enumerate(planned) if each.effect.writes]
    versions = append(context, kafka, [(_key(planned[position]), planned[position].record) for position in positions])
    return dict(zip(positions, versions, strict=True))


def await_live(context: CommandContext, kafka: KafkaConnection, versions: set[int], timeout_s: float) -> None:
    """Wait until all versions of rules or lists are live, and print the batch. Raises RulesRejected, and FraudError if
    no report comes within `timeout_s`.
    """
    from fraud_rules.logs.rule_status import await_operations

    reports = await_operations(kafka, context.settings.topics.rule_operations, versions, timeout_s)
    refused = [report for report in reports.values() if report.rejected]
    if refused:
        why = dict.fromkeys(f"{each.field}: {each.message}" for report in refused for each in report.reasons)
        raise RulesRejected(f"the detector rejected {len(refused)} of {len(versions)} records: {'; '.join(why)}")
    if len(reports) < len(versions):
        missing = ", ".join(map(str, sorted(versions - reports.keys())))
        raise FraudError(f"the detector did not report on version {missing} within {timeout_s:g} s (see fraud status)")
    print(f"live since batch {max(report.batch_id for report in reports.values())}")


def _key(planned: PlannedRecord) -> bytes:
    return b"control" if planned.rule_id is None else str(planned.rule_id).encode()
