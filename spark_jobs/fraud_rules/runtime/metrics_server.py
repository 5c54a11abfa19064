"""Serves metrics over HTTP while a process runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from fraud_rules.errors import ConfigError, PortInUse

_ADDRESS = re.compile(r"([^:]+):([0-9]{1,5})", re.ASCII)


def check_address(address: str) -> tuple[str, int]:
    """Split `host:port` into host and port. Raises ConfigError."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match[2]) <= 65_535:
        raise ConfigError(f"{address!r} is not a valid address for metrics; use the form 127.0.0.1:9108")
    return match[1], int(match[2])


def process_registry() -> CollectorRegistry:
    """A registry with the usual figures of a process: CPU time, memory and open files (`process_*`)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


@contextmanager
def serving(address: str, registry: CollectorRegistry) -> Iterator[None]:
    """Serve a registry at `host:port`. An empty address disables the server. Raises ConfigError, PortInUse."""
    if not address:
        yield
        return
    host, port = check_address(address)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise PortInUse(f"metrics cannot be served at {address}: {error.strerror}") from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
