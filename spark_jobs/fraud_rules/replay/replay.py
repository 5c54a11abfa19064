"""Evaluates a recording in memory, with the codec, fan-out and engine of the detector.

`recording` describes the file format.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.codec.transactions.codec import RejectedRecord
from fraud_rules.codec.transactions.record import claimed_id
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.conclusion import conclude
from fraud_rules.engine.decision import alerts_in_order, decisions
from fraud_rules.engine.engine import BY_ARRIVAL, KeyGroupEngine, RowOrder
from fraud_rules.engine.fanout import in_arrival_order, null_keys
from fraud_rules.engine.state.store import HeapViews, ViewStore
from fraud_rules.engine.statelog import MemoryStateLog, restore_image
from fraud_rules.engine.task_rows import spread
from fraud_rules.engine.warm_up import WarmHistory
from fraud_rules.errors import Reason
from fraud_rules.model.decision import DecisionThresholds
from fraud_rules.model.log_entry import Rejections, with_rejections
from fraud_rules.model.output import DuplicateRecord, KeyGroupOutput, MarkUpdate
from fraud_rules.model.ruleset import LogEntry, RuleTimeline
from fraud_rules.model.schema import ID_FIELD, TransactionSchema
from fraud_rules.model.warm_up import request_at
from fraud_rules.replay.recording import RecordedTransaction, RecordedWarmUp, Recording
from fraud_rules.replay.warm_up import decode_records, histories_of

ALERT_MEMBERS = (
    "ruleId", "ruleVersion", "shadow", "key", "triggeringValue", "windowStart", "windowEnd", "windowCount",
    "windowComplete", "suppressed", "alertId",
)  # fmt: skip
"""The members of an alert that a replay returns beside `transactionId`. Logs, cuts and pins determine them."""

OPTIONAL_MEMBERS = ("role", "lists", "maps", "baseline", "limit", "previous", "conditions")
"""Further such members, which only some alerts have."""

_RULE_LIMITS = ("detail_minutes", "max_long_window_minutes")
"""The recorded settings that are limits of rules."""

_ANSWERED = ("alerts", "decisions", "late", "quarantine", "duplicates", "conflictingDuplicates", "nullKeys")

DECISION_MEMBERS = ("transactionId", "score", "outcome", "alerts", "eventTime")
"""The members of a decision that a replay returns."""

decode_exactly = msgspec.json.Decoder(float_hook=Decimal).decode
"""Decodes JSON with fractions as `Decimal`, because the key of an alert can contain an amount."""

encode_exactly = msgspec.json.Encoder(decimal_format="number").encode
"""Encodes JSON with each `Decimal` as an exact number."""


@dataclass(frozen=True, slots=True)
class _BatchInput:
    """One batch: its records, and the rule log up to its pin."""

    records: Sequence[RecordedTransaction]
    timeline: RuleTimeline
    warm_ups: Sequence[RecordedWarmUp] = ()


@dataclass(frozen=True, slots=True)
class _BatchResult:
    """The results of one batch: the outputs of all key groups, each unreadable record with its reason, and the ids of
    the transactions with a null in a field of a grouping in force, in arrival order."""

    outputs: Sequence[KeyGroupOutput]
    rejects: Sequence[tuple[RecordedTransaction, RejectedRecord]]
    null_keys: Sequence[object] = ()


class Replay:
    """The engines of all key groups, in memory. Pass the batches in order to `evaluate`."""

    def __init__(
        self,
        schema: TransactionSchema,
        settings: DetectorSettings,
        views: ViewStore | None = None,
        row_order: RowOrder = BY_ARRIVAL,
    ) -> None:
        self._schema = schema
        self._settings = settings
        views = views or HeapViews()
        self._logs = [MemoryStateLog() for _ in range(settings.key_groups)]
        self._engines = [
            KeyGroupEngine(key_group, schema, settings, log, views, row_order)
            for key_group, log in enumerate(self._logs)
        ]
        self._batches = 0
        self.marks: Sequence[MarkUpdate] = ()
        """The marks that the last batch's conclusions have changed. With `images`, they are the whole state."""

    def evaluate(
        self,
        records: Sequence[RecordedTransaction],
        timeline: RuleTimeline,
        detection_ms: int,
        warm: Sequence[Mapping[int, WarmHistory]] = (),
    ) -> _BatchResult:
        """Evaluate one batch. `detection_ms` is the wall-clock time that its alerts carry. `warm` has the results of
        the warm-ups that join the state at its start, each by key group."""
        decoded = decode_records(records, self._schema, self._settings)
        rows = spread(decoded.batch, timeline, self._schema, self._settings.key_groups)
        outputs = [
            engine.process_rows(
                rows.get(key_group, []),
                timeline,
                self._batches,
                detection_ms,
                [histories[key_group] for histories in warm if key_group in histories],
                self.marks,
            )
            for key_group, engine in enumerate(self._engines)
        ]
        self._batches += 1
        concluded, self.marks = conclude(outputs, timeline)
        nulls = decoded.batch.take(np.flatnonzero(null_keys(decoded.batch, timeline, self._schema)))
        nulls = in_arrival_order(nulls)
        ids = [nulls.row(i, self._schema)[ID_FIELD] for i in range(len(nulls))]
        return _BatchResult(concluded, [(records[reject.index], reject) for reject in decoded.rejects], ids)

    def images(self) -> Mapping[int, bytes]:
        """Copy the current state: an image (see `statelog`) of each state log that is not empty, by key group."""
        return {key_group: image for key_group, log in enumerate(self._logs) if (image := log.image()) is not None}

    def restore(self, images: Mapping[int, bytes]) -> None:
        """Load the images of `images()` into the empty logs of a new replay, before its first batch."""
        for key_group, image in images.items():
            restore_image(self._logs[key_group], image)


def replay(document: Mapping[str, Any], schema: TransactionSchema, settings: DetectorSettings) -> dict[str, list[Any]]:
    """Replay a recording that is a decoded JSON document (see `replay_recording`). Raises InputInvalid."""
    return replay_recording(Recording.of_document(document), schema, settings)


def replay_recording(
    recording: Recording, schema: TransactionSchema, settings: DetectorSettings
) -> dict[str, list[Any]]:
    """Evaluate a recording. Returns `{"alerts", "decisions", "late", "quarantine", "duplicates",
    "conflictingDuplicates", "nullKeys", "rejected"}`.

    The alerts are in the order of (arrival, rule id), the decisions in arrival order. The other lists hold ids in
    arrival order, each transaction once (None for a quarantined record without id): `conflictingDuplicates` those
    duplicates that differ from the retained transaction, `nullKeys` the transactions with a null in a field of a
    grouping in force. `rejected` holds rule versions with their reasons.
    """
    settings = settings_of_recording(recording, settings)
    log = _rule_log(recording, schema, settings)
    run = Replay(schema, settings)
    answer: dict[str, list[Any]] = {name: [] for name in _ANSWERED}
    for batch in _inputs(recording, log):
        warm = [_histories(warm_up, batch.timeline, recording, schema, settings) for warm_up in batch.warm_ups]
        result = run.evaluate(batch.records, batch.timeline, 0, warm)
        _add_results(answer, result, schema, settings.decisions.thresholds)
    rejections = {version: reasons for batch in recording.batches for version, reasons in batch.rejections.items()}
    answer["rejected"] = [
        {"ruleVersion": entry.version, "reasons": [str(reason) for reason in entry.reasons]}
        for entry in RuleTimeline(with_rejections(log, rejections)).entries
        if entry.change is None
    ]
    return answer


def _histories(
    warm_up: RecordedWarmUp,
    timeline: RuleTimeline,
    recording: Recording,
    schema: TransactionSchema,
    settings: DetectorSettings,
) -> Mapping[int, WarmHistory]:
    """The history that a recorded warm-up adds to each key group. Empty without a request in the rule log."""
    request = request_at(timeline, warm_up.version)
    if request is None:
        return {}
    return histories_of(request, warm_up.ends, recording.transactions, schema, settings)


def alert_members(alert: Mapping[str, Any]) -> dict[str, Any]:
    """Select the members of a published alert that `replay_recording` returns, to compare the two."""
    members = {name: alert[name] for name in ALERT_MEMBERS}
    members |= {name: alert[name] for name in OPTIONAL_MEMBERS if name in alert}
    return members | {"transactionId": alert["triggeringEvent"][ID_FIELD]}


def decision_members(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Select the members of a published decision that `replay_recording` returns, to compare the two."""
    return {name: decision[name] for name in DECISION_MEMBERS}


def _add_results(
    answer: dict[str, list[Any]], result: _BatchResult, schema: TransactionSchema, thresholds: DecisionThresholds
) -> None:
    """Add the results of a batch, merged over key groups."""
    alerts = alerts_in_order(result.outputs)
    answer["alerts"] += [alert_members(decode_exactly(alert.json)) for alert in alerts]
    answer["decisions"] += [decision_members(decode_exactly(each.json)) for each in decisions(alerts, thresholds, 0)]
    late = {
        (item.append_ms, item.partition, item.offset): decode_exactly(item.json)[ID_FIELD]
        for output in result.outputs
        for item in output.late
    }
    duplicates = [item for output in result.outputs for item in output.duplicates]
    answer["late"] += [late[place] for place in sorted(late)]
    answer["duplicates"] += _ids_by_place(duplicates)
    answer["conflictingDuplicates"] += _ids_by_place([item for item in duplicates if item.conflicting])
    answer["nullKeys"] += result.null_keys
    answer["quarantine"] += [
        claimed_id(record.value, schema) for record in sorted((record for record, _ in result.rejects), key=_arrival)
    ]


def _ids_by_place(records: Iterable[DuplicateRecord]) -> list[int | str]:
    """The ids in arrival order, each place once."""
    found = {(item.append_ms, item.partition, item.offset): item.transaction_id for item in records}
    return [found[place] for place in sorted(found)]


def settings_of_recording(recording: Recording, settings: DetectorSettings) -> DetectorSettings:
    """Replace settings by the values that the recording contains for them."""
    given = {name: value for name, value in msgspec.structs.asdict(recording.settings).items() if value is not None}
    of_rules = {name: given.pop(name) for name in _RULE_LIMITS if name in given}
    limits = replace(settings.limits, **of_rules)
    return replace(settings, key_groups=recording.key_groups, limits=limits, **given)


def batch_inputs(recording: Recording, schema: TransactionSchema, settings: DetectorSettings) -> Iterator[_BatchInput]:
    """The batches of a recording, each with its timeline. Pass the settings that `settings_of_recording` returns."""
    return _inputs(recording, _rule_log(recording, schema, settings))


def _rule_log(recording: Recording, schema: TransactionSchema, settings: DetectorSettings) -> list[LogEntry]:
    return [read_entry(rule.version, rule.append_ms, rule.value, schema, settings.limits) for rule in recording.rules]


def _inputs(recording: Recording, log: Sequence[LogEntry]) -> Iterator[_BatchInput]:
    """The recorded batches in order, then one batch of the remaining records, under the whole rule log."""
    by_partition: dict[int, list[RecordedTransaction]] = {}
    for record in recording.transactions:
        by_partition.setdefault(record.partition, []).append(record)
    starts = dict.fromkeys(by_partition, 0)
    timeline, rejections = RuleTimeline(), dict[int, Sequence[Reason]]()
    for batch in recording.batches:
        rejections |= batch.rejections
        timeline = _extended(timeline, log, batch.pin, rejections)
        read: list[RecordedTransaction] = []
        for partition, end in batch.ends.items():
            records, start = by_partition.get(partition, []), starts.get(partition, 0)
            starts[partition] = bisect_left(records, end, start, key=lambda record: record.offset)
            read += records[start : starts[partition]]
        yield _BatchInput(read, timeline, batch.warm_ups)
    rest = [record for partition, records in by_partition.items() for record in records[starts[partition] :]]
    if rest:
        yield _BatchInput(rest, _extended(timeline, log, log[-1].version + 1 if log else 0, rejections))


def _extended(timeline: RuleTimeline, log: Sequence[LogEntry], end: int, rejections: Rejections) -> RuleTimeline:
    """The rule log up to a pin. A detector's pins never decrease. A lower pin in a recording counts as the previous."""
    fresh = [entry for entry in log if timeline.end <= entry.version < end]
    return timeline.extended(with_rejections(fresh, rejections), max(end, timeline.end))


def _arrival(record: RecordedTransaction) -> tuple[int, int, int]:
    return record.append_ms, record.partition, record.offset
