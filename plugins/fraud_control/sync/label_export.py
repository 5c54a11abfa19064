"""Keeps the file of labels in the archive current, for what-ifs outside the control plane."""

from __future__ import annotations

import time
from typing import Final

from fraud_control.background_thread import LeadingThread
from fraud_control.service.labels.snapshot import LabelFile
from fraud_control.store.database import Database

_INTERVAL_S: Final = 10.0

_REST_S: Final = 60.0
"""The pause after a write: the file is written as a whole, which takes seconds of CPU for a million labels. A what-if
of the control plane does not wait for it, because it writes the file itself."""


class LabelExport(LeadingThread):
    """Writes the file after a change of a label, while this process leads."""

    def __init__(self, database: Database, file: LabelFile) -> None:
        super().__init__("fraud-control-labels", lambda: database.leadership("labels-file"), _INTERVAL_S)
        self._file = file
        self._rests_until_s = 0.0

    def step(self) -> None:
        """Write the file if a label has changed, once a minute at most.

        Raises Unavailable, StorageFull, ArchiveDamaged.
        """
        if time.monotonic() < self._rests_until_s:
            return
        before = self._file.writes
        self._file.refresh()
        if self._file.writes != before:
            self._rests_until_s = time.monotonic() + _REST_S
