"""A child process that answers questions about entities: `python -m fraud_rules.batch.entity FD`.

The API server must not evaluate rules itself: the kernel and the decoding would hold Python's interpreter lock for
longer than Airflow's event loop may wait. FD is the file descriptor of a connection on which the parent sends first an
`EntitySource` and then `EntityQuestion`s; each answer is an encoded `EntityReport` or an `EntityFailure`. The process
ends when the parent closes the connection, and after ten minutes without a question.
"""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec

from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.entity.report import EntityReport, entity_report
from fraud_rules.batch.entity.rows import EntityBounds, EntityQuery, EntityReader
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import FraudError
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.kernel_cache import load_kernel

__all__ = ["EntityFailure", "EntityQuestion", "EntityReports", "EntitySource", "answer_questions"]

_BOUNDS: Final = EntityBounds()
_IDLE_S: Final = 600.0
_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class EntitySource:
    """The cluster, the archive, and the settings of the detector."""

    kafka: KafkaConnection
    archive: Path
    schema: TransactionSchema
    settings: DetectorSettings
    bounds: EntityBounds = _BOUNDS


@dataclass(frozen=True, slots=True)
class EntityQuestion:
    """A question. `now_ms` is the present."""

    query: EntityQuery
    now_ms: int


@dataclass(frozen=True, slots=True)
class EntityFailure:
    """The reason why there is no report."""

    reason: str


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


def answer_questions(connection: Connection) -> None:
    """Answer questions until the parent closes the connection, or sends none for a while."""
    source: EntitySource = connection.recv()
    reports = EntityReports(source)
    load_kernel()
    while connection.poll(_IDLE_S):
        try:
            question: EntityQuestion = connection.recv()
        except EOFError:
            return
        connection.send(_answer(reports, question))


def _answer(reports: EntityReports, question: EntityQuestion) -> bytes | EntityFailure:
    try:
        return _encode(reports.report(question))
    except FraudError as error:
        return EntityFailure(" ".join(str(error).split()))
