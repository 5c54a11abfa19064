"""The traffic of the tests with killed processes as a recording, with batches whose rules run ahead of their rows."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.support.recovery.traffic import FUTURE_TOLERANCE_MS, OUT_OF_ORDERNESS_MS, Traffic
from tests.support.streams.generated import START_MS

_PAUSED = 0.004
_PAUSES_MS = (2_000, 10_000, 25_000)
_BATCH_ROWS = (1, 2, 5, 10, 30, 60, 200)
_AHEAD_ROWS = (0, 0, 0, 3, 20)


def lagging_document(seed: int, transactions: int) -> dict[str, Any]:
    """Draw a recording. A pin can include rules that were appended after the rows of its batch, and a warm-up joins a
    later batch than the one in which its job has read the last transaction."""
    draw = random.Random(seed)
    steps, ends = _steps(seed, draw, transactions)
    rules = [step for step in steps if "rule" in step]
    arrivals = [step["at"] for step in steps if "tx" in step]
    batches: list[dict[str, Any]] = []
    end, pin, done = 0, 0, set[int]()
    while end < transactions:
        begin, end = end, min(transactions, end + draw.choice(_BATCH_ROWS))
        pin = max(pin, ends[min(transactions, end + draw.choice(_AHEAD_ROWS)) - 1][1])
        read = ends[begin - 1][0] if begin else {}
        ready = [
            version
            for version in range(pin)
            if version not in done
            and _is_warmed(rules[version])
            and begin
            and rules[version]["at"] < arrivals[begin - 1]
        ]
        joining = [version for version in ready if draw.random() < 0.3]
        done.update(joining)
        warm_ups = [{"version": version, "ends": read} for version in joining]
        batches.append({"offsets": {"transactions": ends[end - 1][0]}, "pin": pin, "warmUps": warm_ups})
    settings = {
        "maxOutOfOrdernessMs": OUT_OF_ORDERNESS_MS,
        "futureToleranceMs": FUTURE_TOLERANCE_MS,
        "detailMinutes": draw.choice([0, 1_440]),
    }
    return {"keyGroups": draw.choice([1, 4]), "settings": settings, "steps": steps, "batches": batches}


def _steps(
    seed: int, draw: random.Random, transactions: int
) -> tuple[list[dict[str, Any]], list[tuple[dict[str, int], int]]]:
    """The steps, and for each transaction the ends of the partitions and the number of rules after it."""
    traffic, now_ms = Traffic(seed, warm_ups=True), START_MS
    steps = [{"at": now_ms, "rule": traffic.rule().decode()} for _ in range(6)]
    next_rule_ms, rules, counts = now_ms, len(steps), dict[str, int]()
    ends = []
    for _ in range(transactions):
        partition, raw = traffic.transaction(now_ms)
        members = (traffic.documents[raw] if raw is not None else None) or {}
        steps.append({"at": now_ms, "partition": partition, "tx": members})
        counts[str(partition)] = counts.get(str(partition), 0) + 1
        if now_ms >= next_rule_ms:
            steps.append({"at": now_ms, "rule": traffic.rule().decode()})
            rules, next_rule_ms = rules + 1, now_ms + int(draw.expovariate(1.0) * 1_000)
        ends.append((dict(counts), rules))
        now_ms += int(draw.expovariate(60) * 1_000)
        if draw.random() < _PAUSED:
            now_ms += draw.choice(_PAUSES_MS)
    return steps, ends


def _is_warmed(step: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(step["rule"]).get("warmUp"))
    except (ValueError, AttributeError):
        return False
