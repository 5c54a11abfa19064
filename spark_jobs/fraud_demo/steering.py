"""How others steer the demo's traffic: a folder in which one side leaves wishes and the other says what it does.

Files are put in place whole, so that neither side ever reads half of one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fraud_demo.fraud_patterns import FRAUDS
from fraud_rules.runtime.atomic_file import Durability, write_file

__all__ = ["VARIABLE", "Steering", "TrafficState", "Wish"]

VARIABLE = "FRAUD_DEMO_STEERING"
"""Names the folder, where there is traffic to steer."""

MAX_PER_S = 5_000


class TrafficState(msgspec.Struct, frozen=True, rename="camel"):
    """What the traffic is at: transactions a second."""

    per_s: int
    max_per_s: int = MAX_PER_S


class Wish(msgspec.Struct, frozen=True, rename="camel"):
    """A fraud to plant; `label` is how it is known in the traffic."""

    pattern: str
    label: str


_state = msgspec.json.Decoder(TrafficState).decode
_wish = msgspec.json.Decoder(Wish).decode


@dataclass(frozen=True, slots=True)
class Steering:
    """One folder."""

    folder: Path

    def state(self) -> TrafficState | None:
        """What the traffic is at; None when nobody sends any here."""
        try:
            return _state((self.folder / "state.json").read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None

    def say(self, state: TrafficState) -> None:
        """Say what the traffic is at."""
        _put(self.folder / "state.json", msgspec.json.encode(state))

    def end(self) -> None:
        """Say that there is none any more."""
        (self.folder / "state.json").unlink(missing_ok=True)

    def set_speed(self, per_s: int) -> None:
        """Wish for so many transactions a second."""
        _put(self.folder / "speed.json", msgspec.json.encode(TrafficState(min(per_s, MAX_PER_S))))

    def speed(self) -> int | None:
        """The speed that is wished for; None while nobody has."""
        try:
            return _state((self.folder / "speed.json").read_bytes()).per_s
        except (OSError, msgspec.MsgspecError):
            return None

    def plant(self, pattern: str) -> Wish:
        """Wish for a fraud. Raises KeyError for a pattern there is none of."""
        FRAUDS[pattern]
        name = uuid.uuid4().hex[:8]
        wish = Wish(pattern, f"{pattern}-{name}")
        _put(self.folder / f"{name}.wish", msgspec.json.encode(wish))
        return wish

    def wishes(self) -> Iterator[Wish]:
        """The frauds wished for since the last call."""
        for path in sorted(self.folder.glob("*.wish")):
            try:
                wish = _wish(path.read_bytes())
            except (OSError, msgspec.MsgspecError):
                continue
            finally:
                path.unlink(missing_ok=True)
            if wish.pattern in FRAUDS:
                yield wish


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content, Durability.NONE)
