"""A marker is the checkpoint: what it holds, and what must fit it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fraud_rules.errors import CheckpointDamaged, CheckpointForeign, Fenced
from fraud_rules.model.lost_records import LossReason, LostRecords
from fraud_rules.model.schema import DeclaredEntity, Field, FieldType, TextStep, TransactionSchema
from fraud_rules.stream.checkpoint.identity import added_fields, check_fields, check_topics, declared_fields
from fraud_rules.stream.checkpoint.marker import FORMAT, Marker, check_holder
from fraud_rules.stream.pins import NO_PIN, Pin
from tests.support.rules import SCHEMA

ENDS = {"transactions": {"0": 5}}
TOPICS = {"transactions": "a", "rules": "b"}
ACCOUNT = DeclaredEntity("account", (("out", "payeeId"), ("in", "beneficiaryId")))
CHANNEL = Field("channel", FieldType.STRING, nullable=True)


def marker(batch: int = 5, query: str = "q", **members: Any) -> Marker:
    return Marker(query, batch, ENDS, Pin(batch, 1), **members)


def with_fields(*fields: Field) -> TransactionSchema:
    return replace(SCHEMA, fields=(*SCHEMA.fields, *fields))


def test_a_marker_survives_its_encoding() -> None:
    lost = [LostRecords("transactions", 0, 5, 9, LossReason.REMOVED, 4)]
    pin = Pin(5, 3, {"1": [("limit", "is too large")]})
    written = Marker("q", 5, ENDS, pin, topics=TOPICS, resumed_at=7, lost=lost, added_fields=["x"], rebuild="order")
    assert Marker.decode(written.encode()) == written


def test_the_marker_of_an_earlier_version_is_read() -> None:
    pin = {"batchId": 5, "rulesEnd": 3}
    text = json.dumps({"queryId": "q", "batchId": 5, "endOffsets": ENDS, "pin": pin, "topics": TOPICS}).encode()
    read = Marker.decode(text)
    assert read == Marker("q", 5, ENDS, Pin(5, 3), topics=TOPICS)
    assert (read.fields, read.resumed_at, read.lost) == (None, None, [])


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\x00", b'{"queryId":"\xff"}'])
def test_a_marker_that_is_no_json_is_named(text: bytes) -> None:
    with pytest.raises(CheckpointDamaged, match=r"not readable.*fraud detector rebuild"):
        Marker.decode(text)


@pytest.mark.parametrize("text", [b"{}", b"[]", b'{"queryId":"q","batchId":"5","endOffsets":{},"pin":{}}'])
def test_the_marker_of_another_version_is_named(text: bytes) -> None:
    with pytest.raises(CheckpointForeign, match="not readable by this version"):
        Marker.decode(text)


def test_the_marker_of_a_later_format_is_refused_even_if_it_can_be_decoded() -> None:
    text = msgspec.structs.replace(marker(), format=FORMAT + 1).encode()
    with pytest.raises(CheckpointForeign, match=r"a later version wrote .*format 2; this version reads 1\): run that"):
        Marker.decode(text)


def test_the_marker_of_a_new_detector_has_no_batch() -> None:
    assert [each.has_batch for each in (marker(NO_PIN.batch_id), marker(0))] == [False, True]


@pytest.mark.parametrize("newest", [None, marker()], ids=["hidden", "ours"])
def test_a_process_holds_its_name_while_its_marker_is_the_newest(newest: Marker | None) -> None:
    check_holder(newest, marker())


@pytest.mark.parametrize("newest", [marker(6), marker(5, "other")], ids=["next batch", "another history"])
def test_a_process_is_fenced_if_another_one_wrote_the_newest_marker(newest: Marker) -> None:
    with pytest.raises(Fenced, match=f"another process has written batch {newest.batch_id}"):
        check_holder(newest, marker())


def test_topics_that_were_created_again_fit_if_they_can_be_read_from_their_beginning() -> None:
    known = marker(topics=TOPICS)
    check_topics(known, TOPICS, "transactions")
    check_topics(known, {**TOPICS, "transactions": "z"}, "transactions")
    with pytest.raises(CheckpointForeign, match=r"an earlier topic rules \(id b, now z\)"):
        check_topics(known, {**TOPICS, "rules": "z"}, "transactions")


def test_offsets_of_other_topics_do_not_fit() -> None:
    with pytest.raises(CheckpointForeign, match="no offsets of the topic other-rules, but of rules, transactions"):
        check_topics(marker(topics=TOPICS), {"transactions": "a", "other-rules": "c"}, "transactions")


def test_offsets_of_a_topic_that_an_earlier_version_read_do_not_matter() -> None:
    check_topics(marker(topics={**TOPICS, "detector-ticks": "c"}), TOPICS, "transactions")


def test_a_schema_may_grow_by_nullable_fields_and_change_nothing_else() -> None:
    known = marker(fields=declared_fields(SCHEMA))
    check_fields(known, with_fields(CHANNEL))
    with pytest.raises(CheckpointForeign, match="branch: a field added later must be nullable"):
        check_fields(known, with_fields(Field("branch", FieldType.LONG)))
    fewer = replace(SCHEMA, fields=tuple(field for field in SCHEMA.fields if field.name != "ingestionTimestamp"))
    with pytest.raises(CheckpointForeign, match="ingestionTimestamp"):
        check_fields(known, fewer)


def test_a_field_in_use_cannot_be_normalized_otherwise() -> None:
    """Its retained texts would be other keys than the new ones."""
    fields = [
        replace(each, normalize=(TextStep.NFC,)) if each.type is FieldType.STRING else each for each in SCHEMA.fields
    ]
    with pytest.raises(CheckpointForeign, match="a field in use cannot change"):
        check_fields(marker(fields=declared_fields(SCHEMA)), replace(SCHEMA, fields=tuple(fields)))


def test_the_release_before_a_new_field_can_continue() -> None:
    grown = with_fields(CHANNEL)
    known = marker(fields=declared_fields(SCHEMA))
    after = msgspec.structs.replace(known, **added_fields(known, grown))
    assert after.added_fields == ["channel"]
    for release in (SCHEMA, grown):
        check_fields(after, release)
        assert msgspec.structs.replace(after, **added_fields(after, release)) == after
    with pytest.raises(CheckpointForeign, match="channel"):
        check_fields(after, with_fields(replace(CHANNEL, type=FieldType.LONG)))


def test_a_schema_may_get_entities_and_change_none() -> None:
    grown = replace(SCHEMA, entities=(ACCOUNT,))
    known = marker(fields=declared_fields(SCHEMA))
    check_fields(known, grown)
    after = Marker.decode(msgspec.structs.replace(known, **added_fields(known, grown)).encode())
    assert after.added_fields == ["account"]
    check_fields(after, SCHEMA)
    other = replace(ACCOUNT, roles=tuple(reversed(ACCOUNT.roles)))
    with pytest.raises(CheckpointForeign, match="account"):
        check_fields(after, replace(SCHEMA, entities=(other,)))


def test_the_fields_of_an_earlier_version_are_recorded_at_the_next_start() -> None:
    known = marker()
    check_fields(known, with_fields(Field("branch", FieldType.LONG)))
    after = msgspec.structs.replace(known, **added_fields(known, SCHEMA))
    assert (after.fields, after.added_fields) == (declared_fields(SCHEMA), [])
    assert Marker.decode(after.encode()) == after


@pytest.mark.parametrize(("starts", "halvings"), [(0, 0), (1, 0), (3, 0), (4, 1), (6, 3)])
def test_starts_without_a_batch_make_the_next_batch_smaller(starts: int, halvings: int) -> None:
    """The first start is not one of them, and two ends may be chance."""
    assert marker(starts=starts).halvings == halvings
