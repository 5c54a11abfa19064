"""Steers the demo's traffic through a folder: one side writes requests, the other side writes the state.

Both sides write files atomically, so that the other side never reads a partial file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fraud_demo.fraud_patterns import FRAUDS
from fraud_rules.runtime.atomic_file import Durability, write_file

VARIABLE = "FRAUD_DEMO_STEERING"
"""The environment variable with the path of the folder."""

MAX_PER_S = 5_000


class TrafficState(msgspec.Struct, frozen=True, rename="camel"):
    """The state of the traffic: transactions per second."""

    per_s: int
    max_per_s: int = MAX_PER_S


class FraudRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request to plant a fraud. `label` identifies the fraud in the traffic."""

    pattern: str
    label: str


_state = msgspec.json.Decoder(TrafficState).decode
_decode_request = msgspec.json.Decoder(FraudRequest).decode


@dataclass(frozen=True, slots=True)
class Steering:
    """A steering folder."""

    folder: Path

    def state(self) -> TrafficState | None:
        """The state of the traffic. None without traffic."""
        try:
            return _state((self.folder / "state.json").read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None

    def write_state(self, state: TrafficState) -> None:
        """Write the state of the traffic."""
        _put(self.folder / "state.json", msgspec.json.encode(state))

    def end(self) -> None:
        """Record the end of the traffic."""
        (self.folder / "state.json").unlink(missing_ok=True)

    def set_speed(self, per_s: int) -> None:
        """Request a number of transactions per second."""
        _put(self.folder / "speed.json", msgspec.json.encode(TrafficState(min(per_s, MAX_PER_S))))

    def speed(self) -> int | None:
        """The requested speed. None without a request."""
        try:
            return _state((self.folder / "speed.json").read_bytes()).per_s
        except (OSError, msgspec.MsgspecError):
            return None

    def plant(self, pattern: str) -> FraudRequest:
        """Request a fraud. Raises KeyError for an unknown pattern."""
        FRAUDS[pattern]
        name = uuid.uuid4().hex[:8]
        request = FraudRequest(pattern, f"{pattern}-{name}")
        _put(self.folder / f"{name}.request", msgspec.json.encode(request))
        return request

    def requests(self) -> Iterator[FraudRequest]:
        """Yield the frauds that were requested since the last call."""
        for path in sorted(self.folder.glob("*.request")):
            try:
                request = _decode_request(path.read_bytes())
            except (OSError, msgspec.MsgspecError):
                continue
            finally:
                path.unlink(missing_ok=True)
            if request.pattern in FRAUDS:
                yield request


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content, Durability.NONE)
