"""Transactions and rules drawn from a seed, with every difficult case for a detector that is killed and restarted."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.recovery.rule_members import ACCOUNT, FIRST_RECORDS, SIGNAL_ID, add_members, map_record

OUT_OF_ORDERNESS_MS = 2_000
FUTURE_TOLERANCE_MS = 2_000
PARTITIONS = 2

_LAGS_MS = ((50, 0, 0), (28, 1, 900), (12, 900, 2_000), (6, 2_000, 9_000), (3, -900, -1), (1, -600_000, -60_000))
"""The age of an eventTime: weight, from, to. Event times of the last range are too far in the future to be accepted."""

_LIST_CONDITIONS = (
    "beneficiaryId in list('mules')",
    "beneficiaryId not in list('mules')",
    "paymentType in list('types')",
)
_RULE_IDS = (1, 2, 3, 4, 5, 6)
_GROUPINGS = (
    ["payeeId"], ["payeeId"], ["beneficiaryId"], ["payeeId", "beneficiaryId"], ["paymentType", "payeeId"],
    ["payeeId", "paymentType"],
)  # fmt: skip
_CONDITIONS = (("COUNT", 4), ("SUM", 40), ("AVG", 14), ("MIN", 3), ("MAX", 19), ("STDDEV", 6), ("COUNT_DISTINCT", 2))
_WARMED = 0.3
_WARMED_RULES = ((7, ["payeeId"]), (8, ["beneficiaryId"]), (9, ["beneficiaryId", "payeeId"]), (10, [ACCOUNT]))
"""Rules that request a warm-up never leave their grouping, because its end makes the request void."""
_CONTROLS = ("CLEAR_STATE_ALL", "EXPORT_RULES_CURRENT", "CLEAR_STATE_ALL", "DELETE_RULES_ALL")
_RARE_CLEARS = ("CLEAR_STATE_ALL", "DELETE_RULES_ALL", *["EXPORT_RULES_CURRENT"] * 8)
_FILTERS = (None, None, "paymentType = 'CSH'", "paymentAmount >= 5 or payeeId in (1, 2, 3)", "not (beneficiaryId = 4)")
_HOSTILE_RULES = (
    '{"ruleId": 0, "ruleState": "ACTIVE"}',
    '{"ruleId": 3, "ruleState": "ACTIVE", "limitOperatorType": "about", "unknown": 1}',
    "9,(active),(nobody),,(paymentAmount),(SUM),(>),(50),(20)",
    "not a rule",
)


@dataclass
class Traffic:
    """Draws records. `documents` has the members of each transaction record, or None if it is malformed.

    With `warm_ups`, some rules request a warm-up, and clears are rare enough for a job to end before the next one.
    """

    seed: int
    documents: dict[bytes, dict[str, Any] | None] = field(default_factory=dict)
    partitions: int = PARTITIONS
    warm_ups: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._next_id = 0
        self._first = deque(FIRST_RECORDS)
        self._recent: deque[bytes] = deque(maxlen=150)
        self._recent_ids: deque[int] = deque(maxlen=150)

    def transaction(self, now_ms: int) -> tuple[int, bytes | None]:
        """Draw the next record (None for a tombstone) and its partition."""
        draw = self._random.random()
        if draw < 0.005:
            return self._partition(), None
        if draw < 0.03:
            return self._partition(), self._malformed(now_ms)
        if draw < 0.05 and self._recent:
            return self._partition(), self._random.choice(self._recent)  # the same record, delivered again
        tx = self._members(now_ms)
        raw = self._written(tx)
        self.documents[raw] = tx
        self._recent.append(raw)
        return self._partition(), raw

    def rule(self) -> bytes:
        """Draw the next record of the rule log, after `FIRST_RECORDS`. The experiment itself writes the stops."""
        if self._first:
            return _json(self._first.popleft())
        draw = self._random.random()
        if draw < 0.03:
            return self._random.choice(_HOSTILE_RULES).encode()
        if draw < 0.12:
            return _json({"ruleId": self._random.choice((*_RULE_IDS, SIGNAL_ID)), "ruleState": "DELETE"})
        if draw < 0.17:
            return self._list_record()
        if draw < 0.20:
            return _json(map_record(self._random))
        if draw < 0.28:
            controls = _RARE_CLEARS if self.warm_ups else _CONTROLS
            return _json({"ruleState": "CONTROL", "controlType": self._random.choice(controls)})
        return _json(self._rule())

    def _rule(self) -> dict[str, Any]:
        pick = self._random.choice
        aggregator, limit = pick((*_CONDITIONS, ("COUNT_WITH_RESET", 3), ("COUNT_WITH_RESET", 2)))
        rule = {
            "ruleId": pick(_RULE_IDS),
            "ruleState": pick(("ACTIVE", "ACTIVE", "ACTIVE", "SHADOW", "PAUSE")),
            "groupingKeyNames": pick(_GROUPINGS),
            "aggregatorFunctionType": aggregator,
            "aggregateFieldName": "paymentAmount",
            "unique": ["beneficiaryId"] if aggregator == "COUNT_DISTINCT" else [],
            "limitOperatorType": pick((">", ">=")),
            "limit": limit,
            "windowSeconds": pick((1, 3, 8, 20)),
            "cooldownSeconds": pick((None, None, 1, 5)),
            "weight": pick((None, None, 0, 60)),
            "filter": pick(_FILTERS),
            "when": pick((None, None, *_FILTERS, *_LIST_CONDITIONS)),
            "action": pick((None, None, "RESTRICT")),
        }
        if aggregator in ("COUNT", "SUM", "AVG", "MIN", "MAX") and self._random.random() < 0.5:
            rule |= self._baseline(aggregator)
        if self.warm_ups and self._random.random() < _WARMED:
            rule["ruleId"], rule["groupingKeyNames"] = pick(_WARMED_RULES)
            rule["warmUp"] = True
        rule = {name: value for name, value in rule.items() if value is not None}
        add_members(rule, self._random)
        return rule

    def _baseline(self, aggregator: str) -> dict[str, Any]:
        """Draw a baseline and a factor near the usual ratio."""
        pick = self._random.choice
        deviates = aggregator in ("AVG", "MIN", "MAX") and pick((True, False))
        baseline = {
            "windowSeconds": pick((2, 10, 30)),
            "aggregatorFunctionType": "AVG" if deviates else pick((aggregator, "AVG")),
            "filter": pick(("", "paymentType = 'CSH'")),
            "minCount": pick((1, 1, 3)),
            "deviations": deviates,
        }
        return {"baseline": baseline, "limit": pick((1, 1.5)) if deviates else pick((0.5, 1, 1.5))}

    def _list_record(self) -> bytes:
        """Draw a change of a list. It may not fit the log before it."""
        pick = self._random.choice
        name, kind = pick((("mules", "long"), ("mules", "long"), ("types", "string")))
        operation = pick(("SET", "SET", "ADD", "ADD", "ADD", "REMOVE", "REMOVE", "DELETE"))
        record: dict[str, Any] = {"listName": name, "listOperation": operation, "listType": kind}
        if operation != "DELETE":
            values: Sequence[Any] = range(25) if kind == "long" else ("CSH", "CRD", "SEPA")
            record["values"] = self._random.sample(values, self._random.randint(0, min(8, len(values))))
        return _json(record)

    def _members(self, now_ms: int) -> dict[str, Any]:
        choose = self._random
        weights, froms, tos = zip(*_LAGS_MS, strict=True)
        (kind,) = choose.choices(range(len(_LAGS_MS)), weights)
        too_far_ahead = kind == len(_LAGS_MS) - 1
        if choose.random() < 0.03 and self._recent_ids and not too_far_ahead:
            identity = choose.choice(self._recent_ids)  # another transaction reuses an id
        else:
            identity = self._next_id = self._next_id + 1
            if not too_far_ahead:
                self._recent_ids.append(identity)
        return {
            "transactionId": identity,
            "eventTime": now_ms - choose.randint(froms[kind], tos[kind]),
            "payeeId": int(40 * choose.random() ** 2),  # some payees occur more often than others
            "beneficiaryId": int(25 * choose.random() ** 2),
            "paymentType": choose.choice(("CSH", "CRD", "CSH", "SEPA")),
            "paymentAmount": f"{choose.randint(1, 2000) / 100:.2f}",
        }

    def _malformed(self, now_ms: int) -> bytes:
        """Draw a malformed record. All malformed records differ."""
        self._next_id += 1
        tx = _json({**self._members(now_ms), "transactionId": self._next_id})
        raw = self._random.choice(
            (
                tx[:-3],
                tx + b" x",
                tx.replace(b'"paymentAmount": "', b'"paymentAmount": "1e99'),
                tx.replace(b'"payeeId": ', b'"payeeId": 1.5'),
                tx.replace(b'"eventTime"', b'"eventTime": 1, "eventTime"'),
                b"\xff\x00" + tx,
            )
        )
        self.documents[raw] = None
        return raw

    def _written(self, tx: dict[str, Any]) -> bytes:
        """Encode mostly as JSON, and sometimes as a CSV line."""
        if self._random.random() < 0.1:
            return (",".join(str(value) for value in tx.values()) + ",").encode()
        return _json(tx)

    def _partition(self) -> int:
        return self._random.randrange(self.partitions)


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()
