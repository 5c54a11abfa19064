"""The metrics of a server of the control plane, in the format of Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fraud_control.composition import ControlPlane
from fraud_control.domain.errors import Unavailable
from fraud_control.domain.read_models import OutboxState
from fraud_control.sync.outbox import outbox_state
from fraud_control.sync.reader_state import ReaderState
from fraud_rules.kafka.decoding import UNREADABLE_RECORDS
from fraud_rules.runtime.clock import MS_PER_S
from fraud_rules.runtime.metrics_server import process_registry

_PREFIX: Final = "fraud_control_plane_"
_BUCKETS_S: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """The figures of a started server at one moment. `outbox` is None while the database does not answer, and `faults`
    has the reasons of its failing threads by name."""

    outbox: OutboxState | None
    readers: Sequence[ReaderState]
    faults: Mapping[str, str]
    open_streams: int


def server_figures(plane: ControlPlane) -> ServerFigures:
    """Read the figures of a server: one query of the database."""
    try:
        outbox = outbox_state(plane.store.database)
    except Unavailable:
        outbox = None
    return ServerFigures(outbox, plane.readers.states, plane.faults(), plane.hub.readers)


class ControlPlaneMetrics:
    """The registry of one server. It reads the figures whenever a scrape asks, after `started`."""

    def __init__(self) -> None:
        self.registry = process_registry()
        self.registry.register(UNREADABLE_RECORDS)
        self.registry.register(self)
        self.durations = Histogram(
            f"{_PREFIX}request_duration_seconds",
            "Time until the beginning of an answer",
            ["method", "status"],
            registry=self.registry,
            buckets=_BUCKETS_S,
        )
        self._read: Callable[[], ServerFigures] | None = None

    def started(self, read: Callable[[], ServerFigures]) -> None:
        """From now on, the server works and `read` returns its figures."""
        self._read = read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The gauges, as the registry asks for them."""
        read = self._read
        yield GaugeMetricFamily(f"{_PREFIX}ready", "1 once the server works, 0 before", value=float(read is not None))
        if read is not None:
            yield from _gauges(read())


def _gauges(figures: ServerFigures) -> Iterable[GaugeMetricFamily]:
    if figures.outbox is not None:
        pending, oldest_ms = figures.outbox.pending, figures.outbox.oldest_ms
        yield GaugeMetricFamily(f"{_PREFIX}outbox_changes", "Changes that wait for the rule log", value=pending)
        oldest = GaugeMetricFamily(
            f"{_PREFIX}outbox_oldest_timestamp_seconds", "Time at which the oldest waiting change was saved", labels=[]
        )
        if oldest_ms is not None:
            oldest.add_metric([], oldest_ms / MS_PER_S)
        yield oldest
    yield GaugeMetricFamily(f"{_PREFIX}open_streams", "Open event streams of pages", value=figures.open_streams)
    failing = GaugeMetricFamily(f"{_PREFIX}failing", "1 for each work of the server that fails", labels=["work"])
    for work in figures.faults:
        failing.add_metric([work], 1)
    unread = GaugeMetricFamily(
        f"{_PREFIX}unread_records", "Records that a reader has not read", labels=["work", "topic"]
    )
    stuck = GaugeMetricFamily(f"{_PREFIX}reader_stuck", "1 while a reader is stuck", labels=["work", "topic"])
    for each in figures.readers:
        unread.add_metric([each.name, each.topic], each.behind)
        stuck.add_metric([each.name, each.topic], float(each.stuck))
    yield from (failing, unread, stuck)


class RequestTimer:
    """Middleware that observes how long each request waits for the beginning of its answer."""

    def __init__(self, app: ASGIApp, durations: Histogram) -> None:
        self._app = app
        self._durations = durations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        method = scope["method"] if scope["method"] in _METHODS else "other"

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                duration_s = time.perf_counter() - begun
                self._durations.labels(method, str(message["status"])).observe(duration_s)
            await send(message)

        await self._app(scope, receive, timed)
