"""A rule log in memory with a publisher's and a mirror's steps, for tests without a broker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from fraud_control.store.facts import store_id
from fraud_control.store.models import OutboxRow
from fraud_control.sync.drift import ItemDifference, compare, store_side
from fraud_control.sync.mirror import SEQ_HEADER, STORE_HEADER, log_mirror
from fraud_control.sync.topic_consumer import TopicConsumer
from fraud_rules.codec.rules.codec import read_entry
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record
from fraud_rules.model.ruleset import RuleTimeline
from tests.support.control_plane.scene import RULE, Scene
from tests.support.rules import LIMITS, SCHEMA


@dataclass
class MemoryLog:
    """Records by offset. Offsets are `step` apart, because transaction markers also use offsets."""

    scene: Scene
    records: list[Record] = field(default_factory=list)
    published: int = 0
    taken: int = 0

    def __post_init__(self) -> None:
        self.mirror: TopicConsumer = log_mirror(
            self.scene.store,
            KafkaConnection("nowhere:1"),
            "rules",
            self.scene.notified.append,
        )
        self.store = store_id(self.scene.database).encode()

    @property
    def end(self) -> int:
        return self.records[-1].offset + 2 if self.records else 0

    def append(self, value: bytes | None, key: bytes = b"", headers: Sequence[tuple[str, bytes]] = ()) -> int:
        """Append a record and return its offset."""
        self.records.append(Record(self.end, 1_600_000_000_000 + self.end, key, value, headers))
        return self.records[-1].offset

    def write(self, **members: Any) -> int:
        """Append a record of another program."""
        document = (
            {**RULE, "source": "cli", **members} if "controlType" not in members else {"source": "cli", **members}
        )
        if document.get("ruleState") == "DELETE":
            document = {"ruleId": document["ruleId"], "ruleState": "DELETE", "source": document["source"]}
        return self.append(json.dumps(document).encode(), str(members.get("ruleId")).encode())

    def publish(self, most: int = 1_000) -> None:
        """Append the outbox's unpublished records in order, without an acknowledgement to the store."""
        asked = select(OutboxRow).where(OutboxRow.seq > self.published).order_by(OutboxRow.seq).limit(most)
        with self.scene.database.reading() as session:
            for row in session.scalars(asked):
                headers = [(STORE_HEADER, self.store), (SEQ_HEADER, str(row.seq).encode())]
                self.append(row.value, row.key, headers)
                self.published = row.seq

    def apply_record(self, most: int = 1_000) -> None:
        """Apply the next records to the store."""
        records = self.records[self.taken : self.taken + most]
        if records:
            self.mirror.apply_records(records, records[-1].offset + 1)
            self.taken += len(records)

    def mirror_outbox(self) -> None:
        """Publish the outbox, and apply all records to the store."""
        self.publish()
        self.apply_record()

    def drift(self) -> Sequence[ItemDifference]:
        """The differences between the store and the rule log."""
        with self.scene.database.reading() as session:
            return compare(store_side(session, self.scene.store.contents), self.timeline())

    def timeline(self) -> RuleTimeline:
        """The rule log in the form that the detector reads."""
        return RuleTimeline(
            read_entry(each.offset, each.append_ms, each.value, SCHEMA, LIMITS) for each in self.records
        )
