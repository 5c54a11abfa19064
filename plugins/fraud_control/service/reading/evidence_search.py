"""Reads the transactions of an alert's windows from the broker again, as far as the topic still has them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from fraud_control.domain.read_models import Evidence
from fraud_control.service.reading.pool import ReadingPool
from fraud_rules.codec.rules.codec import parse_rule_document
from fraud_rules.codec.transactions.codec import decode_transactions
from fraud_rules.codec.transactions.needle import Needle
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.role_rows import role_rows
from fraud_rules.errors import RuleRejected
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.decoding import UNDECODABLE, decode_reason
from fraud_rules.kafka.reader import TopicReader
from fraud_rules.logs.transactions import raw_transactions
from fraud_rules.model.expressions.predicate import Predicate
from fraud_rules.model.rule import AggregateCondition, Rule
from fraud_rules.model.schema import ID_FIELD, ROLE, TIME_FIELD, TransactionSchema
from fraud_rules.model.transaction import TransactionBatch

_CHUNK = 5_000
_MOST_READ = 1_000_000
_MOST_FOUND = 500
_MOST_S = 10.0

_LAST_MS = 2**53
_Whole = Annotated[int, msgspec.Meta(ge=-_LAST_MS, le=_LAST_MS)]


class _Condition(msgspec.Struct, rename="camel"):
    window_start: _Whole | None = None


class _Alert(msgspec.Struct, rename="camel"):
    violated_rule: dict[str, object]
    key: dict[str, Any]
    window_start: _Whole
    window_end: _Whole
    window_count: _Whole
    ingestion_time: Annotated[int, msgspec.Meta(ge=0, le=_LAST_MS)]
    conditions: list[_Condition] = []


_read = msgspec.json.Decoder(_Alert, float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """The cluster, and the settings of the detector."""

    kafka: KafkaConnection
    schema: TransactionSchema
    settings: DetectorSettings


class EvidenceReader:
    """Finds evidence in a process of the pool. Several threads may use it."""

    def __init__(self, pool: ReadingPool, source: EvidenceSource) -> None:
        self._pool = pool
        self._source = source

    def read(self, alert: bytes) -> bytes:
        """Read the evidence of an alert from its published JSON, as the JSON of an `Evidence`.

        Raises Unavailable.
        """
        return self._pool.ask(_find, self._source, alert, "the topic could not be read in time: try again")


def _find(source: EvidenceSource, alert: bytes) -> bytes:
    return _encode(EvidenceSearch(source).find(alert).model_dump(by_alias=True))


class EvidenceSearch:
    """Finds evidence, with bounds on the records and the time of a search."""

    def __init__(self, source: EvidenceSource) -> None:
        self._kafka = source.kafka
        self._schema = source.schema
        self._settings = source.settings

    def find(self, alert: bytes) -> Evidence:
        """Find the evidence of an alert from its published JSON. An unreadable alert has no evidence.

        Raises BrokerUnavailable.
        """
        try:
            asked = _read(alert)
            rule = self._rule(asked.violated_rule)
        except UNDECODABLE as error:
            return _evidence((), 0, f"the alert is unreadable: {decode_reason(error)}")
        return self._found(_Search(asked, rule, self._schema, self._settings))

    def _found(self, search: _Search) -> Evidence:
        with TopicReader(self._kafka, self._settings.topics.transactions) as reader:
            for partition in reader.partitions():
                self._search(reader, partition, search)
        return search.evidence()

    def _rule(self, document: Mapping[str, object]) -> Rule | None:
        """Parse the rule. None if it is invalid, for example after a change of the schema; then no filter applies."""
        try:
            change = parse_rule_document(document, self._schema, self._settings.limits)
        except RuleRejected:
            return None
        return change if isinstance(change, Rule) else None

    def _search(self, reader: TopicReader, partition: int, search: _Search) -> None:
        first, end = reader.ends(partition)
        start = reader.offset_at(search.since_ms, partition)
        if start is None:
            return
        until = reader.offset_at(search.asked.ingestion_time + 1, partition)
        last = end if until is None else until
        if start <= first and first > 0 and first < last:
            search.retained = False
        if last - start > search.left:
            search.cut(f"the window spans more than {_MOST_READ:,} transactions; only the last ones were searched")
            start = max(start, last - search.left)
        search.left -= last - start
        messages = reader.read_ranges({partition: (start, last)})
        while chunk := list(islice(messages, _CHUNK)):
            search.add_messages(chunk)
            if search.out_of_time():
                search.cut(f"the search stopped after {_MOST_S:g} s")
                return


class _FoundRow(NamedTuple):
    """A transaction with its place in the topic. `is_own`: the rule's own aggregate counts it."""

    place: tuple[int, int, int]
    row: Mapping[str, object]
    is_own: bool


class _Window(NamedTuple):
    """The rows that an aggregate of the rule counts: those from `start_ms` on that pass the filter."""

    start_ms: int
    filter: Predicate | None

    def mask(self, batch: TransactionBatch) -> NDArray[np.bool_]:
        """Which rows it counts, if they are of the key and not after the alert: bool[n]."""
        found: NDArray[np.bool_] = batch.columns[TIME_FIELD].values >= self.start_ms
        return found if self.filter is None else found & self.filter.mask(batch.columns, len(batch))


def _windows(asked: _Alert, rule: Rule | None) -> list[_Window]:
    """The windows of the rule's aggregates; the own one is the first, unless the rule has only conditions."""
    own = [_Window(asked.window_start, None if rule is None else rule.filter)]
    if rule is None:
        return own
    others = [
        _Window(each.window_start, condition.filter)
        for each, condition in zip(asked.conditions, rule.conditions, strict=False)
        if isinstance(condition, AggregateCondition) and each.window_start is not None
    ]
    return [*own, *others] if rule.has_aggregate or not others else others


class _Search:
    """The state of one search."""

    def __init__(self, asked: _Alert, rule: Rule | None, schema: TransactionSchema, settings: DetectorSettings) -> None:
        self.asked = asked
        self._windows = _windows(asked, rule)
        self._counts_own = rule is None or rule.has_aggregate
        self._schema = schema
        self._of_rows = schema.of_rows(asked.key)
        self._settings = settings
        # The event time of a transaction may be ahead of its arrival, within the tolerance.
        self.since_ms = min(each.start_ms for each in self._windows) - settings.future_tolerance_ms
        self.left = _MOST_READ
        self.retained = True
        self._missing: str | None = None
        self._found: dict[tuple[object, object], _FoundRow] = {}
        self._until_s = time.monotonic() + _MOST_S
        self._needles = [
            [Needle.of(schema, field, value) for field in schema.value_fields(name)]
            for name, value in asked.key.items()
        ]

    def cut(self, why: str) -> None:
        self._missing = why

    def out_of_time(self) -> bool:
        return time.monotonic() > self._until_s

    def add_messages(self, messages: Sequence[Message]) -> None:
        """Search some records of a partition, in order."""
        chosen = [each for each in messages if self._may_match(each)]
        if not chosen:
            return
        raw = raw_transactions(chosen, self._schema, self._settings)
        batch = decode_transactions(raw, self._schema, self._settings.record_limits).batch
        for found in self._rows(role_rows(batch, self._of_rows.row_entity)):
            identity = found.row[ID_FIELD], found.row[ROLE] if self._of_rows.row_entity else None
            if identity not in self._found or found.place < self._found[identity].place:
                self._found[identity] = found  # of a transaction that was delivered twice, the first counts

    def _may_match(self, message: Message) -> bool:
        """Whether a record has the bytes of each member of the key: for an entity, in one of its roles."""
        key, value = message.key(), message.value()
        return all(any(needle.is_in(key, value) for needle in of_member) for of_member in self._needles)

    def evidence(self) -> Evidence:
        """Return the transactions that were found."""
        rows = [found.row for found in self._found.values()]
        rows.sort(key=lambda row: (row[TIME_FIELD], str(row[ID_FIELD])))
        return _evidence(rows[-_MOST_FOUND:], len(rows), self._missing_reason(len(rows)))

    def _rows(self, batch: TransactionBatch) -> Iterator[_FoundRow]:
        masks = np.stack([each.mask(batch) for each in self._windows])
        wanted = masks.any(axis=0) & (batch.columns[TIME_FIELD].values <= self.asked.window_end)
        for i in wanted.nonzero()[0].tolist():
            row = batch.row(i, self._of_rows)
            if all(row.get(name) == value for name, value in self.asked.key.items()):
                place = int(batch.append_ms[i]), int(batch.partition[i]), int(batch.offset[i])
                yield _FoundRow(place, row, is_own=bool(masks[0, i]))

    def _missing_reason(self, found: int) -> str | None:
        if self._missing is not None:
            return self._missing
        own, counted = sum(each.is_own for each in self._found.values()), self.asked.window_count
        if not self.retained and self._counts_own and own < counted:
            return f"{counted - own} of {counted} transactions are older than the topic's retention"
        if found > _MOST_FOUND:
            return f"these are the last {_MOST_FOUND} of {found}"
        if self._counts_own and own != counted:
            return f"the detector counted {counted} of these: its state was cleared, or it started after some of them"
        return None


def _evidence(rows: Sequence[Mapping[str, object]], count: int, missing: str | None) -> Evidence:
    transactions = [dict(row) for row in rows]
    return Evidence(transactions=transactions, count=count, complete=missing is None, missing=missing)
