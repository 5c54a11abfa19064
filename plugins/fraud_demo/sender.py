"""Sends the demo's traffic in a thread, records the planted frauds, and follows the steering folder."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from fraud_demo.screen import Sending
from fraud_demo.steering import Steering, TrafficState
from fraud_demo.traffic import TrafficRecord, TrafficSettings, generate, planted_fraud
from fraud_demo.traffic_writer import SendCounts, TrafficWriter
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.runtime import clock
from fraud_rules.runtime.lifetime import BackgroundWork

_POLL_S = 0.2


class Sender(BackgroundWork):
    """One run of traffic. In an endless run, the steering folder can change the speed and plant frauds."""

    def __init__(
        self, kafka: KafkaConnection, topic: str, settings: TrafficSettings, steering: Steering | None = None
    ) -> None:
        # The check of a finite run relies on the traffic of its settings, so such a run is not steered.
        self._steering = steering if settings.seconds is None else None
        self._kafka = kafka
        self._topic = topic
        self._settings = settings
        self._planted: dict[int, str] = {}
        self._whole: set[str] = set()
        super().__init__("traffic")
        self._failure: Exception | None = None
        self._started_ms = 0
        self._started_s: float | None = None
        self.sent = SendCounts()

    @property
    def planted(self) -> Mapping[int, str]:
        """The labels of the planted frauds, by the ids of their sent transactions."""
        return self._planted

    @property
    def planted_whole(self) -> Mapping[int, str]:
        """The labels of the completely sent frauds, by transaction id. Only these must raise alerts."""
        return {identity: label for identity, label in self._planted.items() if label in self._whole}

    def start(self) -> None:
        """Start to send."""
        self._started_ms, self._started_s = clock.now_ms(), time.monotonic()
        self._thread.start()

    def ended(self) -> bool:
        """Whether all records are sent. Raises the error that ended the thread, if any."""
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def sending(self) -> Sending:
        """The progress of the traffic."""
        elapsed_s = 0.0 if self._started_s is None else time.monotonic() - self._started_s
        return Sending(self.sent.records, len(set(dict(self._planted).values())), elapsed_s)

    def _run(self) -> None:
        try:
            self._send()
        except Exception as error:  # noqa: BLE001 - `ended` raises it, so that a demo without traffic reports the reason
            self._failure = error

    def _send(self) -> None:
        try:
            writer = TrafficWriter(self._kafka, self._topic)
            self.sent = writer.sent
            writer.send(self._records(), self._stop, self._record)
        finally:
            if self._steering is not None:
                self._steering.end()

    def _records(self) -> Iterator[TrafficRecord]:
        if self._steering is None:
            return generate(self._settings, self._started_ms)
        return self._steered(self._steering)

    def _steered(self, steering: Steering) -> Iterator[TrafficRecord]:
        """Generate traffic at the requested speed, restarted at each change of it, with the requested frauds."""
        per_s = int(self._settings.rate_per_s)
        planted: list[TrafficRecord] = []
        while not self._stop.is_set():
            steering.write_state(TrafficState(per_s))
            now_ms = clock.now_ms()
            ordinary = generate(replace(self._settings, rate_per_s=per_s), now_ms) if per_s else iter(())
            requested = per_s
            while requested == per_s and not self._stop.is_set():
                planted += self._requested_frauds(steering)
                now_ms += int(_POLL_S * 1_000)
                due = [record for record in planted if record.due_ms < now_ms]
                planted = [record for record in planted if record.due_ms >= now_ms]
                yield from heapq.merge(_until(ordinary, now_ms), due, key=attrgetter("due_ms"))
                if not per_s:
                    self._stop.wait(_POLL_S)
                found = steering.speed()
                requested = per_s if found is None else found
            per_s = requested

    def _requested_frauds(self, steering: Steering) -> Iterator[TrafficRecord]:
        for request in steering.requests():
            now_ms = clock.now_ms()
            yield from planted_fraud(request.pattern, request.label, now_ms, seed=now_ms)

    def _record(self, record: TrafficRecord) -> None:
        if record.planted is not None and record.transaction_id is not None:
            self._planted[record.transaction_id] = record.planted
            if record.ends_fraud:
                self._whole.add(record.planted)


def _until(records: Iterator[TrafficRecord], due_ms: int) -> Iterator[TrafficRecord]:
    """Yield the records before a time, and the first one after it."""
    for record in records:
        yield record
        if record.due_ms >= due_ms:
            return
