"""The part of a stream in the logs that it shares with other streams, and in the detector's outputs.

The streams of a group follow each other by days, and each ends with the deletion of its rules and lists. So nothing of
a stream affects the next one, and its part is a document of `fraud streams replay` by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fraud_rules.codec.transactions.record import claimed_id
from fraud_rules.kafka.consume import await_settled
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.replay.replay import alert_members, decision_members, decode_exactly
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import read_all
from tests.support.kafka.timed_topics import Place
from tests.support.records.relative import relative_alert, relative_decision

Members = dict[str, Any]
Document = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """The records of one stream: their versions in the rule log, and their offsets by partition."""

    versions: range
    offsets: Mapping[int, range]

    def has_row(self, place: Place) -> bool:
        partition, offset = place
        return offset in self.offsets.get(partition, ())

    def part_of(self, document: Mapping[str, Any]) -> Document:
        """The document of these records alone, with the batches that read them."""
        steps = document["steps"]
        rules = [step for step in steps if "rule" in step][self.versions.start : self.versions.stop]
        by_partition: dict[int, list[Members]] = {partition: [] for partition in self.offsets}
        for step in steps:
            if "tx" in step:
                by_partition.setdefault(step["partition"], []).append(step)
        rows = [
            step
            for partition, offsets in self.offsets.items()
            for step in by_partition[partition][offsets.start : offsets.stop]
        ]
        return {**document, "steps": [*rules, *rows], "batches": self._batches(document["batches"])}

    def _batches(self, recorded: Sequence[Mapping[str, Any]]) -> list[Members]:
        """The batches that read a transaction of this stream, or refused one of its rules."""
        found: list[Members] = []
        last = {str(partition): 0 for partition in self.offsets}
        for batch in recorded:
            read = batch["offsets"].get("transactions", {})
            ends = {str(at): _within(offsets, read.get(str(at), 0)) for at, offsets in self.offsets.items()}
            refused = {
                str(int(version) - self.versions.start): reasons
                for version, reasons in batch["refused"].items()
                if int(version) in self.versions
            }
            if ends != last:
                assert batch["pin"] >= self.versions.start, "a pin hides the end of the previous stream"
            if ends != last or refused:
                pin = _within(self.versions, batch["pin"])
                found.append({"offsets": {"transactions": ends}, "pin": pin, "refused": refused})
            last = ends
        return found


def _within(part: range, end: int) -> int:
    """An end offset, counted from the start of a part of the log."""
    return min(max(end, part.start), part.stop) - part.start


@dataclass(frozen=True)
class Outputs:
    """Everything that the detector has published, in the order of its topics."""

    alerts: Sequence[Members]
    decisions: Sequence[Members]
    late: Sequence[Members]
    quarantine: Sequence[tuple[Place, Any]]
    rejected: Sequence[int]

    @classmethod
    def read(cls, topics: OwnTopics, schema: TransactionSchema) -> Outputs:
        """Read the topics, the live alerts before the shadow alerts."""
        names = topics.names
        read = (
            names.alerts, names.shadow_alerts, names.decisions, names.late_transactions, names.rule_operations,
            names.quarantine,
        )  # fmt: skip
        await_settled(topics.kafka, read)
        messages = {name: read_all(topics.bootstrap, name) for name in read}
        values = {name: [decode_exactly(each.value()) for each in messages[name]] for name in read[:-1]}
        return cls(
            [alert_members(each) for name in read[:2] for each in values[name]],
            [decision_members(each) for each in values[names.decisions]],
            values[names.late_transactions],
            [
                (_place(dict(each.headers() or ())), claimed_id(each.value(), schema))
                for each in messages[names.quarantine]
            ],
            [each["ruleVersion"] for each in values[names.rule_operations] if each["status"] == "REJECTED"],
        )

    def of(self, span: Span) -> dict[str, list[Any]]:
        """The outputs of one stream in the form of `fraud streams replay`, with its own rule versions."""
        mine, first = span.versions, span.versions.start
        return {
            "alerts": [relative_alert(each, first) for each in self.alerts if each["ruleVersion"] in mine],
            "decisions": [
                relative_decision(each, first) for each in self.decisions if each["alerts"][0]["ruleVersion"] in mine
            ],
            "late": [
                each["transaction"]["transactionId"]
                for each in self.late
                if span.has_row((each["partition"], each["offset"]))
            ],
            "quarantine": [identity for place, identity in self.quarantine if span.has_row(place)],
            "rejected": [{"ruleVersion": version - first} for version in self.rejected if version in mine],
        }

    def count(self) -> int:
        """The number of alerts, decisions, late transactions and unreadable records."""
        return sum(map(len, (self.alerts, self.decisions, self.late, self.quarantine)))


def _place(headers: Mapping[str, Any]) -> Place:
    return int(headers["partition"]), int(headers["offset"])
