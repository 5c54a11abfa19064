"""Work that is begun again whatever ends it, with growing pauses, saying once why."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from fraud_rules.errors import FraudError

__all__ = ["Attempts"]

_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
_STAND_BY_S: Final = 1.0

_log = logging.getLogger(__name__)


class Attempts:
    """The attempts at one thing. `pause_s` is how long to wait before the next, `failure` why the last one ended."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.failure: str | None = None
        self.pause_s = _PAUSE_S

    @contextmanager
    def another(self) -> Iterator[Self]:
        """An attempt; an error ends it and nothing else."""
        try:
            yield self
        except FraudError as error:
            said = " ".join(str(error).split())
            if said != self.failure:
                _log.warning("%s waits: %s", self._what, said)
            self._fails(said)
        except Exception as error:  # noqa: BLE001 -- the thread goes on, or nothing would until the next start
            _log.exception("%s failed", self._what)
            self._fails(f"{type(error).__name__}: see the log")

    def stands_by(self) -> None:
        """Another process does the work: look again whether it still does."""
        self.failure, self.pause_s = None, _STAND_BY_S

    def succeeds(self) -> None:
        """The attempt has come to its work."""
        self.failure, self.pause_s = None, _PAUSE_S

    def _fails(self, said: str) -> None:
        self.failure = said
        self.pause_s = min(2 * self.pause_s, _LONGEST_PAUSE_S)
