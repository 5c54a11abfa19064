"""What runs beside the desk in a process: the publisher, the mirror of the rule log, and the intake of change data.

Several processes may run it; of each of the three one works at a time, wherever it is, and another takes over when it
ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from fraud_ops.control_plane.cdc import cdc_intake
from fraud_ops.control_plane.desk import ControlDesk
from fraud_ops.control_plane.given import Reader
from fraud_ops.control_plane.mirror import log_mirror
from fraud_ops.control_plane.outbox import Publisher
from fraud_ops.control_plane.reader_state import Reading
from fraud_ops.control_plane.settings import ControlPlaneSettings
from fraud_ops.control_plane.store.database import Database
from fraud_ops.control_plane.views import RuleChanged
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.schema import TransactionSchema

__all__ = ["Background"]

_JOIN_S: Final = 15.0


class Background:
    """Started once, stopped once. `tell` hears of rules that others changed, and of ours that arrived in the log."""

    def __init__(
        self,
        database: Database,
        kafka: KafkaConnection,
        detector: DetectorSettings,
        schema: TransactionSchema,
        settings: ControlPlaneSettings,
        clock_ms: Callable[[], int],
        tell: Callable[[RuleChanged], None] = lambda changed: None,
    ) -> None:
        reader, topic = Reader(schema, detector.limits), detector.topics.rules
        self._mirror = log_mirror(database, kafka, topic, reader, settings, clock_ms, tell)
        self._publisher = Publisher(database, kafka, topic, settings, self._mirror, reader, clock_ms, tell)

        def arrived(changed: RuleChanged) -> None:
            tell(changed)
            self._publisher.wake()

        self._cdc = cdc_intake(database, kafka, detector.topics.rules_cdc, reader, settings, clock_ms, arrived)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=each.run, args=(self._stop,), name=f"control-plane-{name}", daemon=True)
            for name, each in (("publisher", self._publisher), ("mirror", self._mirror), ("cdc", self._cdc))
        ]

    def start(self, desk: ControlDesk | None = None) -> None:
        """Begin; a change at the desk is published at once."""
        if desk is not None:
            desk.listen(self._publisher.wake)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; what is not published yet is published by the next."""
        self._stop.set()
        self._publisher.wake()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def readings(self) -> Sequence[Reading]:
        """The readers whose positions are in the store. Raises Unavailable."""
        return [
            Reading(each.name, each.topic, each.position(), each.failure, shared=True)
            for each in (self._mirror, self._cdc)
        ]

    def failures(self) -> dict[str, str]:
        """Why each of them waits, if it does."""
        said = {"publisher": self._publisher.failure, "mirror": self._mirror.failure, "cdc": self._cdc.failure}
        return {name: failure for name, failure in said.items() if failure is not None}
