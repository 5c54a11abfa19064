"""Answers questions about entities in a child process: `python -m fraud_rules.batch.entity FD`.

The API server must not evaluate rules itself: the kernel and the decoding would hold Python's interpreter lock for
longer than Airflow's event loop may wait. FD is the file descriptor of a connection on which the parent sends first an
`EntitySource` and then `EntityQuestion`s (see `runtime.questions`). Each answer is an encoded `EntityReport`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.entity.report import EntityReport, entity_report
from fraud_rules.batch.entity.rows import EntityBounds, EntityQuery, EntityReader
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.kernel_cache import load_kernel

__all__ = ["EntityQuestion", "EntityReports", "EntitySource", "open_source"]

_BOUNDS: Final = EntityBounds()
_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class EntitySource:
    """The cluster, the archive, and the settings of the detector."""

    kafka: KafkaConnection
    archive: ArchivePath
    schema: TransactionSchema
    settings: DetectorSettings
    bounds: EntityBounds = _BOUNDS


@dataclass(frozen=True, slots=True)
class EntityQuestion:
    """A question. `now_ms` is the present."""

    query: EntityQuery
    now_ms: int


class EntityReports:
    """Answers questions in one process. The rule log and the compiled kernel stay in memory."""

    def __init__(self, source: EntitySource) -> None:
        self._source = source
        self._rules = TopicReader(source.kafka, source.settings.topics.rules)
        self._log = RuleLog.of(self._rules, source.schema, source.settings.limits)
        archive = ArchiveStore(source.archive)
        self._reader = EntityReader(source.kafka, archive, source.schema, source.settings, source.bounds)

    def report(self, question: EntityQuestion) -> EntityReport:
        """Read and evaluate. Raises BrokerUnavailable."""
        rows = self._reader.read(question.query)
        return entity_report(
            question.query, rows, self._timeline(), self._source.schema, self._source.settings, question.now_ms
        )

    def _timeline(self) -> RuleTimeline:
        return self._log.up_to(self._rules.ends()[1], {})


def open_source(source: EntitySource) -> Callable[[EntityQuestion], bytes]:
    """Return the function that answers questions about this source, with encoded reports."""
    reports = EntityReports(source)
    load_kernel()
    return lambda question: _encode(reports.report(question))
