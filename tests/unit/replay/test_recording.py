"""Recordings: read exactly, written so that they read back to the byte, and refused in one line when they are none."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fraud_rules.codec.transactions.raw import Headers
from fraud_rules.errors import InputInvalid, Reason
from fraud_rules.replay.recording import RecordedBatch, RecordedRule, RecordedSettings, RecordedTransaction, Recording

RULE = b'{"ruleId": 1, "ruleState": "DELETE"}'


def read_values(*steps: str) -> list[bytes | None]:
    recording = Recording.read(b'{"steps": [%b]}' % ",".join(steps).encode())
    return [record.value for record in recording.transactions]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('{"paymentAmount": 0.10}', b'{"paymentAmount": 0.10}'),
        ('{"a": NaN}', b'{"a": NaN}'),
        ('{"a": 1, "a": 2}', b'{"a": 1, "a": 2}'),
        ('{"a": 12345678901234567890123456789.5e-3}', b'{"a": 12345678901234567890123456789.5e-3}'),
        ('{"a": "\\ud800"}', b'{"a": "\\ud800"}'),
        ('"1,2,\\u00e9"', "1,2,é".encode()),
        ('"\\udcff\\udc80"', b"\xff\x80"),
        ('"\\ud800"', b"\xed\xa0\x80"),
        ('""', b""),
        ("null", None),
        ("[1, 2]", b"[1, 2]"),
    ],
)
def test_a_record_is_read_to_the_byte(written: str, value: bytes | None) -> None:
    assert read_values(f'{{"at": 5, "tx": {written}}}') == [value]


def test_positions_are_versions_and_offsets_unless_a_step_says_otherwise() -> None:
    recording = Recording.read(
        b"""{"steps": [{"at": 1, "rule": {}}, {"at": 2, "tx": {}}, {"at": 2, "tx": {}, "partition": 1},
        {"at": 3, "tx": {}, "offset": 7}, {"at": 3, "rule": {}, "version": 5},
        {"at": 4, "tx": {}}, {"at": 4, "rule": {}}]}"""
    )
    assert [rule.version for rule in recording.rules] == [0, 5, 6]
    assert [(tx.partition, tx.offset) for tx in recording.transactions] == [(0, 0), (1, 0), (0, 7), (0, 8)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "expected { at character 1"),
        (b"\xff\xfe", "invalid start byte"),
        (b"[]", "expected { at character 1"),
        (b"{}", "missing required field `steps`"),
        (b'{"steps": []} x', "expected the end at character 15"),
        (b'{"steps": [', "Expecting value"),
        (b'{"steps": [{"at": 1, "tx": {]}]}', "Expecting property name"),
        (b'{"steps": {}}', "$.steps"),
        (b'{"steps": [7]}', "$.steps[0]"),
        (b"{1: []}", "expected a name at character 2"),
        (b'{"steps": [{"at": "now", "tx": {}}]}', "$.steps[0].at"),
        (b'{"steps": [{"at": 1.5, "tx": {}}]}', "$.steps[0].at"),
        (b'{"steps": [{"at": 1}]}', "step 0 must have one"),
        (b'{"steps": [{"at": 1, "tx": {}, "rule": {}}]}', "step 0 must have one"),
        (
            b'{"steps": [{"at": 1, "tx": {}}, {"at": 1, "tx": {}, "offset": 0}]}',
            "step 1 has the offset 0, but 1 or more",
        ),
        (b'{"steps": [{"at": 99999999999999999999, "tx": {}}]}', "$.steps[0].at"),
        (b'{"steps": [], "keyGroups": 0}', "$.keyGroups"),
        (b'{"steps": [], "batches": [{"pin": -1}]}', "$.batches[0].pin"),
        (b'{"steps": [{"at": 1, "tx": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", "recursion"),
    ],
)
def test_anything_else_is_refused_in_one_line(content: bytes, says: str) -> None:
    with pytest.raises(InputInvalid) as refused:
        Recording.read(content, "run.json")
    assert str(refused.value).startswith("run.json is not a recording: ")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_document_and_its_file_are_the_same_recording() -> None:
    document = {
        "keyGroups": 3,
        "settings": {"maxOutOfOrdernessMs": 5, "eventTimeFloorMs": 0},
        "steps": [{"at": 1, "rule": {"limit": Decimal("0.10")}}, {"at": 2, "tx": "1,2"}, {"at": 3, "tx": {"a": 1}}],
        "batches": [
            {"offsets": {"transactions": {"0": 2}}, "pin": 1, "refused": {"0": [["windowMinutes", "too much state"]]}}
        ],
    }
    recording = Recording.of_document(document)
    assert recording.rules == [RecordedRule(0, 1, b'{"limit":0.10}')]
    assert [tx.value for tx in recording.transactions] == [b"1,2", b'{"a":1}']
    assert recording.batches == [RecordedBatch({0: 2}, 1, {0: [Reason("windowMinutes", "too much state")]})]
    assert recording.settings == RecordedSettings(max_out_of_orderness_ms=5, event_time_floor_ms=0)
    assert Recording.read(b"".join(recording.lines())) == recording


values = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.text(max_size=20).map(str.encode),
    st.sampled_from(
        [
            RULE,
            b" {} ",
            b'{"a":1}x',
            b'{"a":NaN}',
            b'{"a":"\xed\xa0\x80"}',
            b'{"a":"\xff"}',
            b"{" * 5_000 + b"}" * 5_000,
            b'{"a":' + b"9" * 5_000 + b"}",
            b'{"a":"\n"}',
            b'{"a":1,"a":2}',
            b'{"a":1e400}',
        ]
    ),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3).map(
        lambda members: json.dumps(members).encode()
    ),
)


headers = st.lists(st.tuples(st.text(max_size=5), values), max_size=3).map(tuple)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2), values, values, headers)),
    st.lists(values),
)
def test_a_written_recording_reads_back_to_the_byte(
    rows: list[tuple[int, int, int, bytes | None, bytes | None, Headers]], rules: list[bytes | None]
) -> None:
    offsets: dict[int, int] = {}
    transactions, at_ms = [], 0
    for later_ms, partition, gap, value, key, own in rows:
        at_ms += later_ms
        offset = offsets.get(partition, 0) + gap
        offsets[partition] = offset + 1
        transactions.append(RecordedTransaction(at_ms, partition, offset, value, key, own))
    recording = Recording([RecordedRule(2 * i, i, value) for i, value in enumerate(rules)], transactions, key_groups=4)
    content = b"".join(recording.lines())
    json.loads(content)  # every reader of JSON can read it
    assert Recording.read(content) == recording
