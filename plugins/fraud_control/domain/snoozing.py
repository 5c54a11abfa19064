"""Decides which alerts are snoozed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from fraud_control.domain.errors import ControlPlaneError
from fraud_control.domain.read_models import Snooze

_AGAIN_S: Final = 30.0

_log = logging.getLogger(__name__)


class Snoozing:
    """The snoozes in force at one moment, by rule."""

    def __init__(self, snoozes: Iterable[Snooze] = (), now_ms: int = 0) -> None:
        self._keys: dict[int, list[Mapping[str, object] | None]] = {}
        for snooze in snoozes:
            if snooze.until_ms > now_ms:
                self._keys.setdefault(snooze.rule_id, []).append(snooze.key)

    @property
    def by_rule(self) -> Mapping[int, Sequence[Mapping[str, object] | None]]:
        """The snoozed keys by rule id; None stands for all keys."""
        return self._keys

    def covers(self, rule_id: int, key: Mapping[str, object]) -> bool:
        """Whether an alert of this rule and key is snoozed."""
        keys = self._keys.get(rule_id)
        return keys is not None and any(each is None or dict(each) == dict(key) for each in keys)


class KnownSnoozing:
    """Reads the snoozes in force. While the store does not answer, the last answer holds.

    An unreachable store may take long to fail, so the next attempt comes only after 30 seconds.
    """

    def __init__(self, ask: Callable[[], Snoozing], clock_s: Callable[[], float] = time.monotonic) -> None:
        """`ask` may raise ControlPlaneError."""
        self._ask = ask
        self._clock_s = clock_s
        self._known = Snoozing()
        self._again_s = -math.inf

    def __call__(self) -> Snoozing:
        """The snoozes. Waits for the store, so an event loop must not call it."""
        if self._clock_s() >= self._again_s:
            try:
                self._known = self._ask()
            except ControlPlaneError as error:
                self._again_s = self._clock_s() + _AGAIN_S
                _log.warning(
                    "the store does not answer, so the last known snoozes apply: %s", " ".join(str(error).split())
                )
        return self._known
