"""The threads beside the service: publisher, mirror of the rule log, intakes, alert index, expiry of list values.

Several processes may run these threads. Of each but the last, one process at a time does the work, and another one
takes over when it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from fraud_control.domain.masking import Masking
from fraud_control.domain.read_models import RuleChanged
from fraud_control.service.notifications.intake import AlertNotifications
from fraud_control.service.store_access import StoreAccess
from fraud_control.sync.alert_indexer import AlertIndexer
from fraud_control.sync.cdc import cdc_intake
from fraud_control.sync.expiry import Expiry
from fraud_control.sync.mirror import log_mirror
from fraud_control.sync.outbox import Publisher
from fraud_control.sync.reader_state import ReaderPosition
from fraud_control.sync.topic_consumer import TopicConsumer
from fraud_control.sync.topic_intakes import alarm_intake, label_intake
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection

_JOIN_S: Final = 15.0


class Background:
    """Starts once and stops once. `report` gets the changes of other writers, and ours after publication.

    `alarm_receivers` names the connections that get alarms. A process without connections leaves the topic `alarms` to
    the servers: it would apply records that then reach no receiver.
    """

    def __init__(
        self,
        store: StoreAccess,
        kafka: KafkaConnection,
        detector: DetectorSettings,
        report: Callable[[RuleChanged], None] = lambda changed: None,
        alarm_receivers: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        settings, schema, topic = store.settings, store.reader.schema, detector.topics.rules
        self._mirror = log_mirror(store, kafka, topic, report)
        self._publisher = Publisher(store, kafka, topic, self._mirror, report)

        def arrived(changed: RuleChanged) -> None:
            report(changed)
            self._publisher.wake()

        self._intakes = {
            "cdc": cdc_intake(store, kafka, detector.topics.rules_cdc, arrived),
            "labels": label_intake(store, kafka, detector.topics.labels, schema),
        }
        if alarm_receivers is not None:
            self._intakes["alarms"] = alarm_intake(store, kafka, detector.topics.alarms, alarm_receivers)
        self._expiry = Expiry(store, arrived)
        notifications = AlertNotifications(settings.notifications.alerts_per_minute, Masking(schema).document)
        self._indexer = AlertIndexer(
            store.database, kafka, detector.topics, schema, settings.bounds.alert_days, notifications, store.clock_ms
        )
        self._store = store
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=each.run, args=(self._stop,), name=f"control-plane-{name}", daemon=True)
            for name, each in self._by_name()
        ]

    def start(self) -> None:
        """Start the threads. A change of a user through the same access to the store wakes the publisher."""
        self._store.listen(self._publisher.wake)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads. The next process publishes the rest of the outbox."""
        self._stop.set()
        self._publisher.wake()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def readings(self) -> Sequence[ReaderPosition]:
        """List the readers whose positions are in the store. Raises Unavailable."""
        consumers = [
            ReaderPosition(each.name, each.topic, each.position(), each.failure, shared=True)
            for each in (self._mirror, *self._intakes.values())
        ]
        return [*consumers, *self._indexer.readings()]

    def failures(self) -> dict[str, str]:
        """The reasons why threads fail at the moment, by name."""
        return {name: each.failure for name, each in self._by_name() if each.failure is not None}

    @property
    def ended_by(self) -> FraudError | None:
        """The error that ended the publisher for good; None while it works."""
        return self._publisher.ended_by

    def _by_name(self) -> Sequence[tuple[str, Publisher | TopicConsumer | Expiry | AlertIndexer]]:
        return (
            ("publisher", self._publisher), ("mirror", self._mirror), *self._intakes.items(),
            ("expiry", self._expiry), ("alert-index", self._indexer),
        )  # fmt: skip
