"""Publishes the corrections of a day in one transaction, each exactly once however often the day is evaluated.

The writer's transactional id consists of the detector and the day. Opening the writer aborts the transaction of a
killed run and fences a concurrent run. The alerts in effect are read after that, so two runs never publish the same
correction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from fraud_rules.batch.reevaluation.compare import AlertVerdict, compare
from fraud_rules.batch.reevaluation.published import AlertView, PublishedAlerts, add_alert, add_correction, view_of
from fraud_rules.configuration.settings import DetectorSettings, TopicNames
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.consume import settled_ends
from fraud_rules.kafka.reader import Record, TopicReader
from fraud_rules.kafka.transactional_ids import reevaluation_id
from fraud_rules.kafka.writer import BatchWriter, OutRecord
from fraud_rules.model.day import Day
from fraud_rules.model.decision import DecisionThresholds, score_of
from fraud_rules.model.documents.alerts import CorrectionDocument, RestrictionDocument
from fraud_rules.runtime import clock

Ends = Mapping[str, Mapping[str, int]]
"""The end offsets of the archive, by topic and partition (as text)."""

Days = Mapping[Day, PublishedAlerts]
"""What is known of days."""

_encode = msgspec.json.Encoder(decimal_format="number").encode


def _without_limit(records: int) -> None:
    """Permit any number of records."""


def read_tails(
    kafka: KafkaConnection, topics: TopicNames, ends: Ends, days: Days, counts: Callable[[int], None] = _without_limit
) -> None:
    """Add the alerts and corrections of these days that were published after the archive's end. `counts` receives the
    number of records of a topic before they are read. Raises BrokerUnavailable."""
    for topic, shadow in ((topics.alerts, False), (topics.shadow_alerts, True)):
        for key, value in _tail(kafka, topic, ends, counts):
            add_alert(days, value, key.decode("utf-8", "replace"), shadow=shadow)
    read_corrections(kafka, topics, ends, days, counts)


def read_corrections(
    kafka: KafkaConnection, topics: TopicNames, ends: Ends, days: Days, counts: Callable[[int], None] = _without_limit
) -> None:
    """Add the corrections of these days that were published after the archive's end. Raises BrokerUnavailable."""
    for _, value in _tail(kafka, topics.alert_corrections, ends, counts):
        add_correction(days, value)


def scores_of(alerts: Iterable[AlertView]) -> dict[int | str, int]:
    """The score of each transaction with alerts, by id. `alerts` are the live alerts in effect; each rule counts once.

    The alerts of all deliveries of an id count together, because alerts of two deliveries can have the same alert id.
    """
    weights: dict[int | str, dict[int, int]] = {}
    for alert in alerts:
        weights.setdefault(alert.transaction_id, {})[alert.rule_id] = alert.weight
    return {transaction_id: score_of(by_rule) for transaction_id, by_rule in weights.items()}


@dataclass(frozen=True, slots=True)
class DayScores:
    """The scores of the transactions with alerts, and the thresholds of the outcomes."""

    scores: Mapping[int | str, int]
    thresholds: DecisionThresholds

    def score_of(self, alert: AlertView) -> int:
        """The score of the alert's transaction, 0 without an alert in effect."""
        return self.scores.get(alert.transaction_id, 0)


@dataclass(frozen=True, slots=True)
class DayCorrections:
    """The result of a re-evaluation: the day, and its alerts by id, encoded as for publication.

    `restrictions` has the restriction events of the alerts that restrict, by alert id. `undecided` are the ids of
    alerts whose transactions are not archived yet.
    """

    day: Day
    run: str
    found: Mapping[str, bytes]
    restrictions: Mapping[str, bytes]
    undecided: frozenset[str]

    def publish(
        self, kafka: KafkaConnection, settings: DetectorSettings, ends: Ends, published: PublishedAlerts
    ) -> int:
        """Publish the missing corrections and return their number. Raises Fenced, BrokerUnavailable.

        Undecided alerts are not corrected.
        """
        writer = BatchWriter(kafka, reevaluation_id(settings.detector, self.day))
        writer.open()
        read_corrections(kafka, settings.topics, ends, {self.day: published})
        verdicts = {
            alert_id: verdict
            for alert_id, verdict in compare(published.in_effect(), self.found.keys()).items()
            if verdict is not AlertVerdict.CONFIRMED and alert_id not in self.undecided
        }
        if not verdicts:
            return 0
        scores = DayScores(scores_of(self._alerts_after(verdicts, published)), settings.decisions.thresholds)
        writer.write(self._records(verdicts, settings.topics, published, scores))
        return len(verdicts)

    def _alerts_after(self, verdicts: Mapping[str, AlertVerdict], published: PublishedAlerts) -> Iterator[AlertView]:
        """The live alerts of the day once these corrections are in effect. Undecided alerts are among them."""
        retracted = {alert_id for alert_id, verdict in verdicts.items() if verdict is AlertVerdict.RETRACTED}
        for alert_id in (published.in_effect() | verdicts.keys()) - retracted:
            text = self.found.get(alert_id) or published.text_of(alert_id)
            if text is not None:
                yield view_of(text)

    def _records(
        self,
        verdicts: Mapping[str, AlertVerdict],
        topics: TopicNames,
        published: PublishedAlerts,
        scores: DayScores,
    ) -> Iterator[OutRecord]:
        """Yield the corrections in the order of event time, each with its change of a restriction."""
        now_ms = clock.now_ms()
        rows: list[tuple[int, str, AlertVerdict, bytes | None]] = []
        for alert_id, verdict in verdicts.items():
            text = self.found.get(alert_id) or published.text_of(alert_id)
            rows.append((view_of(text).event_time if text else self.day.start_ms, alert_id, verdict, text))
        for _, alert_id, verdict, text in sorted(rows, key=lambda row: row[:2]):
            view = view_of(text) if text else None
            yield OutRecord(
                topics.alert_corrections,
                _encode(self._correction(alert_id, verdict, view, text, scores, now_ms)),
                alert_id.encode(),
            )
            if verdict is AlertVerdict.ADDED and alert_id in self.restrictions:
                yield OutRecord(topics.restrictions, self.restrictions[alert_id], alert_id.encode())
            elif verdict is AlertVerdict.RETRACTED and view is not None and view.restricts:
                yield OutRecord(topics.restrictions, _lifted(view, now_ms), alert_id.encode())

    def _correction(
        self,
        alert_id: str,
        verdict: AlertVerdict,
        view: AlertView | None,
        text: bytes | None,
        scores: DayScores,
        now_ms: int,
    ) -> CorrectionDocument:
        found = CorrectionDocument(
            kind="ADDED" if verdict is AlertVerdict.ADDED else "RETRACTED",
            alert_id=alert_id,
            day=str(self.day),
            event_time=self.day.start_ms if view is None else view.event_time,
            run=self.run,
            corrected_at=now_ms,
        )
        if view is None or text is None:
            return found
        score = scores.score_of(view)
        return replace(
            found,
            rule_id=view.rule_id,
            rule_version=view.rule_version,
            key=view.key,
            transaction_id=view.triggering_event["transactionId"],
            alert=msgspec.Raw(text),
            score=score,
            outcome=scores.thresholds.outcome(score),
        )


def _lifted(view: AlertView, now_ms: int) -> bytes:
    """The record that lifts a restriction. A consumer that blocks payments finds it by the alert's id."""
    lifted = RestrictionDocument(
        view.key, view.event_time, view.alert_id, view.rule_id, lifted=now_ms, lifted_by="RETRACTED"
    )
    return _encode(lifted)


def _tail(
    kafka: KafkaConnection, topic: str, archived: Ends, counts: Callable[[int], None] = _without_limit
) -> Sequence[tuple[bytes, bytes]]:
    with TopicReader(kafka, topic) as reader:
        starts, found = archived.get(topic, {}), list[Record]()
        ranges = {at: (max(first, starts.get(str(at), 0)), end) for at, (first, end) in settled_ends(reader).items()}
        counts(sum(end - start for start, end in ranges.values() if start < end))
        for partition, (start, end) in ranges.items():
            found += reader.read(start, end, partition)
    return [(each.key, each.value) for each in found if each.key is not None and each.value is not None]
