"""The histories of warm-ups, computed from records in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fraud_rules.codec.transactions.codec import DecodeResult, decode_transactions
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.fanout import in_arrival_order, rows_by_key_group
from fraud_rules.engine.role_rows import role_rows
from fraud_rules.engine.warm_up import WarmHistory, collect_history
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.warm_up import WarmUpRequest
from fraud_rules.replay.recording import RecordedTransaction, raw_transactions


def decode_records(
    records: Sequence[RecordedTransaction], schema: TransactionSchema, settings: DetectorSettings
) -> DecodeResult:
    """Decode recorded transactions as the detector does."""
    return decode_transactions(raw_transactions(records, settings.topics.transactions), schema, settings.record_limits)


def histories_of(
    request: WarmUpRequest,
    ends: Mapping[int, int],
    records: Sequence[RecordedTransaction],
    schema: TransactionSchema,
    settings: DetectorSettings,
) -> Mapping[int, WarmHistory]:
    """The history of each key group. `ends` are the offsets after the last transaction to read, by partition."""
    read = [record for record in records if record.offset < ends.get(record.partition, 0)]
    batch = in_arrival_order(decode_records(read, schema, settings).batch)
    rows = role_rows(batch, schema.entity_of(request.fields))
    parts = rows_by_key_group(rows, request.fields, settings.key_groups)
    return {
        key_group: collect_history(request, [parts[key_group]] if key_group in parts else [], schema, settings)
        for key_group in range(settings.key_groups)
    }
