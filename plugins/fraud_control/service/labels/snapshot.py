"""The file of all labels for what-ifs: the marks, and the labels from files and from the topic, in the order of time.

A what-if uses the last label of a transaction in the file. So the newest label counts, whatever its source.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fraud_control.store.alert_models import MarkRow
from fraud_control.store.database import Database
from fraud_control.store.label_models import LabelRow
from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import named_storage_errors, write_whole
from fraud_rules.batch.whatif.labels import LabelSource
from fraud_rules.batch.whatif.place import LABELS_FILE

_AT_ONCE: Final = 1_000

_line = msgspec.json.Encoder().encode

_State: TypeAlias = tuple[Any, ...]


class LabelFile:
    """The file in the archive. Several threads and processes may write it; each replaces it as a whole."""

    def __init__(self, database: Database, archive: ArchivePath) -> None:
        self._database = database
        self._archive = archive
        self._path: ArchivePath = archive / LABELS_FILE
        self._lock = threading.Lock()
        self._written: _State | None = None
        self.writes = 0
        """The number of times that this process has written the file."""

    def refresh(self) -> ArchivePath | None:
        """Write the labels if one has changed since the last call. Return the file; None without labels.

        Without an archive, there is nothing to evaluate, so there is no file. Raises Unavailable, StorageFull,
        ArchiveDamaged, ArchiveUnreachable.
        """
        with self._lock, self._database.reading() as session, named_storage_errors(self._path):
            state = _state(session)
            if state != self._written and self._archive.is_dir():
                content = b"".join(_line(each) + b"\n" for each in _labels(session))
                if content:
                    write_whole(self._path, content)
                    self.writes += 1
                else:
                    self._path.unlink(missing_ok=True)
                self._written = state
            return self._path if self._path.exists() else None


def _state(session: Session) -> _State:
    """A value that changes with each change of a label."""
    labels = session.execute(select(func.count(), func.max(LabelRow.saved_ms))).one()
    frauds = func.sum(func.length(MarkRow.verdict))
    marks = session.execute(select(func.count(), func.max(MarkRow.at_ms), frauds)).one()
    return (*labels, *marks)


def _labels(session: Session) -> Iterator[dict[str, str]]:
    """The lines of the file. Of two labels with the same time, the one about the transaction comes last."""
    marks = session.execute(
        select(MarkRow.at_ms, MarkRow.alert_id, MarkRow.verdict).order_by(MarkRow.at_ms, MarkRow.alert_id),
        execution_options={"yield_per": _AT_ONCE},
    )
    labels = session.execute(
        select(LabelRow.at_ms, LabelRow.transaction_id, LabelRow.verdict, LabelRow.source).order_by(
            LabelRow.at_ms, LabelRow.transaction_id
        ),
        execution_options={"yield_per": _AT_ONCE},
    )
    of_marks = ((at_ms, _fields("alertId", key, label, LabelSource.MARK)) for at_ms, key, label in marks)
    of_labels = ((at_ms, _fields("transactionId", key, label, source)) for at_ms, key, label, source in labels)
    for _, line in heapq.merge(of_marks, of_labels, key=itemgetter(0)):
        yield line


def _fields(member: str, key: str, label: str, source: str) -> dict[str, str]:
    return {member: key, "label": label, "source": source}
