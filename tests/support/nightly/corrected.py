"""The alerts of a re-evaluation of a recorded stream, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fraud_rules.batch.reevaluation.cuts import PinnedTimeline
from fraud_rules.batch.reevaluation.evaluate import DayRun
from fraud_rules.batch.reevaluation.feed import arranged
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.model.output import AlertRecord
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import settings_of_recording
from tests.support.nightly.cuts import cuts_of_ends
from tests.support.records.decoded import decoded_recording


def corrected_alerts(
    document: Mapping[str, Any], slice_rows: int, schema: TransactionSchema, settings: DetectorSettings
) -> Iterator[AlertRecord]:
    """Evaluate in slices, with a saved and restored state between slices."""
    recording = Recording.of_document(document)
    settings = settings_of_recording(recording, settings)
    log = [read_entry(rule.version, rule.append_ms, rule.value, schema, settings.limits) for rule in recording.rules]
    rest: dict[int, int] = {}
    for tx in recording.transactions:
        rest[tx.partition] = tx.offset + 1
    batches = [(dict(batch.ends), batch.pin) for batch in recording.batches] + [(rest, len(log))]
    refused = {version for batch in recording.batches for version in batch.rejections}
    cuts = cuts_of_ends([ends for ends, _ in batches], [pin for _, pin in batches], refused)
    rows = decoded_recording(recording.transactions, schema, settings.record_limits)
    rows = arranged(rows, cuts.batch_of(rows))
    timeline = PinnedTimeline(log, cuts)
    state: dict[int, bytes] = {}
    for start in range(0, len(rows), slice_rows):
        run = DayRun(range(settings.key_groups), timeline, schema, settings, state)
        part = rows.take(np.arange(start, min(start + slice_rows, len(rows))))
        yield from run.process(part, 0)
        state = dict(run.images())
