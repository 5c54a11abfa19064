"""Observes the phase of a detector's batch from outside, by its progress records in Kafka."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Self

from confluent_kafka import Consumer, TopicPartition

from fraud_rules.logs.detector_status import decode_progress
from tests.support.processes.running_detector import Installation


class Watch:
    """Observes one detector. `batch_id` is the id of the last batch with committed outputs."""

    def __init__(self, installation: Installation) -> None:
        self._names = installation.topics.names
        self.batch_id = -1
        self.ends: dict[int, int] = {}
        self.rules_end = 0
        self._in_transaction = -1
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(installation.topics.bootstrap, committed), daemon=True)
            for committed in (True, False)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def newest(self, moment: str) -> int:
        """The newest batch that has reached a moment: `sent` (its records are in Kafka) or `committed`."""
        return self._in_transaction if moment == "sent" else self.batch_id

    def has_read(self, ends: Mapping[int, int], rules_end: int) -> bool:
        """Whether the last batch has read up to these ends of transactions and rules."""
        read = self.ends
        return self.rules_end >= rules_end and all(read.get(partition, 0) >= end for partition, end in ends.items())

    def phase(self) -> str:
        """The phase of the newest batch."""
        return "sent, not committed" if self._in_transaction > self.batch_id else "evaluated, or not begun"

    def _follow(self, bootstrap: str, committed: bool) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "watch",
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        with contextlib.closing(consumer):
            consumer.assign([TopicPartition(self._names.detector_progress, 0, 0)])
            while not self._stop.is_set():
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                self._note(message.value(), committed)

    def _note(self, record: bytes, committed: bool) -> None:
        progress = decode_progress(record)
        if committed:
            self.ends, self.rules_end = progress.ends_of(self._names.transactions), progress.rules_end
            self.batch_id = progress.batch_id
        else:
            self._in_transaction = progress.batch_id
