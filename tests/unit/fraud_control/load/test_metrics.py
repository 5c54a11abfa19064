"""The durations of requests, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from fraud_control.web.load.metrics import ControlPlaneMetrics, RequestTimer


def count(registry: CollectorRegistry, **labels: str) -> float | None:
    return registry.get_sample_value("fraud_control_plane_request_duration_seconds_count", labels)


def test_requests_are_counted_by_method_and_status_and_foreign_methods_together() -> None:
    metrics = ControlPlaneMetrics()
    site = Starlette(routes=[Route("/", lambda _: Response(), methods=["GET"])])
    site.add_middleware(RequestTimer, durations=metrics.durations)
    client = TestClient(site)
    for method, path in (("GET", "/"), ("GET", "/"), ("GET", "/no"), ("X1", "/"), ("X2", "/")):
        client.request(method, path)
    assert count(metrics.registry, method="GET", status="200") == 2
    assert count(metrics.registry, method="GET", status="404") == 1
    assert count(metrics.registry, method="other", status="405") == 2
    assert metrics.registry.get_sample_value("fraud_control_plane_ready") == 0
