"""The detector's metrics in the format of Prometheus: the newest batch, and sums since the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from prometheus_client import Counter, Gauge

from fraud_rules.kafka.decoding import UNREADABLE_RECORDS
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.runtime import clock
from fraud_rules.runtime.clock import MS_PER_S
from fraud_rules.runtime.metrics_server import process_registry, serving
from fraud_rules.stream.driver.job import DetectorJob

_COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "rows": ("transactions", "Transactions that were evaluated"),
    "alerts": ("alerts", "Alerts of live rules"),
    "shadow_alerts": ("shadow_alerts", "Alerts of shadow rules"),
    "late": ("late_rows", "Late transactions, counted once in each grouping in which they were late"),
    "quarantined": ("quarantined_records", "Unreadable records that went to quarantine"),
    "duplicates": ("duplicate_transactions", "Transactions that a grouping ignored because it retains their id"),
    "conflicting_duplicates": ("conflicting_transactions", "Duplicates that differ from the retained transaction"),
    "null_keys": ("null_key_transactions", "Transactions that a grouping ignored because of a null in its fields"),
    "view_catch_ups": ("view_catch_ups", "Views of key groups that caught up with missed versions"),
    "view_rebuilds": ("view_rebuilds", "Views of key groups that were rebuilt from Kafka"),
}
"""The counters and their meanings, by the member of `BatchProgress` that they sum."""

_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "batch_id": ("batch_id", "Number of the newest batch"),
    "lag": ("waiting_transactions", "Transactions that waited after the newest batch"),
    "rules_in_force": ("rules_in_force", "Rules that the newest batch evaluated"),
    "retained_events": ("retained_events", "Rows in the state of all groupings"),
    "retained_bytes": ("retained_bytes", "Size of the state of all groupings"),
}
_QUANTILES: Final = {"0.5": "p50_ms", "0.99": "p99_ms"}


class DetectorMetrics:
    """The gauges and counters of one detector."""

    def __init__(self, detector: str) -> None:
        self.registry = process_registry()
        self.registry.register(UNREADABLE_RECORDS)
        self._labels = {"detector": detector}
        self._batches = self._counter("batches", "Batches whose outputs are written")
        self._counters = {member: self._counter(*named) for member, named in _COUNTERS.items()}
        self._gauges = {member: self._gauge(*named) for member, named in _GAUGES.items()}
        self._written = self._gauge("last_batch_timestamp_seconds", "Time at which the newest batch was written")
        self._watermark = self._gauge("watermark_timestamp_seconds", "The newest watermark of a key group")
        about = "Time from append time to readable alerts in the previous batch with transactions"
        latency = Gauge("fraud_detector_latency_seconds", about, [*self._labels, "quantile"], registry=self.registry)
        self._latency = {
            member: latency.labels(**self._labels, quantile=quantile) for quantile, member in _QUANTILES.items()
        }

    def add_batch(self, progress: BatchProgress) -> None:
        """Add a written batch."""
        self._batches.inc()
        for member, counter in self._counters.items():
            counter.inc(getattr(progress, member))
        for member, gauge in self._gauges.items():
            gauge.set(getattr(progress, member) or 0)
        self._written.set(clock.now_ms() / MS_PER_S)
        if progress.watermark is not None:
            self._watermark.set(progress.watermark / MS_PER_S)
        for member, gauge in self._latency.items():
            value_ms = getattr(progress.previous, member, None)
            if value_ms is not None:
                gauge.set(value_ms / MS_PER_S)

    def _counter(self, name: str, about: str) -> Counter:
        counter = Counter(f"fraud_detector_{name}", about, [*self._labels], registry=self.registry)
        return counter.labels(**self._labels)

    def _gauge(self, name: str, about: str) -> Gauge:
        gauge = Gauge(f"fraud_detector_{name}", about, [*self._labels], registry=self.registry)
        return gauge.labels(**self._labels)


@contextmanager
def serve_metrics(job: DetectorJob) -> Iterator[DetectorMetrics]:
    """Create the metrics and serve them at the job's address, if it has one. Raises PortInUse."""
    metrics = DetectorMetrics(job.settings.detector)
    with serving(job.metrics, metrics.registry):
        yield metrics
