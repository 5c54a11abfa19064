"""`fraud init`: the payments of other companies are understood from their records alone."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from fraud_rules.discovery.sample import SampleRecord
from fraud_rules.discovery.schema_file import schema_text
from fraud_rules.discovery.understanding import Understanding, decode_sample, understand
from fraud_rules.errors import TopicNotUnderstood
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.yaml_file import parse_yaml
from tests.support.records.foreign_shapes import FIRST_MS, SHAPES, Payment, is_payment, payments, record

NOW_MS = FIRST_MS + 3_600_000


def sample_of(shape: str) -> list[SampleRecord]:
    """Records that arrive up to three seconds after their payment."""
    return [
        SampleRecord(record(shape, each), each.at_ms + 100 + 37 * i % 3_000, i % 2, i)
        for i, each in enumerate(payments())
    ]


def written(found: Understanding) -> TransactionSchema:
    """The schema in the file that `fraud init` writes."""
    text = schema_text(found.proposal, found.recognized.envelope, ["about"])
    return TransactionSchema.parse(parse_yaml(text, "the file"))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_payment_of_a_foreign_shape_is_read_exactly(shape: str) -> None:
    sample = sample_of(shape)
    schema = written(understand(sample))
    decoded = decode_sample(sample, schema, NOW_MS)
    expected = [each for each in payments() if is_payment(shape, each)]
    assert decoded.rejects == []
    assert (len(decoded.batch), decoded.ignored) == (len(expected), PAYMENTS_OF_ALL - len(expected))
    (amount,) = [field.name for field in schema.fields if field.type == "decimal"]
    for i, each in enumerate(expected):
        row: dict[str, Any] = decoded.batch.row(i, schema)
        assert str(row["transactionId"]).removeprefix("R") == str(each.id)
        assert (row["eventTime"], row[amount]) == (each.at_ms, Decimal(each.cents).scaleb(-2))
        assert {each.payer, f"DE{each.payer}"} & set(map(str, row.values()))


PAYMENTS_OF_ALL = len(payments())


@pytest.mark.parametrize("shape", SHAPES)
def test_payer_and_payee_are_suggested_as_keys(shape: str) -> None:
    assert len(understand(sample_of(shape)).proposal.keys) == (0 if shape.startswith("CSV") else 2)


def test_the_schema_that_is_written_equals_the_proposed_one() -> None:
    for shape in SHAPES:
        found = understand(sample_of(shape))
        assert written(found) == found.schema


def test_a_local_time_is_a_doubt_with_a_zone_that_fits() -> None:
    (doubt,) = understand(sample_of("local ISO times, cents")).proposal.doubts
    assert "1 h ahead of their arrival" in doubt
    assert "Etc/GMT-1" in doubt


def test_whole_amounts_are_a_doubt_about_their_unit() -> None:
    sample = [_json(each, id=each.id, at=each.at_ms, amount=each.cents) for each in payments()]
    (doubt,) = understand(sample).proposal.doubts
    assert "write `scaled: true`" in doubt


def test_two_possible_times_are_a_doubt() -> None:
    sample = [_json(each, id=each.id, firstAt=each.at_ms, secondAt=each.at_ms, amount=1.5) for each in payments()]
    (doubt,) = understand(sample).proposal.doubts
    assert doubt.startswith("eventTime is firstAt; it could be secondAt too")
    assert understand(sample, chosen_time=("secondAt",)).schema.fields[1].source.path == ("secondAt",)


def test_an_old_date_is_not_the_event_time() -> None:
    sample = [_json(each, id=each.id, eventTime=FIRST_MS - 10**11, seen=each.at_ms) for each in payments()]
    assert understand(sample).schema.fields[1].source.path == ("seen",)


@pytest.mark.parametrize(
    ("members", "missing", "words"),
    [
        ({"amount": 1, "at": FIRST_MS}, "id", "--id PATH"),
        ({"id": None, "date": "2026-11-28"}, "time", "a date alone is no time"),
    ],
)
def test_what_the_records_do_not_show_must_be_chosen(members: dict[str, Any], missing: str, words: str) -> None:
    sample = [_json(each, **{name: value or each.id for name, value in members.items()}) for each in payments()]
    with pytest.raises(TopicNotUnderstood, match=words) as caught:
        understand(sample)
    assert caught.value.missing == missing


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "there is no record"),
        ([b"\0\0\0\0\7abc"] * 3, "name the registry"),
        ([b"\xff\xfe"] * 3, "no record is a JSON object or a CSV line"),
        ([b"{}"] * 3, "no member is a time"),
        ([b'{"op":"d","before":{},"after":null}'] * 3, "no record describes a new payment"),
    ],
)
def test_records_that_are_no_payments_are_named(values: list[bytes], words: str) -> None:
    with pytest.raises(TopicNotUnderstood, match=words):
        understand([SampleRecord(value, FIRST_MS) for value in values])


def test_some_garbage_among_the_records_does_not_matter() -> None:
    sample = sample_of("nested, microseconds")
    for place, value in ((3, b"garbage"), (50, b"{"), (51, b'{"payment":7}'), (52, b'{"a":"' + b"x" * 100_000 + b'"}')):
        sample[place] = SampleRecord(value, sample[place].append_ms)
    found = understand(sample)
    assert found.recognized.unreadable == 2
    assert len(decode_sample(sample, written(found), NOW_MS).batch) == len(sample) - 4


def test_values_without_a_use_or_a_type_are_left_out_by_name() -> None:
    values = {"note": "x" * 300, "mixed": 1, "huge": 10**30, "none": None, "reason": "id {}", "list": [1]}
    sample = []
    for i, each in enumerate(payments()):
        more = {**values, "mixed": "text" if i % 2 else 1, "reason": f"reason {i}"}
        sample.append(_json(each, id=each.id, at=each.at_ms, **more))
    found = understand(sample)
    assert [each.partition(":")[0] for each in found.proposal.left_out] == ["note", "mixed", "none", "reason", "list"]
    (huge,) = [field for field in found.schema.fields if field.name == "huge"]
    assert (huge.type, huge.source.written_as) == ("string", "number")


def _json(each: Payment, **members: Any) -> SampleRecord:
    return SampleRecord(json.dumps(members).encode(), each.at_ms + 500)
