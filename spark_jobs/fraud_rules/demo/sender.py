"""The demo's traffic: sent by a thread, and known by what was planted in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from fraud_rules.demo.screen import Sending
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.traffic_writer import Sent, TrafficWriter
from fraud_rules.traffic import TrafficRecord, TrafficSettings, generate


class Sender:
    """One run of traffic."""

    def __init__(self, kafka: KafkaConnection, topic: str, settings: TrafficSettings) -> None:
        self._kafka = kafka
        self._topic = topic
        self._settings = settings
        self._planted: dict[int, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._failure: FraudError | None = None
        self._started_s = 0.0
        self.sent = Sent()

    @property
    def planted(self) -> Mapping[int, str]:
        """The labels of planted frauds by transaction id, of those sent."""
        return self._planted

    def start(self) -> None:
        """Begin to send."""
        self._started_s = time.time()
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and return once the broker has all that was sent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def ended(self) -> bool:
        """Whether all is sent. Raises what ended the thread otherwise."""
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def sending(self) -> Sending:
        """How far it is."""
        elapsed_s = time.time() - self._started_s if self._started_s else 0.0
        return Sending(self.sent.records, len(set(dict(self._planted).values())), elapsed_s)

    def _run(self) -> None:
        try:
            writer = TrafficWriter(self._kafka, self._topic)
            self.sent = writer.sent
            writer.send(generate(self._settings, int(self._started_s * 1_000)), self._stop, self._note)
        except FraudError as error:
            self._failure = error

    def _note(self, record: TrafficRecord) -> None:
        if record.planted is not None and record.transaction_id is not None:
            self._planted[record.transaction_id] = record.planted
