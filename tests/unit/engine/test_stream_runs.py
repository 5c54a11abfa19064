"""Runs of generated streams: a seed gives one stream, and a stream that fails becomes small."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.streams.generated import documents
from tests.support.streams.long import long_document
from tests.support.streams.runs import beginning, check_long, check_stream, drawn


def test_a_seed_gives_one_stream() -> None:
    assert drawn(7, documents()) == drawn(7, documents()) != drawn(8, documents())


@pytest.mark.long
def test_a_failing_stream_becomes_small() -> None:
    """If a failure needs two payments of one payer, the shrunk stream has little else."""
    failed: list[dict[str, Any]] = []

    def check(document: dict[str, Any]) -> None:
        payers = [step["tx"]["payeeId"] for step in document["steps"] if "tx" in step]
        if len(payers) > len(set(payers)):
            failed.append(document)
            raise AssertionError("two payments of one payer")

    with pytest.raises(AssertionError, match="two payments of one payer"):
        check_stream(7, documents(partitions=1, cut=False), check)
    assert sum("tx" in step for step in failed[0]["steps"]) > 10
    assert sum("tx" in step for step in failed[-1]["steps"]) == 2
    rules = [step["rule"] for step in failed[-1]["steps"] if "rule" in step]
    assert sum("listName" in rule for rule in rules) == 2, "a stream has a list of each type"
    assert sum("listName" not in rule for rule in rules) == 1, "a stream has a rule"


def test_a_failing_long_stream_is_cut_behind_the_failure() -> None:
    document = long_document(3, transactions=60)
    last = [step["tx"]["transactionId"] for step in document["steps"] if "tx" in step][40]
    failed: list[dict[str, Any]] = []

    def check(part: dict[str, Any]) -> None:
        if any(step.get("tx", {}).get("transactionId") == last for step in part["steps"]):
            failed.append(part)
            raise AssertionError("the payment is there")

    with pytest.raises(AssertionError, match="the payment is there"):
        check_long(document, check)
    assert failed[-1]["steps"][-1]["tx"]["transactionId"] == last


@pytest.mark.parametrize("count", [1, 10, 50])
def test_the_beginning_of_a_document_is_a_document(count: int) -> None:
    document = long_document(3, transactions=60)
    part = beginning(document, count)
    rows = sum("tx" in step for step in part["steps"])
    rules = sum("rule" in step for step in part["steps"])
    assert part["steps"] == document["steps"][:count]
    assert part["batches"] == document["batches"][: len(part["batches"])]
    assert all(sum(batch["offsets"]["transactions"].values()) <= rows for batch in part["batches"])
    assert all(batch["pin"] <= rules for batch in part["batches"])
