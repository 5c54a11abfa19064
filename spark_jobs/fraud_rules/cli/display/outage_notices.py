"""The outage notices of a command that follows alerts: at the start of an outage, every minute, and at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from fraud_rules.cli.display.status_lines import SEVERITY_STYLES
from fraud_rules.monitoring.liveness import Liveness, Severity

_REPEAT_MS: Final = 60_000


class OutageNotices:
    """Decides which notices are due. It keeps the severity and the time of the last notice."""

    def __init__(self) -> None:
        self._severity = Severity.NONE
        self._noticed_ms = 0

    def of(self, live: Liveness | None) -> Iterator[Text]:
        """Yield the notice that is due at `live.at_ms`, if any."""
        if live is None:
            return
        over = live.severity is Severity.NONE
        changed = live.severity is not self._severity
        if not changed and (over or live.at_ms - self._noticed_ms < _REPEAT_MS):
            return
        self._severity, self._noticed_ms = live.severity, live.at_ms
        if over:
            yield Text("Payments are evaluated again.", "bold green")
        else:
            yield Text(live.sentence(), SEVERITY_STYLES[live.severity])
