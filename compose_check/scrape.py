"""The metrics of our processes, read as by a Prometheus in the network of the services."""

from __future__ import annotations

from typing import Final

from compose_check.errors import CheckFailed
from compose_check.stack import Stack

__all__ = ["scrape"]

_TARGETS: Final = {
    "agent:9108": "fraud_agent_",
    "agent:9109": "fraud_detector_",
    "control-plane:9110": "fraud_control_plane_",
}
"""The addresses, and the beginning of the names of their series."""

_NEIGHBOUR: Final = "heartbeat"
_READ: Final = "import sys, urllib.request as web; print(web.urlopen(sys.argv[1], timeout=60).read().decode())"


def scrape(stack: Stack) -> None:
    """Read the metrics of agent, detector and control plane from another container. Raises CheckFailed."""
    for target, prefix in _TARGETS.items():
        text = stack.execute(_NEIGHBOUR, "python", "-c", _READ, f"http://{target}/metrics")
        if f"\n{prefix}" not in text:
            raise CheckFailed(f"{target} serves no series {prefix}*: {text[:300]}")
