"""Measures a detector with a feed of list changes, and a rule that is deleted early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.rulesets import Document
from bench.lab import Lab
from bench.rows.soaks.compressed import STEPS, flat, run
from bench.rows.soaks.compressed_engine import RULE_LOG, CompressedEngine, rule

_STEP_MS = 3_600_000
_PAYMENTS = 300
_VALUES = 10
_LISTED = 20_000
_DELETED_AT = 30
_DELETED = ("beneficiaryId",)


def _change(operation: str, first: int, count: int = _VALUES) -> Document:
    values = list(range(first, first + count))
    return {"listName": "mules", "listOperation": operation, "listType": "long", "values": values}


def _measure(lab: Lab, scale: Scale) -> Mapping[str, Any]:
    del lab
    engine = CompressedEngine(_STEP_MS)
    engine.change(
        [
            _change("SET", 0, _LISTED),
            rule(1, ["payeeId"], when="beneficiaryId in list('mules')", windowMinutes=1_440),
            rule(2, _DELETED, windowMinutes=43_200),
        ]
    )

    def step(number: int) -> None:
        if number == _DELETED_AT:
            engine.change([{"ruleId": 2, "ruleState": "DELETE"}])
        first = number * _VALUES
        engine.pay(_PAYMENTS, [_change("ADD", _LISTED + first), _change("REMOVE", first)])

    def sizes() -> Mapping[str, float]:
        deleted = [state for state in engine.states() if state.fields == _DELETED]
        return {**engine.sizes(), "deleted_states": len(deleted), "listed": engine.timeline.lists["mules"].size}

    return run(scale.soak_minutes, step, sizes)


ROWS = (
    Rows(
        "soak_lists",
        "A feed of list changes",
        f"One process with the engine and the rule log in memory. A list of {_LISTED:,} longs; each step is an hour of "
        f"event time with {_PAYMENTS} payments, and in the middle of them an ADD and a REMOVE of {_VALUES} values. A "
        f"rule with a window of 30 days is deleted after {_DELETED_AT} hours. The process holds the rule log, which "
        "grows by each record.",
        (
            *STEPS,
            *RULE_LOG,
            *flat("retained_rows", "retained rows", ""),
            *flat("state_mib", "memory of the state", "MiB"),
            Figure("deleted_states", "states of the deleted grouping, last third", "", at_most(0)),
            Figure("groupings", "groupings held, last third", "", at_most(1)),
            Figure("listed", "values in the list", ""),
        ),
        _measure,
        needs_broker=False,
        soak=True,
    ),
)
