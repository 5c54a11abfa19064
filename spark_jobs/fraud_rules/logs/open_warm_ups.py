"""The open requests for warm-ups: rules that the detector reports as waiting, and that have no result yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.rule_status import RuleOperation, WarmUpState, read_operations
from fraud_rules.logs.warm_up_log import WarmUpLog

__all__ = ["open_requests"]

_OPEN: Final = (WarmUpState.REQUESTED, WarmUpState.RUNNING)


def open_requests(kafka: KafkaConnection, settings: DetectorSettings) -> Mapping[int, RuleOperation]:
    """The detector's reports on the rule records whose warm-up has no result, by version. Raises BrokerUnavailable."""
    reports = read_operations(kafka, settings.topics.rule_operations)
    waiting = {
        version: report
        for version, report in sorted(reports.items())
        if report.warm_up is not None and report.warm_up.state in _OPEN
    }
    if not waiting:
        return {}
    log = WarmUpLog(kafka, settings.topics.warm_ups, settings.detector)
    with TopicReader(kafka, settings.topics.warm_ups) as reader:
        reader.partitions()
        for _, result in log.results(*reader.ends(), reader):
            waiting.pop(result.version, None)
    return waiting
