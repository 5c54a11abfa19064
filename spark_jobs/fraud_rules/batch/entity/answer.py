"""Answers questions about entities: their payments and the aggregates of the rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import msgspec

from fraud_rules.batch.archive.place import ArchivePath
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.entity.report import EntityReport, entity_report
from fraud_rules.batch.entity.restrictions import read_restrictions
from fraud_rules.batch.entity.rows import EntityQuery, EntityReader
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.rule_log import RuleLog
from fraud_rules.model.ruleset import RuleTimeline
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.kernel_cache import load_kernel

_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class EntitySource:
    """The cluster, the archive, and the settings of the detector."""

    kafka: KafkaConnection
    archive: ArchivePath
    schema: TransactionSchema
    settings: DetectorSettings


@dataclass(frozen=True, slots=True)
class EntityQuestion:
    """A question. `now_ms` is the present."""

    query: EntityQuery
    now_ms: int


class _EntityReports:
    """Answers questions in one process. The rule log and the compiled kernel stay in memory."""

    def __init__(self, source: EntitySource) -> None:
        self._source = source
        self._rules = TopicReader(source.kafka, source.settings.topics.rules)
        self._log = RuleLog.of(self._rules, source.schema, source.settings.limits)
        archive = ArchiveStore(source.archive)
        self._reader = EntityReader(source.kafka, archive, source.schema, source.settings)
        load_kernel()

    def report(self, question: EntityQuestion) -> EntityReport:
        """Read and evaluate. Raises BrokerUnavailable."""
        query, schema, settings = question.query, self._source.schema, self._source.settings
        rows = self._reader.read(query)
        restrictions = read_restrictions(self._source.kafka, settings.topics.restrictions, query, schema, rows.notes)
        return entity_report(query, rows, self._timeline(), schema, settings, question.now_ms, restrictions)

    def _timeline(self) -> RuleTimeline:
        return self._log.up_to(self._rules.ends()[1], {})


_reports = lru_cache(maxsize=1)(_EntityReports)


def answer_encoded(source: EntitySource, question: EntityQuestion) -> bytes:
    """Return the encoded `EntityReport`. The process keeps what it has read for the next question about the source.

    Raises BrokerUnavailable.
    """
    return _encode(_reports(source).report(question))
