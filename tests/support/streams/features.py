"""The third edition in generated streams: a drawn document, some of whose rules get members of the third edition.

Every feature is off by default, and a document keeps its transactions, so that an engine can take the features one by
one: `check_stream(seed, with_features(documents(), Features(limits=True)), check)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fraud_rules.model.declared.entity import DeclaredEntity
from tests.support.oracle.moments import epoch_ms
from tests.support.streams import generated
from tests.support.streams.generated import BIG, START_MS


class Features(NamedTuple):
    """The features that the rules of a stream may use. Without `named_rules`, conditions are aggregates only. With
    `entities`, the schema declares `ENTITIES`. With `own`, most limits of conditions read the own aggregate."""

    limits: bool = False
    rollout: bool = False
    calendars: bool = False
    maps: bool = False
    previous: bool = False
    conditions: bool = False
    named_rules: bool = True
    entities: bool = False
    own: bool = False
    resolutions: bool = False


ALL = Features(**dict.fromkeys(Features._fields, True))
LIMITS = [
    "paymentAmount",
    "coalesce(points, 2)",
    "paymentAmount / points",
    "points - 1",
    "payeeId * 2 - 1",
    "round(paymentAmount) + 0.5",
    "-abs(paymentAmount)",
    "length(paymentType)",
    "paymentType",
]
"""Expressions as limits. The last one has no number."""
MAP_LIMITS = [
    "map('rates', payeeId)",
    "coalesce(map('rates', beneficiaryId), 2)",
    "map('codes', paymentType) + 1",
    "map('rates', points - 1)",
]
MAP_CONDITIONS = [
    "map('rates', payeeId) <= coalesce(paymentAmount, 9)",
    "map_text('names', paymentType) != 'x'",
    "map_text('names', paymentType) = 'cash'",
    "map_text('names', lower(paymentType)) is null and cardPresent",
    "coalesce(map('codes', paymentType), 0) > 1 or map('rates', points) is null",
]
MISTYPED_MAP_CONDITIONS = ["map_text('rates', payeeId) = 'x'", "map('rates', paymentType) > 0"]
PREVIOUS_CONDITIONS = [
    "paymentAmount > previous(paymentAmount)",
    "previous(points) is null",
    "eventTime - previous(eventTime) <= 1",
    "paymentType != previous(paymentType) or previous(cardPresent)",
    "previous(transactionId) < transactionId and beneficiaryId = previous(beneficiaryId)",
]
PREVIOUS_LIMITS = ["previous(paymentAmount)", "coalesce(previous(points), 1)"]
ENTITIES = (
    DeclaredEntity("account", (("out", "payeeId"), ("in", "beneficiaryId"))),
    DeclaredEntity("party", (("a", "beneficiaryId"), ("b", "points"), ("c", "payeeId"))),
)
ENTITY_GROUPINGS = [["account"], ["account"], ["paymentType", "account"], ["party"], ["account", "payeeId"]]
REFUSED_GROUPINGS = [["account", "party"], ["account", "account"]]
ROLE_CONDITIONS = [
    "role = 'out'",
    "role = 'in' and paymentAmount >= 1",
    "role != 'out' or cardPresent",
    "role in ('in', 'a', 'b')",
    "substring(role, 1, 1) like 'o%' or points is null",
    "payeeId = beneficiaryId and role = 'in'",
    "role is null",
]
REFUSED_ROLE_CONDITIONS = ["role > 1", "account = 1", "previous(role) = 'in'"]
OWN_LIMITS = [
    "own()",
    "0.8 * own()",
    "own() - paymentAmount",
    "coalesce(own(), 1) / 2",
    "abs(own()) * own() - points",
    "length(paymentType) + round(own(), -1)",
]
ROLE_LIMITS = ["length(role)", "length(role) - 1"]
ZONES = [None, "UTC", "Europe/Berlin", "America/St_Johns", "America/Havana", "Pacific/Apia", "Nowhere/Else"]
BOUNDARIES = [
    "2023-11-15T00:00:00",  # a day in UTC
    "2023-10-29T22:00:00",  # no day at all; an hour later a Monday in Berlin
    "2023-10-29T23:00:00",
    "2024-03-31T01:00:00",  # Berlin goes from 02:00 to 03:00
    "2023-10-31T23:00:00",  # a month in Berlin
    "2006-10-29T02:31:00",  # St. John's goes from 00:01 back to 23:01
    "2006-10-29T02:30:00",
    "2024-11-03T05:00:00",  # Havana goes from 01:00 back to 00:00
    "2011-12-30T10:00:00",  # Apia leaves a day out
]
"""Instants near which calendar windows start, in UTC."""
FIRST_MAPS: list[dict[str, Any]] = [
    {
        "mapName": "rates",
        "mapOperation": "SET",
        "keyType": "long",
        "valueType": "decimal",
        "entries": {"1": "1.50", "2": 2},
    },
    {
        "mapName": "names",
        "mapOperation": "SET",
        "keyType": "string",
        "valueType": "string",
        "entries": {"CSH": "cash", "csh": "x"},
    },
    {
        "mapName": "codes",
        "mapOperation": "SET",
        "keyType": "string",
        "valueType": "decimal",
        "entries": {"CSH": "-1.000001"},
    },
]
FIRST_RULES: list[dict[str, Any]] = [
    {
        "ruleId": 4,
        "ruleState": "SIGNAL",
        "groupingKeyNames": ["beneficiaryId"],
        "aggregatorFunctionType": "COUNT",
        "limitOperatorType": ">=",
        "limit": 2,
        "windowSeconds": 20,
    },
    {
        "ruleId": 5,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payeeId"],
        "aggregatorFunctionType": "MAX",
        "aggregateFieldName": "paymentAmount",
        "limitOperatorType": ">",
        "limit": 1,
        "windowSeconds": 2,
        "cooldownSeconds": 3,
    },
]
"""Rules that the rules of a document can name. A document edits the rules 1 to 3 only."""
_KEYS = {"rates": ["1", "2", "3", "0"], "names": ["CSH", "CRD", "csh"], "codes": ["CSH", "CRD"]}
_VALUES: dict[str, list[Any]] = {
    "rates": ["1.50", 2, "3", "0.000001"],
    "names": ["cash", "x", ""],
    "codes": ["1", "2.5"],
}


@st.composite
def with_features(draw: st.DrawFn, documents: SearchStrategy[dict[str, Any]], features: Features) -> dict[str, Any]:
    """Draw a document and give some of its rules the features."""
    document = draw(documents)
    document = {**document, "steps": [{**step} for step in document["steps"]]}
    if features.resolutions:
        settings = {**document.get("settings", {}), "detailMinutes": draw(st.sampled_from([0, 0, 0, 1, 1440]))}
        document = {**document, "settings": settings}
    long_rules: dict[int, dict[str, Any]] = {}
    for step in document["steps"]:
        if "aggregatorFunctionType" in step.get("rule", {}):
            step["rule"] = draw(_featured(step["rule"], features))
            if features.resolutions:
                step["rule"] = draw(_edited(step["rule"], long_rules))
            if draw(st.integers(0, 19)) < 19:
                step["rule"] = _suited(step["rule"])
        elif features.maps and "listName" in step.get("rule", {}) and draw(st.booleans()):
            step["rule"] = draw(_map_changes())
    if features.maps:
        document = _with_records_first(document, draw(st.sampled_from([FIRST_MAPS] * 5 + [FIRST_MAPS[:1], []])))
    if features.conditions:
        document = _with_records_first(document, FIRST_RULES)
    if features.calendars:
        boundary_ms = epoch_ms(draw(st.sampled_from(BOUNDARIES)))
        document = _moved(document, boundary_ms - draw(st.sampled_from([3000, 0, 1000, 20_000, 60_000])))
    return document


_ANY_FEATURES = st.one_of(st.builds(Features, **dict.fromkeys(Features._fields, st.booleans())), st.just(ALL))


@st.composite
def with_any_features(draw: st.DrawFn, documents: SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """Draw a document with all features, or with some of them, which then collide more often."""
    document: dict[str, Any] = draw(with_features(documents, draw(_ANY_FEATURES)))
    return document


def previous_documents(documents: SearchStrategy[dict[str, Any]] | None = None) -> SearchStrategy[dict[str, Any]]:
    """Documents whose rules read the previous payment, also beside maps, rollouts and calendar windows."""
    features = Features(limits=True, rollout=True, calendars=True, maps=True, previous=True)
    drawn = generated.documents() if documents is None else documents
    return st.one_of(with_features(drawn, Features(limits=True, previous=True)), with_features(drawn, features))


@st.composite
def _featured(draw: st.DrawFn, rule: Mapping[str, Any], features: Features) -> dict[str, Any]:
    """Draw the members of a rule; it may be rejected."""
    found = dict(rule)
    whens = [*(MAP_CONDITIONS * 3 + MISTYPED_MAP_CONDITIONS) * features.maps, *PREVIOUS_CONDITIONS * features.previous]
    limits = _limits(features)
    if limits and draw(st.booleans()):
        found["limit"] = draw(st.sampled_from(limits))
        if draw(st.integers(0, 9)):
            found.pop("baseline", None)
    if whens and draw(st.booleans()):
        found["when"] = draw(st.sampled_from(whens))
    if features.rollout and draw(st.booleans()):
        found["rolloutPercent"] = draw(st.sampled_from([50, 100, 30, "70", 100, 90, 1, 0]))
    if features.calendars and draw(st.booleans()):
        found.pop("baseline", None)
        found = _without_nulls({**found, **draw(_calendars(found.get("windowSeconds", 60)))})
    if features.entities:
        found = draw(_with_entity(found))
    if features.resolutions and draw(st.booleans()):
        found = draw(_with_resolution(found))
    if features.conditions:
        found = draw(_with_conditions(found, features))
    return found


@st.composite
def _with_entity(draw: st.DrawFn, rule: Mapping[str, Any]) -> dict[str, Any]:
    """Draw an entity for most rules, and conditions with the role. A few are rejected."""
    found = dict(rule)
    has_entity = draw(st.integers(0, 3)) > 0
    if has_entity:
        found["groupingKeyNames"] = draw(st.sampled_from(ENTITY_GROUPINGS * 9 + REFUSED_GROUPINGS))
    if has_entity or draw(st.integers(0, 9)) == 9:
        conditions = st.sampled_from([None] + ROLE_CONDITIONS * 4 + REFUSED_ROLE_CONDITIONS)
        for name in ("filter", "when"):
            if draw(st.booleans()):
                found[name] = draw(conditions)
        if "baseline" not in found and draw(st.integers(0, 5)) == 5:
            found["limit"] = draw(st.sampled_from(ROLE_LIMITS))
    return _without_nulls(found)


@st.composite
def _with_resolution(draw: st.DrawFn, rule: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the steps of a window. Few rules are rejected, for their function or for steps longer than the window."""
    found = {name: value for name, value in rule.items() if name not in ("windowCalendar", "zone", "windowMinutes")}
    found["windowSeconds"] = draw(st.sampled_from([3, 2, 20, 1, 60]))
    found["resolutionSeconds"] = draw(st.sampled_from([1, 2, 1, 7]))
    if found["aggregatorFunctionType"] in ("COUNT_DISTINCT", "COUNT_WITH_RESET") and draw(st.integers(0, 9)):
        found["aggregatorFunctionType"] = "SUM"
        found.pop("unique", None)
    if draw(st.booleans()):
        found = {name: value for name, value in found.items() if name not in ("when", "cooldownSeconds")}
        grouping = ["account" if _entities_of(found) else "payeeId"]
        found |= {"limitOperatorType": ">=", "limit": f"-{BIG}", "groupingKeyNames": grouping}
    return found


@st.composite
def _edited(draw: st.DrawFn, rule: dict[str, Any], long_rules: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Draw whether a rule becomes an edit of the last rule with steps that has its id: most edits keep the series."""
    known = long_rules.get(rule["ruleId"])
    if known is not None and draw(st.booleans()):
        kept = ("windowCalendar", "zone", "baseline", "unique", "filter", "resolutionSeconds", "groupingKeyNames")
        changes = {name: value for name, value in rule.items() if name not in kept and "aggregat" not in name}
        rule = {**known, **changes, "windowSeconds": draw(st.sampled_from([20, 3, 60]))}
    if "resolutionSeconds" in rule:
        long_rules[rule["ruleId"]] = rule
    return rule


def _entities_of(rule: Mapping[str, Any]) -> set[str]:
    return {each.name for each in ENTITIES}.intersection(rule["groupingKeyNames"])


def _suited(rule: dict[str, Any]) -> dict[str, Any]:
    """The rule without most of the combinations of members that are rejected."""
    found, conditions = dict(rule), [dict(each) for each in rule.get("conditions", ())]
    has_own = "aggregatorFunctionType" in found
    if not _entities_of(found):
        _remove([found, *conditions], ROLE_CONDITIONS + REFUSED_ROLE_CONDITIONS + ROLE_LIMITS)
    if not has_own or "resolutionSeconds" in found:
        _remove([found, *conditions], PREVIOUS_CONDITIONS + PREVIOUS_LIMITS)
    if not has_own:
        found.pop("resolutionSeconds", None)
    if "resolutionSeconds" in found:
        found["windowSeconds"] = max(found["windowSeconds"], found["resolutionSeconds"])
    if not found["groupingKeyNames"]:
        found.pop("rolloutPercent", None)
    return {**found, "conditions": conditions} if conditions else found


def _remove(parts: Sequence[dict[str, Any]], expressions: Sequence[str]) -> None:
    """Remove these conditions from a rule and its conditions. A limit becomes a number."""
    for part in parts:
        for name in ("filter", "when", "limit"):
            if part.get(name) in expressions:
                del part[name]
                part |= {"limit": "1"} if name == "limit" else {}


def _limits(features: Features) -> list[str]:
    of_maps = MAP_LIMITS * features.maps
    of_previous = PREVIOUS_LIMITS * features.previous
    return [*LIMITS, *of_maps, *of_previous] if features.limits else []


def _calendars(window_s: Any) -> SearchStrategy[dict[str, Any]]:
    """Draw the window of a rule or a condition: mostly one of the calendar. Some are rejected."""
    return st.fixed_dictionaries(
        {
            "windowCalendar": st.sampled_from(["DAY", "DAY", "WEEK", "MONTH"]),
            "zone": st.sampled_from(ZONES),
            "windowSeconds": st.sampled_from([None] * 19 + [window_s]),
        }
    )


@st.composite
def _with_conditions(draw: st.DrawFn, rule: Mapping[str, Any], features: Features) -> dict[str, Any]:
    """Draw conditions, or none, and whether the rule is a signal. A rule mostly names the first rules."""
    found = dict(rule)
    if draw(st.integers(0, 3)) == 3:
        found["ruleState"] = "SIGNAL"
    if draw(st.booleans()):
        return found
    named = st.sampled_from([4, 5, 4, 5, 4, 5, 1, 2]).map(lambda rule_id: {"ruleId": rule_id})
    each = st.one_of(named, _conditions(features)) if features.named_rules else _conditions(features)
    found["conditions"] = draw(st.lists(each, min_size=1, max_size=3, unique_by=str))
    required = draw(st.sampled_from([None, "all", "any", "none", 1, min(len(found["conditions"]), 2)]))
    if draw(st.integers(0, 3)) == 3:
        own = ("aggregateFieldName", "aggregatorFunctionType", "limitOperatorType", "limit", "unique", "baseline")
        found = {
            name: value for name, value in found.items() if name not in own and not name.startswith(("window", "zone"))
        }
    return _without_nulls({**found, "require": required})


@st.composite
def _conditions(draw: st.DrawFn, features: Features) -> dict[str, Any]:
    """Draw a condition that is an aggregate."""
    condition: dict[str, Any] = {
        "aggregatorFunctionType": draw(st.sampled_from(["COUNT", "SUM", "MAX", "AVG", "COUNT_DISTINCT"])),
        "limitOperatorType": draw(st.sampled_from([">=", "<", "!="])),
        "limit": draw(st.sampled_from(["1", "2", "0", *_limits(features), *OWN_LIMITS * (2 * features.own)])),
        "windowSeconds": draw(st.sampled_from([2, 20, 1, 60])),
        "aggregateFieldName": draw(st.sampled_from([None, "paymentAmount", "points"])),
        "filter": draw(st.sampled_from([None, "", "paymentType = 'CSH'", *ROLE_CONDITIONS[:3] * features.entities])),
    }
    if condition["aggregatorFunctionType"] == "COUNT_DISTINCT":
        condition["unique"] = ["beneficiaryId"]
    if features.calendars and draw(st.booleans()):
        condition |= draw(_calendars(1))
    return _without_nulls(condition)


@cache
@st.composite
def _map_changes(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a map record. It may not fit the log before it."""
    name = draw(st.sampled_from(["rates", "rates", "names", "codes"]))
    operation = draw(st.sampled_from(["ADD", "SET", "REMOVE", "ADD", "REMOVE", "DELETE"]))
    record: dict[str, Any] = {"mapName": name, "mapOperation": operation}
    if operation == "REMOVE":
        record["keys"] = draw(st.lists(st.sampled_from(_KEYS[name]), max_size=2))
    elif operation != "DELETE":
        keys, values = st.sampled_from(_KEYS[name]), st.sampled_from(_VALUES[name])
        record["entries"] = draw(st.dictionaries(keys, values, max_size=3))
    if operation == "SET" or draw(st.booleans()):
        first = next(each for each in FIRST_MAPS if each["mapName"] == name)
        record["keyType"] = draw(st.sampled_from([first["keyType"]] * 9 + ["string"]))
        record["valueType"] = draw(st.sampled_from([first["valueType"]] * 9 + ["string"]))
    return record


def _without_nulls(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _with_records_first(document: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The document with more rule records at its start. Pins and the versions of warm-ups move."""
    more = len(records)
    batches = [
        {
            **batch,
            "pin": batch["pin"] + more,
            **(
                {"warmUps": [{**each, "version": each["version"] + more} for each in batch["warmUps"]]}
                if "warmUps" in batch
                else {}
            ),
        }
        for batch in document.get("batches", [])
    ]
    first_ms = document["steps"][0]["at"] if document["steps"] else START_MS
    steps = [*({"at": first_ms, "rule": record} for record in records), *document["steps"]]
    return {**document, "steps": steps, **({"batches": batches} if "batches" in document else {})}


def _moved(document: Mapping[str, Any], start_ms: int) -> dict[str, Any]:
    """The document with all its times moved, so that it starts at another instant."""
    by_ms = start_ms - START_MS
    steps = [{**step, "at": step["at"] + by_ms} for step in document["steps"]]
    for step in steps:
        if "tx" in step:
            step["tx"] = {**step["tx"], "eventTime": step["tx"]["eventTime"] + by_ms}
    return {**document, "steps": steps}
