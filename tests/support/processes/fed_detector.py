"""A running detector whose logs a test writes, and what it has published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from fraud_rules.kafka.consume import await_settled
from fraud_rules.replay.replay import decode_exactly
from tests.support.kafka.records import read_all
from tests.support.kafka.timed_topics import Logs
from tests.support.processes.detectors_in_turn import DetectorsInTurn
from tests.support.processes.running_detector import Installation
from tests.support.waiting import until


@dataclass
class FedDetector:
    """A detector and its two logs."""

    installation: Installation
    detectors: DetectorsInTurn
    logs: Logs

    def await_evaluated(self) -> None:
        """Return once the detector has evaluated everything written."""
        self.logs.flush()

        def is_evaluated() -> bool:
            self.detectors.check()
            return self.installation.has_read(self.logs.ends, self.logs.rules_end)

        until(is_evaluated, "everything is evaluated")

    def messages(self, role: str) -> list[Message]:
        """The committed records of a topic."""
        topics = self.installation.topics
        await_settled(topics.kafka, [getattr(topics.names, role)])
        return read_all(topics.bootstrap, getattr(topics.names, role))

    def documents(self, role: str) -> list[Any]:
        """The committed documents of a topic."""
        return [decode_exactly(message.value()) for message in self.messages(role)]
