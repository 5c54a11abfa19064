"""A failing document becomes small without its cuts and pins moving between the steps that are left."""

from __future__ import annotations

from typing import Any

from tests.support.streams.shrinking import smallest


def _document() -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    for at in range(4):
        steps.append({"at": at, "rule": {"ruleId": at, "cooldownSeconds": 1}})
        steps += [{"at": at, "tx": {"transactionId": 10 * at + p, "points": 1}, "partition": p} for p in (0, 1)]
    batches = [
        {"offsets": {"transactions": {"0": 1, "1": 0}}, "pin": 1},
        {"offsets": {"transactions": {"0": 3, "1": 2}}, "pin": 2},
        {"offsets": {"transactions": {"0": 4, "1": 4}}, "pin": 4},
    ]
    return {"keyGroups": 3, "steps": steps, "batches": batches}


def _read_in(document: dict[str, Any], batch: int) -> list[int]:
    """The ids of the transactions a batch reads."""
    found = []
    for partition in (0, 1):
        rows = [s for s in document["steps"] if "tx" in s and s["partition"] == partition]
        ends = [0, *(b["offsets"]["transactions"][str(partition)] for b in document["batches"])]
        found += [row["tx"]["transactionId"] for row in rows[ends[batch] : ends[batch + 1]]]
    return found


def test_keeps_what_a_batch_reads_and_sees() -> None:
    """Given a failure that needs two transactions in one batch which sees one rule, only these are left."""

    def fails(document: dict[str, Any]) -> bool:
        return any(
            {10, 11} <= set(_read_in(document, number)) and batch["pin"] >= 1
            for number, batch in enumerate(document["batches"])
        )

    small = smallest(_document(), fails)
    assert [step.get("tx", {}).get("transactionId") for step in small["steps"]] in ([None, 10, 11], [10, None, 11])
    assert small["batches"] == [{"offsets": {"transactions": {"0": 1, "1": 1}}, "pin": 1}]
    assert small["keyGroups"] == 1
    assert not any(
        "points" in step.get("tx", {}) or "cooldownSeconds" in step.get("rule", {}) for step in small["steps"]
    )


def test_leaves_the_given_document_alone() -> None:
    document = _document()
    smallest(document, lambda candidate: bool(candidate["steps"]))
    assert document == _document()
