"""The conformance cases: small recorded streams, and the answers that every engine must give."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from fraud_rules.model.schema import TransactionSchema
from tests.support.places import CASES, ROOT

SCHEMAS = {
    "default": ROOT / "config" / "schema.yaml",
    "nullable": CASES / "nullable.yaml",
    "third_edition": CASES / "third_edition.yaml",
}
PARTS = (
    "alerts", "decisions", "late", "quarantine", "duplicates", "conflictingDuplicates", "nullKeys", "rejected",
)  # fmt: skip
OPTIONAL_PARTS = ("decisions", "conflictingDuplicates", "nullKeys", "rejected")
_FREE = "triggeringValue"
"""A member of an alert that is not compared where the expected value is null."""
_ABSENT = "absent"


@dataclass(frozen=True)
class Case:
    """One case: `document` is the input of `fraud streams replay`, `expect` its output, `schema` a key of `SCHEMAS`."""

    name: str
    shows: str
    schema: str
    document: Mapping[str, Any]
    expect: Mapping[str, Any]

    def __str__(self) -> str:
        return self.name


@cache
def load_schema(name: str) -> TransactionSchema:
    """Load one of the schemas of the cases, once in a process."""
    return TransactionSchema.load(SCHEMAS[name])


def load_cases(pattern: str = "*.json") -> list[Case]:
    """Load every case of the files in `tests/cases` whose name matches."""
    return [case for path in sorted(CASES.glob(pattern)) for case in load_cases_of(path)]


def load_cases_of(path: Path) -> list[Case]:
    """Load the cases of a file."""
    return [_case(raw) for raw in json.loads(path.read_text())["cases"]]


def _case(raw: Mapping[str, Any]) -> Case:
    about = ("name", "shows", "timeline", "schema", "expect")
    document = {name: value for name, value in raw.items() if name not in about}
    return Case(raw["name"], raw["shows"], raw.get("schema", "default"), document, raw["expect"])


def failing_cases(faults_of: Callable[[Case], list[str]]) -> dict[str, list[str]]:
    """The faults of each case that has any, by its name and what it shows. One test for all cases: a test for each
    would cost more than its case, because every process of a run collects it."""
    return {f"{case}: {case.shows}": faults for case in load_cases() if (faults := faults_of(case))}


def differences(expect: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """List the differences between an answer and the expected one; empty if they agree.

    Alerts are compared in order, on the members the case gives (except for `_FREE`); rejected
    rules by version, decisions without the ids of their alerts. A part that the case omits must be empty, except that
    those of `OPTIONAL_PARTS` are not compared if the case omits them.
    """
    found: list[str] = []
    for part in PARTS:
        if part == "alerts":
            found += _alert_differences(expect["alerts"], answer["alerts"])
        elif part in expect or part not in OPTIONAL_PARTS:
            wanted, got = list(expect.get(part, ())), _plain(part, answer[part])
            found += [f"{part}: expected {wanted}, got {got}"] if wanted != got else []
    return found


def _alert_differences(wanted: Sequence[Mapping[str, Any]], got: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    for position in range(max(len(wanted), len(got))):
        if position >= len(got):
            yield f"alert {position}: missing {wanted[position]}"
        elif position >= len(wanted):
            yield f"alert {position}: unexpected {got[position]}"
        else:
            compared = {each: value for each, value in wanted[position].items() if value is not None or each != _FREE}
            actual = {name: _shown(value, got[position].get(name, _ABSENT)) for name, value in compared.items()}
            if compared != actual:
                yield f"alert {position}: expected {compared}, got {actual}"


def _shown(wanted: Any, actual: Any) -> Any:
    """A member of an alert; of a baseline, only the members that the case gives. A case has decimals as texts."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        shown = {name: _shown(wanted.get(name), value) for name, value in actual.items()}
        partial = "count" in wanted and "windowStart" not in wanted
        return {name: shown.get(name) for name in wanted} if partial else shown
    return f"{actual:f}" if isinstance(wanted, str) and isinstance(actual, Decimal) else actual


def _plain(part: str, items: Iterable[Any]) -> list[Any]:
    if part == "decisions":
        return [_without_alert_ids(decision) for decision in items]
    return [item["ruleVersion"] for item in items] if part == "rejected" else list(items)


def _without_alert_ids(decision: Mapping[str, Any]) -> dict[str, Any]:
    alerts = [{name: value for name, value in alert.items() if name != "alertId"} for alert in decision["alerts"]]
    return {**decision, "alerts": alerts}


def same_answer(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """List the differences between two engines' answers to one document; empty if they agree."""
    wanted = {**one, **{part: _plain(part, one[part]) for part in OPTIONAL_PARTS}}
    return differences(wanted, other)
