"""The topic of the state: unreadable and foreign records do not prevent a restore."""

from __future__ import annotations

import pytest

from fraud_rules.kafka.consume import await_settled
from fraud_rules.logs.state_topic import HEAD, StateTopic
from fraud_rules.runtime.compression import compress, decompress
from tests.support.kafka.own_topics import OwnTopics
from tests.support.kafka.records import produce
from tests.support.kafka.unreadable_records import UNREADABLE

LARGE = b"state" * 10_000
FOREIGN_KEYS = ("0/0-foreign", "0/", "²/head", "x/head", "")


@pytest.mark.parametrize(
    "blob",
    [b"", b"\x02", b"\x01" + b"\xff" * 40, compress(LARGE)[:-9], b"\x01" + b"\x00" * 7 + b"\x10zstd"],
    ids=["empty", "unknown kind", "negative length", "truncated", "huge length"],
)
def test_a_blob_that_this_product_did_not_write_is_a_value_error(blob: bytes) -> None:
    with pytest.raises(ValueError, match="blob"):
        decompress(blob)


@pytest.mark.integration
def test_records_of_other_writers_do_not_prevent_a_restore(topics: OwnTopics) -> None:
    names, topic = topics.names, StateTopic(topics.kafka, topics.names.detector_state, "detector", 8)
    topic.send_chunks(0, [("1-a", compress(LARGE)), (HEAD, compress(b"head"))])
    topic.flush_chunks()
    for key in FOREIGN_KEYS:
        values = [value for value in UNREADABLE.values() if value is not None]
        produce(
            topics.bootstrap, names.detector_state, [*values, b"\x01" + b"\xff" * 40], 0, f"detector/{key}".encode()
        )
    produce(topics.bootstrap, names.detector_state, [b"garbage"], 0, b"another/0/head")
    await_settled(topics.kafka, [names.detector_state])
    assert topic.read(0) == {HEAD: b"head", "1-a": LARGE}
