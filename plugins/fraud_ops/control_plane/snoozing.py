"""Which alerts nobody wants to see at the moment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fraud_ops.control_plane.views import SnoozeView

__all__ = ["Snoozing"]


class Snoozing:
    """The snoozes in force at one moment, by rule."""

    def __init__(self, snoozes: Iterable[SnoozeView] = (), now_ms: int = 0) -> None:
        self._keys: dict[int, list[Mapping[str, object] | None]] = {}
        for snooze in snoozes:
            if snooze.until_ms > now_ms:
                self._keys.setdefault(snooze.rule_id, []).append(snooze.key)

    def covers(self, rule_id: int, key: Mapping[str, object]) -> bool:
        """Whether an alert of this rule and key is snoozed."""
        keys = self._keys.get(rule_id)
        return keys is not None and any(each is None or dict(each) == dict(key) for each in keys)
