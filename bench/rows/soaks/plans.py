"""Measures a detector whose rules change in every batch: 1,000 rules, and groupings that end and begin again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from bench.figures import Figure, Rows, Scale, at_most
from bench.inputs.rulesets import Document
from bench.lab import Lab
from bench.rows.soaks.compressed import STEPS, flat, run
from bench.rows.soaks.compressed_engine import RULE_LOG, CompressedEngine, rule
from fraud_rules.engine.state.plans import PLANS

_RULES = 1_000
_STEP_MS = 60_000
_PAYMENTS = 60
_MOVES_EVERY = 5
_FUNCTIONS = ("SUM", "AVG", "MAX", "COUNT", "STDDEV")
_GROUPINGS = [
    fields for n in (1, 2, 3) for fields in combinations(("beneficiaryId", "paymentType", "paymentAmount"), n)
]
_MOVING = 2_000
_GROUPINGS_HELD = 5
"""The grouping of the rules, that of the moving rule, and those that it has left in the last ten minutes."""


def _edited(number: int) -> Document:
    """A rule with another limit, window or condition at each edit."""
    rule_id = 1 + (7 * number) % _RULES
    members: dict[str, Any] = {"limit": 10**9 + number, "windowSeconds": 60 + number % 500}
    if number % 3 == 0:
        members["when"] = f"paymentAmount > {number % 50}"
    return rule(rule_id, ["payeeId"], aggregatorFunctionType=_FUNCTIONS[rule_id % len(_FUNCTIONS)], **members)


def _measure(lab: Lab, scale: Scale) -> Mapping[str, Any]:
    del lab
    engine = CompressedEngine(_STEP_MS)
    engine.change([_edited(number) for number in range(_RULES)])

    def step(number: int) -> None:
        changes = [_edited(_RULES + number)]
        if number % _MOVES_EVERY == 0:
            changes.append(rule(_MOVING, _GROUPINGS[(number // _MOVES_EVERY) % len(_GROUPINGS)], windowMinutes=30))
        engine.pay(_PAYMENTS, changes)

    def sizes() -> Mapping[str, float]:
        return {**engine.sizes(), "plans": len(PLANS), "plan_rules": PLANS.rules_held}

    return run(scale.soak_minutes, step, sizes)


ROWS = (
    Rows(
        "soak_plans",
        "A rule change in every batch",
        f"One process with the engine and the rule log in memory. {_RULES:,} rules of one grouping; each step is a "
        f"minute of event time with {_PAYMENTS} payments. An edit of a rule falls between them: another limit, window "
        f"or condition. In every {_MOVES_EVERY}th step, one more rule moves to another grouping, so groupings end and "
        "begin again. The process holds the rule log, which grows by each record.",
        (
            *STEPS,
            *RULE_LOG,
            *flat("plans", "compiled plans held", ""),
            *flat("plan_rules", "rules of these plans", ""),
            *flat("retained_rows", "retained rows", ""),
            *flat("state_mib", "memory of the state", "MiB"),
            Figure("groupings", "groupings held, last third", "", at_most(_GROUPINGS_HELD)),
        ),
        _measure,
        needs_broker=False,
        soak=True,
    ),
)
