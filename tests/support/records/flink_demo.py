"""The corpus of the Flink demo's own records, `corpus/flink_demo.json`, as bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.support.places import CORPUS

_DOCUMENT: dict[str, Any] = json.loads((CORPUS / "flink_demo.json").read_text("utf-8"))

TYPE_HEADER = ("__TypeId__", b"com.ververica.demo.backend.datasource.Transaction")
"""The header that Spring's serializer adds to each transaction."""


@dataclass(frozen=True, slots=True)
class DemoRule:
    """A rule record, its id, and the sentence that describes it."""

    record: bytes
    rule_id: int
    says: str


@dataclass(frozen=True, slots=True)
class DemoTransaction:
    """A transaction record and its values: id, event time, payee, beneficiary, type and amount as text."""

    record: bytes
    values: tuple[int, int, int, int, str, str]


def _rules(part: str) -> tuple[DemoRule, ...]:
    return tuple(DemoRule(each["record"].encode(), each["ruleId"], each["says"]) for each in _DOCUMENT[part])


DEFAULT_RULES = _rules("defaultRules")
FORM_RULES = _rules("formRules")
TEXT_RULES = _rules("textRules")
DELETIONS: tuple[tuple[bytes, int], ...] = tuple((e["record"].encode(), e["ruleId"]) for e in _DOCUMENT["deletions"])
CONTROLS: tuple[tuple[bytes, str], ...] = tuple((e["record"].encode(), e["controlType"]) for e in _DOCUMENT["controls"])
TRANSACTIONS = tuple(DemoTransaction(e["record"].encode(), tuple(e["values"])) for e in _DOCUMENT["transactions"])
