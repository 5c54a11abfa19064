"""Which alerts are snoozed at the moment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from fraud_ops.control_plane.errors import ControlPlaneError
from fraud_ops.control_plane.views import SnoozeView

__all__ = ["KnownSnoozing", "Snoozing"]

_log = logging.getLogger(__name__)


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


class KnownSnoozing:
    """The snoozes in force; those of the last answer while the store does not answer."""

    def __init__(self, ask: Callable[[], Snoozing]) -> None:
        """`ask` may raise ControlPlaneError."""
        self._ask = ask
        self._known = Snoozing()
        self._answers = True

    def __call__(self) -> Snoozing:
        """The snoozes. Waits for the store, so that no event loop may call it."""
        try:
            self._known, self._answers = self._ask(), True
        except ControlPlaneError as error:
            if self._answers:
                _log.warning("the snoozes are those of the last answer: %s", " ".join(str(error).split()))
            self._answers = False
        return self._known
