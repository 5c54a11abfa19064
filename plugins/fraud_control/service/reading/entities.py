"""Reads reports about entities: the payments of a payer, for example, and the rules' aggregates of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fraud_control.domain.errors import Invalid
from fraud_control.service.reading.pool import ReadingPool
from fraud_rules.batch.entity.answer import EntityQuestion, EntitySource, answer_encoded
from fraud_rules.batch.entity.rows import EntityQuery
from fraud_rules.codec.text_form import normalized
from fraud_rules.errors import Reason
from fraud_rules.model.day import DAY_MS
from fraud_rules.model.schema import ID_FIELD, FieldType

_ID_TYPES: Final = (FieldType.LONG, FieldType.STRING)
_INT64: Final = 2**63


class EntityReporter:
    """Reads and evaluates payments in a process of the pool. Several threads may use it."""

    def __init__(self, pool: ReadingPool, source: EntitySource, clock_ms: Callable[[], int]) -> None:
        self._pool = pool
        self._source = source
        self._clock_ms = clock_ms

    def report(self, field: str, text: str, days: int) -> bytes:
        """Read the report about a value of a field over the last days, as the JSON of an `EntityReport`.

        The field can be an entity of the schema. Raises Invalid for a field that holds no ids, Unavailable.
        """
        now_ms = self._clock_ms()
        query = EntityQuery(field, self._value(field, text), now_ms - days * DAY_MS)
        too_slow = "the payments could not be read in time: choose fewer days"
        return self._pool.ask(answer_encoded, self._source, EntityQuestion(query, now_ms), too_slow)

    def _value(self, field: str, text: str) -> int | str:
        schema = self._source.schema
        declared = schema.of_rows((field,)).field(field)
        if declared is None or declared.name != field or declared.type not in _ID_TYPES or field == ID_FIELD:
            raise Invalid([Reason("field", "must be a field of payments with ids, such as the payer")])
        if declared.type is FieldType.STRING:
            return normalized(text, declared.normalize)
        try:
            value = int(text)
        except ValueError:
            value = _INT64
        if not -_INT64 <= value < _INT64:
            raise Invalid([Reason("value", f"must be a whole number, because {field} is one")])
        return value
