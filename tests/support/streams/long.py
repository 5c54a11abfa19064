"""Long streams from a plain random generator, for effects that need length: merged chunks, clean-up, many cuts."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.support.streams.generated import AGGREGATORS, BIG, GROUPINGS, START_MS

FILTERS = [None, None, "paymentType = 'CSH'", "paymentAmount > 2 or points is null", "not (points in (1, 2))"]
ENDINGS = ["CLEAR_STATE_ALL", "DELETE_RULES_ALL", *["DELETE"] * 6]


def long_document(seed: int, transactions: int) -> dict[str, Any]:
    """Generate a document of `fraud streams replay` with this many transactions. The seed varies pace, lag, keys and
    rules.

    Each batch reads the records appended up to some moment in both partitions, and sees the rules up to that moment.
    """
    stream = _Stream(Random(seed))
    for _ in range(4):
        stream.rule()
    for _ in range(transactions):
        stream.step()
    return {
        "keyGroups": stream.random.choice([1, 3]),
        "settings": {"maxOutOfOrdernessMs": stream.random.choice([0, 1000, 5000])},
        "steps": stream.steps,
        "batches": stream.batches,
    }


class _Stream:
    """A stream under construction."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.steps: list[dict[str, Any]] = []
        self.batches: list[dict[str, Any]] = []
        self._now_ms = START_MS
        self._ids = [0]
        self._ends = [0] * random.choice([1, 2])
        self._rules_end = 0
        self._payees = random.choice([1, 3, 20])
        self._pace_ms = random.choice([1, 20, 100, 500])
        self._lag_ms = random.choice([0, 500, 3000, 10_000])
        self._aggregators = random.sample(AGGREGATORS, random.randint(2, 8))
        self._groupings = random.sample(GROUPINGS, random.randint(1, 3))
        self._windows_s = random.sample([1, 2, 5, 20, 60, 300], 3)
        self._chances = {
            self.rule: random.choice([0.005, 0.02, 0.05]),
            self.ending: random.choice([0.002, 0.01, 0.03]),
            self.transaction: 1.0,
            self.cut: random.choice([0.005, 0.05, 0.3]),
        }

    def step(self) -> None:
        """Advance the time and add a transaction, sometimes after a rule change or before a cut."""
        self._now_ms += self.random.randint(0, 2 * self._pace_ms)
        for act, chance in self._chances.items():
            if self.random.random() < chance:
                act()

    def rule(self) -> None:
        choice = self.random.choice
        aggregator = choice(self._aggregators)
        rule = {
            "ruleId": self.random.randint(1, 8),
            "ruleState": choice(["ACTIVE", "ACTIVE", "ACTIVE", "ACTIVE", "SHADOW", "PAUSE"]),
            "groupingKeyNames": choice(self._groupings),
            "aggregatorFunctionType": aggregator,
            "aggregateFieldName": choice(["paymentAmount", "points"]),
            "unique": ["beneficiaryId", "points"] if aggregator == "COUNT_DISTINCT" else [],
            "limitOperatorType": choice([">", ">=", "<", "!="]),
            "limit": choice(["1", "3", "10", "2.5", "0.5"]),
            "windowSeconds": choice(self._windows_s),
            "filter": choice(FILTERS),
            "when": choice([None, None, *FILTERS]),
            "cooldownSeconds": choice([None, None, 1, 10]),
            "severity": choice([None, "low", "high", "critical"]),
        }
        if aggregator in ("SUM", "AVG", "MIN", "MAX", "COUNT") and choice([True, False]):
            rule["baseline"] = self._baseline(aggregator)
        self._record({name: value for name, value in rule.items() if value is not None})

    def _baseline(self, aggregator: str) -> dict[str, Any]:
        choice = self.random.choice
        deviations = aggregator in ("AVG", "MIN", "MAX") and choice([True, False, False])
        function = "AVG" if deviations else choice(["SUM", "COUNT", "AVG", "MIN", "MAX"])
        return {
            "windowSeconds": choice(self._windows_s),
            "aggregatorFunctionType": function,
            "filter": choice(["", *(each for each in FILTERS if each)]),
            "minCount": choice([1, 1, 2, 5]),
            "deviations": deviations,
        }

    def ending(self) -> None:
        name = self.random.choice(ENDINGS)
        deletion = {"ruleId": self.random.randint(1, 8), "ruleState": "DELETE"}
        self._record(deletion if name == "DELETE" else {"ruleState": "CONTROL", "controlType": name})

    def transaction(self) -> None:
        choice, chance = self.random.choice, self.random.random
        repeats = chance() < 0.03 and len(self._ids) > 5
        self._ids.append(choice(self._ids[-40:]) if repeats else len(self._ids))
        lag_ms = self.random.randint(0, self._lag_ms) if chance() < 0.4 else 0
        lag_ms += 5 * self._lag_ms if chance() < 0.03 else 0
        fields = {
            "transactionId": self._ids[-1],
            "eventTime": self._now_ms - lag_ms,
            "payeeId": self.random.randint(1, self._payees),
            "beneficiaryId": choice([1, 2, 3, None]),
            "paymentType": choice(["CSH", "CRD", None]),
            "paymentAmount": choice(["1", "2.50", "3", "0.01", "-1", "7.77", BIG, None]),
            "points": choice([1, 2, 3, None, 2**62]),
        }
        partition = self.random.randrange(len(self._ends))
        self._ends[partition] += 1
        present = {name: value for name, value in fields.items() if value is not None}
        self.steps.append({"at": self._now_ms, "tx": present, "partition": partition})

    def cut(self) -> None:
        ends = {str(partition): end for partition, end in enumerate(self._ends)}
        self.batches.append({"offsets": {"transactions": ends}, "pin": self._rules_end})

    def _record(self, rule: dict[str, Any]) -> None:
        self.steps.append({"at": self._now_ms, "rule": rule})
        self._rules_end += 1
