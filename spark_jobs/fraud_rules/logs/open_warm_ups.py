"""The open requests for warm-ups: rules that the detector reports as waiting, and that have no result yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import decode_or_skip
from fraud_rules.kafka.reader import Record
from fraud_rules.kafka.tail import TopicsTail
from fraud_rules.logs.rule_status import RuleOperation, WarmUpState, decode_operation
from fraud_rules.logs.warm_up_log import WarmUpLog
from fraud_rules.runtime.lifetime import Closing

_OPEN: Final = (WarmUpState.REQUESTED, WarmUpState.RUNNING)


class OpenRequests(Closing):
    """Follows `rule-operations` and `warm-ups`. One thread at a time may use it."""

    def __init__(self, kafka: KafkaConnection, settings: DetectorSettings) -> None:
        topics = settings.topics
        self._log = WarmUpLog(kafka, topics.warm_ups, settings.detector)
        self._operations = topics.rule_operations
        self._tail = TopicsTail(kafka, {self._operations: None, topics.warm_ups: None})
        self._waiting: dict[int, RuleOperation] = {}
        self._ended: set[int] = set()

    def close(self) -> None:
        """Close the connection."""
        self._tail.close()

    def poll(self) -> Mapping[int, RuleOperation]:
        """The detector's reports on the rule records whose warm-up has no result now, by version.

        Raises BrokerUnavailable.
        """
        found = self._tail.new()
        self._ended |= {result.version for _, result in self._log.results_of(found[self._log.topic])}
        for report in self._reports(found[self._operations]):
            if report.warm_up is not None:
                self._waiting[report.rule_version] = report.after(self._waiting.get(report.rule_version))
        self._waiting = {
            version: report
            for version, report in sorted(self._waiting.items())
            if version not in self._ended and report.warm_up is not None and report.warm_up.state in _OPEN
        }
        return dict(self._waiting)

    def _reports(self, records: Iterable[Record]) -> Iterable[RuleOperation]:
        for record in records:
            report = decode_or_skip(self._operations, record, decode_operation)
            if report is not None:
                yield report


def open_requests(kafka: KafkaConnection, settings: DetectorSettings) -> Mapping[int, RuleOperation]:
    """The detector's reports on the rule records whose warm-up has no result, by version. Raises BrokerUnavailable."""
    with OpenRequests(kafka, settings) as requests:
        return requests.poll()
