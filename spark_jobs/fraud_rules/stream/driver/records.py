"""Converts the outputs of key groups to a batch's records, in an order that does not depend on the tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from fraud_rules.codec.rules.collections.records import collection_key
from fraud_rules.codec.transactions.quarantine import own_headers
from fraud_rules.codec.transactions.raw import Headers
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.engine.admission.cpu_cost import estimate_cpu_ns
from fraud_rules.engine.decision import decisions
from fraud_rules.kafka.writer import OutRecord
from fraud_rules.logs.rule_status import RejectionReason, RuleReportDocument, WarmUpReport, WarmUpState
from fraud_rules.logs.state_topic import StateTopic
from fraud_rules.logs.warm_up_log import WarmUpRef, WarmUpResult
from fraud_rules.model.documents.rules import ExportedListDocument, ExportedMapDocument
from fraud_rules.model.documents.transactions import LateGroupingDocument, LateTransactionDocument
from fraud_rules.model.log_entry import RecordOutcome
from fraud_rules.model.output import AlertRecord, KeyGroupOutput, LateRecord
from fraud_rules.model.rule import Control, ControlType, LogChange, Rule, RuleDeletion
from fraud_rules.model.ruleset import Grouping, LogEntry, RuleTimeline
from fraud_rules.model.value_list import CollectionKind, ListChange
from fraud_rules.model.value_map import MapChange
from fraud_rules.model.warm_up import is_current, request_at
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.worker.state_log import StateDelta
from fraud_rules.stream.worker.wire import SideOutput, UnreadableRecord

RULE_KEY_CONTROL: Final = b"control"

Traces: TypeAlias = Mapping[tuple[int, int], Headers]
_NO_TRACES: Final[Traces] = {}


_encode = msgspec.json.Encoder(decimal_format="number").encode


def traces_of(side_outputs: Iterable[SideOutput]) -> Traces:
    """The headers of the traces of a batch's transactions, by partition and offset."""
    return {(each.partition, each.offset): each.headers for output in side_outputs for each in output.traces}


def alert_records(
    alerts: Iterable[AlertRecord], topics: TopicNames, traces: Traces = _NO_TRACES
) -> Iterator[OutRecord]:
    """Yield live and shadow alerts and restrictions, in the order of the alerts."""
    for alert in alerts:
        key = alert.alert_id.encode()
        headers = traces.get((alert.partition, alert.offset), ()) if traces else ()
        yield OutRecord(topics.shadow_alerts if alert.shadow else topics.alerts, alert.json, key, headers)
        if alert.restriction is not None:
            yield OutRecord(topics.restrictions, alert.restriction, key, headers)


def decision_records(
    alerts: Iterable[AlertRecord], settings: DetectorSettings, at: BatchTime, traces: Traces = _NO_TRACES
) -> Iterator[OutRecord]:
    """Yield one decision per transaction with a live alert. `alerts` are in the order of `alerts_in_order`."""
    for key, text, alert in decisions(alerts, settings.decisions.thresholds, at.time_ms):
        headers = traces.get((alert.partition, alert.offset), ()) if traces else ()
        yield OutRecord(settings.topics.decisions, text, key, headers)


def late_records(outputs: Sequence[KeyGroupOutput], topics: TopicNames) -> Iterator[OutRecord]:
    """Yield one record per late transaction, with its largest lateness and its lateness in each grouping."""
    late = [record for output in outputs for record in output.late]
    late.sort(key=_late_place)
    for (append_ms, partition, offset), group in groupby(late, key=lambda record: _late_place(record)[:3]):
        records = list(group)
        late_by_ms: dict[str, int] = {}
        for record in records:  # in a grouping by an entity, one for each late row
            late_by_ms[record.grouping] = max(record.lateness_ms, late_by_ms.get(record.grouping, 0))
        document = LateTransactionDocument(
            transaction=msgspec.Raw(records[0].json),
            lateness_ms=max(late_by_ms.values()),
            groupings=[
                LateGroupingDocument(grouping.split("&") if grouping else [], lateness_ms)
                for grouping, lateness_ms in late_by_ms.items()
            ],
            partition=partition,
            offset=offset,
            append_time=append_ms,
        )
        yield OutRecord(topics.late_transactions, _encode(document))


def state_records(deltas: Iterable[StateDelta], topic: StateTopic) -> Iterator[OutRecord]:
    """Yield the changes of the state, by key group."""
    for delta in sorted(deltas, key=lambda delta: delta.key_group):
        partition = topic.partition_of(delta.key_group)
        for name, value in delta.records:
            yield OutRecord(topic.topic, value, topic.key_of(delta.key_group, name), partition=partition)


def quarantine_records(rejected: Iterable[UnreadableRecord], topics: TopicNames, max_bytes: int) -> Iterator[OutRecord]:
    """Yield rejected records unchanged, in the order of their positions. The headers hold origin and reason, and the
    record's own headers.

    A record longer than `max_bytes` is cut and marked, because a record that is too large to write must not stop the
    detector.
    """
    for record in sorted(rejected, key=lambda each: (each.append_ms, each.partition, each.offset)):
        headers = {
            "reason": record.reason,
            "detail": record.detail,
            "topic": topics.transactions,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "appendTime": str(record.append_ms),
        }
        raw, key, own = record.raw, record.key, own_headers(record.headers)
        if record.size > max_bytes:
            headers["truncatedFrom"] = str(len(raw))
            raw, key, own = raw[:max_bytes], None, []
        encoded = [(name, value.encode("utf-8", "backslashreplace")) for name, value in headers.items()]
        yield OutRecord(topics.quarantine, raw, key, [*encoded, *own])


@dataclass(frozen=True, slots=True)
class BatchTime:
    """The batch that makes rules live, and its time in epoch ms."""

    batch_id: int
    time_ms: int


def rule_operation_records(
    entries: Iterable[LogEntry], timeline: RuleTimeline, pin: Pin, at: BatchTime, topics: TopicNames
) -> Iterator[OutRecord]:
    """Yield one report per entry: live, or rejected with reasons."""
    warmed: Mapping[Grouping, tuple[int, WarmUpRef]] | None = None
    for entry in entries:
        outcome = entry.outcome
        change, rule_id = outcome.change, outcome.rule_id
        warm_up: WarmUpReport | UnsetType = UNSET
        if isinstance(change, Rule) and change.warm_up:
            warmed = pin.warmed(timeline) if warmed is None else warmed
            warm_up = _new_warm_up(entry.version, timeline, warmed, at)
        document = RuleReportDocument(
            rule_id=rule_id,
            rule_version=entry.version,
            list_name=UNSET if outcome.list_name is None else outcome.list_name,
            map_name=UNSET if outcome.map_name is None else outcome.map_name,
            operation=_operation(change),
            status="REJECTED" if change is None else "LIVE",
            batch_id=at.batch_id,
            time=at.time_ms,
            append_time=entry.append_ms,
            cpu_ns=estimate_cpu_ns(change) if isinstance(change, Rule) else UNSET,
            warm_up=warm_up,
            reasons=UNSET
            if change is not None
            else [RejectionReason(each.field, each.message) for each in outcome.reasons],
            rejected_in_pin=entry.rejected_in_pin if change is None else UNSET,
        )
        yield OutRecord(topics.rule_operations, _encode(document), _key_of(outcome))


def _key_of(outcome: RecordOutcome) -> bytes:
    """The key of a report on a record: the rule, list or map."""
    if outcome.list_name is not None:
        return collection_key(CollectionKind.LIST, outcome.list_name)
    if outcome.map_name is not None:
        return collection_key(CollectionKind.MAP, outcome.map_name)
    return RULE_KEY_CONTROL if outcome.rule_id is None else str(outcome.rule_id).encode()


def _new_warm_up(
    version: int, timeline: RuleTimeline, warmed: Mapping[Grouping, tuple[int, WarmUpRef]], at: BatchTime
) -> WarmUpReport:
    """The warm-up of a new rule record: requested, unless an earlier one has added the same history.

    So an edit of a warm rule needs no warm-up, unless the rule reaches further back, or has reached less far in
    between. `warmed` is that of the batch's pin.
    """
    request = request_at(timeline, version)
    _, earlier = (None, None) if request is None else warmed.get(request.fields, (None, None))
    if request is None or earlier is None or earlier.reach_ms < request.reach_ms:
        return WarmUpReport(WarmUpState.REQUESTED)
    return WarmUpReport(WarmUpState.WARM, batch_id=earlier.batch_id, time=at.time_ms, since=earlier.since)


def warm_up_records(
    results: Iterable[WarmUpResult], timeline: RuleTimeline, at: BatchTime, topics: TopicNames
) -> Iterator[OutRecord]:
    """Yield one report per warm-up that ends with the batch: since when the history is complete, or why it failed."""
    for result in results:
        request = request_at(timeline, result.version)
        report = WarmUpReport(WarmUpState.REFUSED, batch_id=at.batch_id, time=at.time_ms)
        if result.fault:
            report.reason = result.fault
        elif request is None or not is_current(request, timeline):
            report.reason = "a clear or the end of the grouping has made it void"
        else:
            report.state, report.rows, report.since = WarmUpState.WARM, result.rows, result.begins_ms
        document = RuleReportDocument(result.rule_id, result.version, "LIVE", at.batch_id, at.time_ms, warm_up=report)
        yield OutRecord(topics.rule_operations, _encode(document), str(result.rule_id).encode())


def latency_records(average_ms: str | None, topics: TopicNames) -> Iterator[OutRecord]:
    """Yield the average latency as plain text, if it is due."""
    if average_ms is not None:
        yield OutRecord(topics.latency, average_ms.encode())


def export_records(new: Sequence[LogEntry], timeline: RuleTimeline, topics: TopicNames) -> Iterator[OutRecord]:
    """For each EXPORT_RULES_CURRENT among the new entries, yield the rules in force there, one record per rule by id.

    A record has the rule's members at its top level, as the Flink demo writes them, and in addition the version of the
    export, the rule's position in it, the number of rules, and the rule's version. The lists and the maps follow, by
    name, each with its type, size and version.
    """
    for entry in new:
        if entry.change != Control(ControlType.EXPORT_RULES_CURRENT):
            continue
        count = sum(each.version <= entry.version for each in timeline.entries)
        in_force = timeline.rule_set(count).rules
        for position, rule_id in enumerate(sorted(in_force)):
            rule = in_force[rule_id]
            document: Mapping[str, object] = {
                **rule.rule.document,
                "export": entry.version,
                "position": position,
                "rules": len(in_force),
                "ruleVersion": rule.version,
            }
            yield OutRecord(topics.current_rules, _encode(document), str(rule_id).encode())
        known = timeline.collections_at(count)
        for name, each in sorted(known.lists.items()):
            of_list = ExportedListDocument(name, each.type, each.size, each.version, entry.version, len(known.lists))
            yield OutRecord(topics.current_rules, _encode(of_list), collection_key(CollectionKind.LIST, name))
        for name, mapped in sorted(known.maps.items()):
            of_map = ExportedMapDocument(
                name, *mapped.type, mapped.size, mapped.version, entry.version, len(known.maps)
            )
            yield OutRecord(topics.current_rules, _encode(of_map), collection_key(CollectionKind.MAP, name))


def _operation(change: LogChange | None) -> str | None:
    match change:
        case Rule() as rule:
            return rule.state.value
        case RuleDeletion():
            return "DELETE"
        case Control(control):
            return control.value
        case ListChange(operation=operation) | MapChange(operation=operation):
            return operation.value
        case _:
            return None


def _late_place(record: LateRecord) -> tuple[int, int, int, str]:
    return record.append_ms, record.partition, record.offset, record.grouping
