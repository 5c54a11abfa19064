"""The detector's metrics in the format of Prometheus: the newest batch, and sums since the start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge

from fraud_rules.kafka.decoding import UNREADABLE_RECORDS
from fraud_rules.logs.detector_status import BatchProgress
from fraud_rules.runtime import clock
from fraud_rules.runtime.clock import MS_PER_S
from fraud_rules.runtime.metrics_server import serving
from fraud_rules.stream.driver.job import DetectorJob

__all__ = ["DetectorMetrics", "serve_metrics"]

_COUNTED = (
    "rows", "alerts", "shadow_alerts", "late", "quarantined", "duplicates", "conflicting_duplicates", "null_keys",
    "view_catch_ups", "view_rebuilds",
)  # fmt: skip
_SHOWN = ("batch_id", "lag", "rules_in_force", "retained_events", "retained_bytes")


class DetectorMetrics:
    """The gauges and counters of one detector."""

    def __init__(self, detector: str) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(UNREADABLE_RECORDS)
        self._labels = {"detector": detector}
        self._batches = self._counter("batches", "Batches whose outputs are written")
        self._counters = {name: self._counter(name, f"The sum of `{name}` of the batches") for name in _COUNTED}
        self._gauges = {name: self._gauge(name, f"`{name}` of the newest batch") for name in _SHOWN}
        self._written = self._gauge("last_batch_timestamp_seconds", "Time at which the newest batch was written")
        self._watermark = self._gauge("watermark_timestamp_seconds", "The newest watermark of a key group")
        self._latency = {
            name: self._gauge(f"{name}_seconds", f"`{name}` of the previous batch, from append time to readable alerts")
            for name in ("p50", "p99")
        }

    def add_batch(self, progress: BatchProgress) -> None:
        """Add a written batch."""
        self._batches.inc()
        for name, counter in self._counters.items():
            counter.inc(getattr(progress, name))
        for name, gauge in self._gauges.items():
            gauge.set(getattr(progress, name) or 0)
        self._written.set(clock.now_ms() / MS_PER_S)
        if progress.watermark is not None:
            self._watermark.set(progress.watermark / MS_PER_S)
        for name, gauge in self._latency.items():
            value_ms = getattr(progress.previous, f"{name}_ms", None)
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
