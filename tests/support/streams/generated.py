"""Generated streams: documents of `fraud streams replay` with every difficult case for a window kernel.

Each stream first draws a small palette (a few aggregates, windows, lags, amounts ...) and then draws only from it, so
that its steps collide: most errors need three rows of one key at the right times (swarm testing, Groce et al. 2012).
Times fall on the limits of windows, lateness, cool-downs and retention. A drawn script is a list of plain tuples.
`_document` lays them out in time, so that Hypothesis can remove a step without a change of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from itertools import permutations
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

START_MS = 1_704_059_997_000
"""Three seconds before a day, a week, a month and a year begin in Athens."""
BIG = "9999999999999999.99"
AGGREGATORS = ["COUNT", "SUM", "COUNT_WITH_RESET", "AVG", "MIN", "MAX", "COUNT_DISTINCT", "STDDEV"]
GROUPINGS = [
    ["payeeId"],
    ["payeeId", "beneficiaryId"],
    ["beneficiaryId"],
    ["paymentType", "payeeId"],
    ["cardPresent"],
    [],
]
FIELDS = ["paymentAmount", "paymentAmount", "paymentAmount", "points", "points", "COUNT_FLINK"]
CONDITIONS = [
    "paymentType = 'CSH'",
    "paymentAmount >= 2",
    "paymentType != 'CRD'",
    "paymentAmount < 2.505",
    "paymentAmount between 0 and 3",
    "paymentAmount > points",
    "points is null",
    "points not in (3, 4)",
    "beneficiaryId in (1, 3)",
    "beneficiaryId is not null",
    "payeeId = beneficiaryId",
    f"eventTime >= {START_MS + 2000}",
    "cardPresent",
    "cardPresent != true",
    "paymentAmount * 2 - points > 1",
    "round(paymentAmount) = paymentAmount",
    "paymentAmount / points >= 0.5",
    "coalesce(points, 3) + 1 in (4, 5)",
    "lower(paymentType) like 'c_h'",
    "weekday(eventTime, 'Europe/Athens') < 4 and minute_of_day(eventTime) between 1 and 1438",
    "(cardPresent or points is null) = (payeeId = 1)",
]
LIMITS = ["1", "2", "0", "1", "2", "3", "2.5", "-1", "1.333333", BIG, "9223372036854775807"]
LIMIT_EXPRESSIONS = [
    "paymentAmount",
    "points",
    "paymentAmount / 3",
    "coalesce(points, paymentAmount) * 1.5",
    "length(paymentType) - points",
    "round(paymentAmount * points, -1)",
]
LIST_CONDITIONS = [
    "beneficiaryId in list('longs')",
    "beneficiaryId not in list('longs')",
    "payeeId not in list('longs')",
    "paymentType in list('texts')",
    "points in list('more')",
]
TYPED_CONDITIONS = [
    "beneficiaryId in list('longs')",
    "payeeId not in list('longs')",
    "paymentType in list('longs')",
    "payeeId in list('texts')",
    "paymentType not in list('texts') or points in list('longs')",
]
CALENDARS = [
    {"windowCalendar": "DAY", "zone": "Europe/Athens"},
    {"windowCalendar": "WEEK", "zone": "Europe/Athens"},
    {"windowCalendar": "MONTH", "zone": "Europe/Athens"},
    {"windowCalendar": "DAY"},
    {"windowCalendar": "MONTH", "zone": "Asia/Kathmandu"},
    {"windowCalendar": "DAY", "windowMinutes": 1},
]
MOMENTS = [
    ("Europe/Berlin", "2024-03-30T23:00Z"),  # the beginning of a day of 23 hours, and its end
    ("Europe/Berlin", "2024-03-31T22:00Z"),
    ("Atlantic/Azores", "2024-03-31T01:00Z"),  # a day begins without its first hour
    ("America/St_Johns", "2006-10-29T02:30Z"),  # a minute of the next day, then the first day again
    ("America/St_Johns", "2010-11-07T02:31Z"),
    ("America/New_York", "2010-11-01T04:00Z"),  # a month that begins on a Monday
    ("Pacific/Apia", "2011-12-30T10:00Z"),  # a Saturday follows a Thursday
]
"""Zones, and moments in which periods of their calendar begin or end."""
UNREADABLE_AMOUNTS = ["6.005", "1e18", "x"]


class Palette(NamedTuple):
    """The values of one stream. Each element of a list has the same probability."""

    steps_ms: list[int]
    lags_ms: list[int]
    repeats: list[int]
    payees: list[int]
    beneficiaries: list[int | None]
    types: list[str | None]
    amounts: list[str | None]
    points: list[int | None]
    presences: list[bool | None]
    aggregators: list[str]
    groupings: list[list[str]]
    windows_s: list[int]
    calendars: list[dict[str, Any] | None]
    operators: list[str]
    limits: list[str]
    states: list[str]
    cooldowns_s: list[int | None]
    filters: list[str | None]
    whens: list[str | None]
    rollouts: list[int | None]


class Tx(NamedTuple):
    """A transaction, `after_ms` after the previous step. `repeats` > 0 reuses the id of that many transactions ago."""

    after_ms: int
    lag_ms: int
    repeats: int
    fields: dict[str, Any]
    partition: int


class RuleRecord(NamedTuple):
    """A record of the rule log. The broker's clock may be `back_ms` behind another broker's clock."""

    after_ms: int
    back_ms: int
    record: dict[str, Any]


class Cut(NamedTuple):
    """A batch: the number of records that it reads per partition, and the number of rule records that it sees first."""

    rows: tuple[int, int]
    rules: int


Step = Tx | RuleRecord | None


def weighted(*choices: tuple[int, SearchStrategy[Any]]) -> SearchStrategy[Any]:
    """Draw one of the strategies by weight; shrinks towards the first."""
    return st.sampled_from([position for position, (weight, _) in enumerate(choices) for _ in range(weight)]).flatmap(
        lambda position: choices[position][1]
    )


def _some(values: Sequence[Any], most: int) -> SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=most)


@cache
def palettes() -> SearchStrategy[Palette]:
    """Draw a few values of each kind, the simplest first; a repeated value has more weight."""
    return st.builds(
        Palette,
        steps_ms=_some([0, 1, 500, 1000, 100, 1001, 250, 500, 1000, 2500, 9000], 4),
        lags_ms=_some([0, 500, 1, 1000, 1001, 2000, 3000, -500, -1000, 7000, -1500], 4).map(lambda lags: [0, *lags]),
        repeats=_some([0, 1, 2, 5], 2).map(lambda repeats: [0, 0, 0, 0, 0, 0, *repeats]),
        payees=_some([1, 2, 3], 2),
        beneficiaries=_some([1, 1, 2, None], 3),
        types=_some(["CSH", "CSH", "CRD", None], 3),
        amounts=_some(["1", "2.50", "1.00", "2", "3", "0", None, "-3", "0.01", "-0.02", BIG, f"-{BIG}"], 4),
        points=_some([1, None, 0, 3, -1, 2**63 - 1, -(2**63)], 3),
        presences=_some([True, False, None], 3),
        aggregators=_some([*AGGREGATORS, "COUNT_WITH_RESET"], 3),
        groupings=_some(GROUPINGS, 2),
        windows_s=_some([2, 3, 1, 20, 60], 3),
        calendars=_some(CALENDARS, 3).map(lambda calendars: [None, None, None, *calendars]),
        operators=_some([">=", ">", ">=", "!=", "<=", "<", "="], 2),
        limits=_some([*LIMITS, *LIMIT_EXPRESSIONS], 3),
        states=_some(["ACTIVE", "SHADOW", "PAUSE"], 2).map(lambda states: ["ACTIVE", "ACTIVE", *states]),
        cooldowns_s=_some([None, None, 1, 3, 60], 2),
        filters=st.lists(_filters(), max_size=2).map(lambda filters: [None, *filters]),
        whens=st.lists(_filters([*CONDITIONS, *LIST_CONDITIONS * 2]), max_size=2).map(
            lambda whens: [None, None, *whens]
        ),
        rollouts=_some([None, None, 50, 90, 20, 100], 2),
    )


def _filters(conditions: Sequence[str] = CONDITIONS) -> SearchStrategy[str]:
    """Draw a filter with any connectives, three-valued on the nullable fields."""
    return st.recursive(
        st.sampled_from(conditions),
        lambda inner: st.one_of(
            inner.map(lambda a: f"not ({a})"),
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda x: f"({x[0]}) {x[1]} ({x[2]})"),
        ),
        max_leaves=3,
    )


@st.composite
def rules(draw: st.DrawFn, palette: Palette) -> dict[str, Any]:
    """Draw a rule whose limit is near the aggregates of short windows; sometimes a rule that is rejected."""
    rule: dict[str, Any] = {
        "ruleId": draw(st.sampled_from([1, 1, 2, 3])),
        "ruleState": draw(st.sampled_from(palette.states)),
        "groupingKeyNames": draw(st.sampled_from(palette.groupings)),
        "aggregatorFunctionType": draw(st.sampled_from(palette.aggregators)),
        "aggregateFieldName": draw(st.sampled_from(FIELDS)),
        "unique": [],
        "limitOperatorType": draw(st.sampled_from(palette.operators)),
        "limit": draw(st.sampled_from(palette.limits)),
        "windowSeconds": draw(st.sampled_from(palette.windows_s)),
        "filter": draw(st.sampled_from(palette.filters)),
        "cooldownSeconds": draw(st.sampled_from(palette.cooldowns_s)),
        "when": draw(st.sampled_from(palette.whens)),
        "rolloutPercent": draw(st.sampled_from(palette.rollouts)),
        "baseline": draw(_baselines(palette)) if draw(st.integers(0, 2)) == 2 else None,
        "weight": draw(st.sampled_from([None, None, 0, 10, 50, 1000])),
        "severity": draw(st.sampled_from([None, "low", "medium", "high", "critical", "odd"])),
    }
    if rule["baseline"] is None and (calendar := draw(st.sampled_from(palette.calendars))) is not None:
        rule |= {"windowSeconds": None, **calendar}
    if rule["aggregatorFunctionType"] == "STDDEV" and rule["aggregateFieldName"] == "COUNT_FLINK":
        rule["aggregateFieldName"] = "points"
    if rule["aggregatorFunctionType"] == "COUNT_DISTINCT":
        rule["unique"] = draw(st.sampled_from([["beneficiaryId"], ["paymentType"], ["beneficiaryId", "points"]]))
    if rule["baseline"] is not None:
        _suit_baseline(rule)
    if draw(st.integers(0, 29)) == 29:
        rule["limitOperatorType"] = "about"
    return {name: value for name, value in rule.items() if value is not None}


def _baselines(palette: Palette) -> SearchStrategy[dict[str, Any]]:
    """Draw a baseline. Some do not suit every rule, which is then rejected."""
    members = {
        "windowSeconds": st.sampled_from(palette.windows_s),
        "aggregatorFunctionType": st.sampled_from(["AVG", "SUM", None, "COUNT", "MIN", "MAX"]),
        "aggregateFieldName": st.sampled_from([None, None, None, "paymentAmount", "points", "COUNT_FLINK"]),
        "filter": st.sampled_from([None, "", *[each for each in palette.filters if each]]),
        "minCount": st.sampled_from([None, None, "1", 2, 3]),
        "deviations": st.sampled_from([None, None, False, True]),
    }
    return st.fixed_dictionaries(members).map(
        lambda drawn: {name: value for name, value in drawn.items() if value is not None}
    )


def _suit_baseline(rule: dict[str, Any]) -> None:
    """Change most combinations of rule and baseline that are rejected."""
    if rule["limit"] in LIMIT_EXPRESSIONS:
        rule["limit"] = "2"
    if rule["aggregatorFunctionType"] in ("COUNT_WITH_RESET", "COUNT_DISTINCT", "STDDEV"):
        rule["aggregatorFunctionType"] = "MAX" if rule["aggregateFieldName"] == "points" else "SUM"
        rule["unique"] = []
    if rule["baseline"].get("deviations"):
        rule["baseline"]["aggregatorFunctionType"] = "AVG"
        if rule["aggregatorFunctionType"] in ("SUM", "COUNT"):
            rule["aggregatorFunctionType"] = "MAX"
        rule["limit"] = rule["limit"].lstrip("-")
        rule["limitOperatorType"] = {"=": ">", "!=": "<"}.get(rule["limitOperatorType"], rule["limitOperatorType"])


@cache
def _controls() -> SearchStrategy[dict[str, Any]]:
    """Draw a delete, a clear, or an export."""
    control = st.sampled_from(["CLEAR_STATE_ALL", "DELETE_RULES_ALL", "CLEAR_STATE_ALL_STOP", "EXPORT_RULES_CURRENT"])
    return st.one_of(
        st.integers(1, 3).map(lambda rule_id: {"ruleId": rule_id, "ruleState": "DELETE"}),
        control.map(lambda name: {"ruleState": "CONTROL", "controlType": name}),
    )


@cache
@st.composite
def _list_changes(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a list record. It may not fit the log before it."""
    name, kind = draw(st.sampled_from([("longs", "long"), ("longs", "long"), ("texts", "string"), ("more", "long")]))
    values = [1, 2, 3] if kind == "long" else ["CSH", "CRD"]
    operation = draw(st.sampled_from(["SET", "ADD", "REMOVE", "ADD", "REMOVE", "DELETE"]))
    record: dict[str, Any] = {"listName": name, "listOperation": operation}
    if operation != "DELETE":
        record["values"] = draw(st.lists(st.sampled_from(values), max_size=3))
    if operation == "SET" or draw(st.booleans()):
        record["listType"] = draw(st.sampled_from([kind] * 9 + ["string", "long"]))
    return record


@cache
@st.composite
def _typed_list_changes(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a list record that often gives a list another type, if no rule uses the list."""
    name, kind = draw(st.sampled_from(["longs", "texts"])), draw(st.sampled_from(["long", "string"]))
    operation = draw(st.sampled_from(["SET", "SET", "SET", "ADD", "REMOVE", "DELETE"]))
    record: dict[str, Any] = {"listName": name, "listOperation": operation}
    if operation != "DELETE":
        record["values"] = draw(st.lists(st.sampled_from([1, 2, 3] if kind == "long" else ["CSH", "1"]), max_size=3))
        record["listType"] = kind
    return record


_FIRST_LISTS = [
    {"listName": "longs", "listOperation": "SET", "listType": "long", "values": [1, 3]},
    {"listName": "texts", "listOperation": "SET", "listType": "string", "values": ["CSH"]},
]


def _transactions(palette: Palette, partitions: int) -> SearchStrategy[Tx]:
    """Draw a transaction of one of a few keys. Most have a new id, a few are unreadable."""
    fields = st.fixed_dictionaries(
        {
            "payeeId": st.sampled_from(palette.payees),
            "beneficiaryId": st.sampled_from(palette.beneficiaries),
            "paymentType": st.sampled_from(palette.types),
            "paymentAmount": weighted((40, st.sampled_from(palette.amounts)), (1, st.sampled_from(UNREADABLE_AMOUNTS))),
            "points": st.sampled_from(palette.points),
            "cardPresent": st.sampled_from(palette.presences),
        }
    )
    steps_ms, lags_ms = st.sampled_from(palette.steps_ms), st.sampled_from(palette.lags_ms)
    return st.builds(Tx, steps_ms, lags_ms, st.sampled_from(palette.repeats), fields, st.integers(0, partitions - 1))


def _rule_records(palette: Palette, content: SearchStrategy[dict[str, Any]]) -> SearchStrategy[RuleRecord]:
    """Draw a rule record some time after the previous step."""
    return st.builds(RuleRecord, st.sampled_from(palette.steps_ms), st.sampled_from([0, 0, 0, 700]), content)


@st.composite
def documents(draw: st.DrawFn, partitions: int = 2, cut: bool = True, past: bool = False) -> dict[str, Any]:
    """Draw a document of up to 60 steps over `partitions` partitions; with `cut`, in batches with their own pins.

    With `past`, some transactions come before the first rule, in a batch of their own.
    It spans less than ten minutes, because the engine keeps a superseded epoch for ten minutes.
    """
    palette = draw(palettes())
    tx, rule = _transactions(palette, partitions), _rule_records(palette, rules(palette))
    control = _rule_records(palette, _controls())
    change = _rule_records(palette, _list_changes())
    step: SearchStrategy[Step] = weighted((2, st.none()), (36, tx), (4, rule), (3, change), (1, control))
    lists = [RuleRecord(0, 0, record) for record in draw(st.sampled_from([_FIRST_LISTS, _FIRST_LISTS[:1], []]))]
    first = draw(st.lists(rule, min_size=1, max_size=3))
    before: list[Tx] = draw(st.lists(tx, min_size=4, max_size=16)) if past else []
    steps: list[Step] = [*lists, *before, *first, *draw(st.lists(step, min_size=16, max_size=57))]
    document = _document(steps)
    document["keyGroups"] = draw(st.sampled_from([1, 3]))
    document["settings"] = {
        "maxOutOfOrdernessMs": draw(st.sampled_from([1000, 0, 500, 2000, 60_000])),
        "futureToleranceMs": draw(st.sampled_from([300_000, 1000])),
    }
    if cut:
        batch = st.builds(
            Cut, st.tuples(st.integers(0, 9), st.integers(0, 9)), st.sampled_from([99, 99, 99, 99, 0, 1, 2, 3])
        )
        cuts = draw(st.lists(batch, max_size=12))
        if before:
            read = [sum(each.partition == number for each in before) for number in (0, 1)]
            cuts = [Cut((read[0], read[1]), len(lists)), *cuts]
        document["batches"] = _batches(document, cuts, partitions)
    return document


@st.composite
def changing_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a document whose rules and lists change between the transactions of one batch, or of a few.

    Rules end, begin again and move to another grouping. Lists change their type as soon as no rule uses them.
    """
    palette = draw(palettes())
    palette = palette._replace(
        groupings=draw(_some(GROUPINGS, 3)), whens=[*draw(_some(TYPED_CONDITIONS, 4)), None], filters=[None]
    )
    tx, rule = _transactions(palette, 2), _rule_records(palette, rules(palette))
    change = _rule_records(palette, _typed_list_changes())
    delete = _rule_records(palette, st.integers(1, 3).map(lambda rule_id: {"ruleId": rule_id, "ruleState": "DELETE"}))
    control = _rule_records(palette, _controls())
    step: SearchStrategy[Step] = weighted((1, st.none()), (8, tx), (5, rule), (5, change), (3, delete), (1, control))
    document = _document(draw(st.lists(step, min_size=12, max_size=50)))
    document["keyGroups"] = draw(st.sampled_from([1, 3]))
    document["settings"] = {"maxOutOfOrdernessMs": draw(st.sampled_from([1000, 60_000])), "futureToleranceMs": 300_000}
    rows = st.tuples(st.integers(0, 9), st.integers(0, 9))
    cuts = draw(st.lists(st.builds(Cut, rows, st.sampled_from([99, 0, 3])), max_size=2))
    document["batches"] = _batches(document, cuts, 2)
    return document


@st.composite
def calendar_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a document around a moment in which a period of some zone begins or ends. Most windows are calendar windows
    of this zone."""
    document = draw(documents())
    zone, moment = draw(st.sampled_from(MOMENTS))
    begins_ms = round(datetime.fromisoformat(moment).timestamp() * 1_000) - draw(st.sampled_from([3_000, 0, 40_000]))
    for step in document["steps"]:
        step["at"] += begins_ms - START_MS
        if "tx" in step:
            step["tx"]["eventTime"] += begins_ms - START_MS
        elif "groupingKeyNames" in step["rule"] and "baseline" not in step["rule"] and draw(st.integers(0, 3)):
            rule = {
                name: value for name, value in step["rule"].items() if name not in ("windowSeconds", "windowMinutes")
            }
            step["rule"] = {**rule, "windowCalendar": draw(st.sampled_from(["DAY", "WEEK", "MONTH"])), "zone": zone}
    return document


def documents_of_every_order() -> Iterator[dict[str, Any]]:
    """Yield a document for each order of five changes of a rule and a list, with a transaction after each change. One
    batch reads all of it.

    The list has either type, and the rule uses it as either type, in two groupings that have another rule.
    """
    rule = {"ruleId": 1, "ruleState": "ACTIVE", "aggregatorFunctionType": "COUNT", "limitOperatorType": ">="}
    rule |= {"aggregateFieldName": "COUNT_FLINK", "limit": 1, "windowSeconds": 60}
    of_list = {"listName": "known", "listOperation": "SET"}
    changes = [
        {**of_list, "listType": "long", "values": [1]},
        {**of_list, "listType": "string", "values": ["CSH", "1"]},
        {**rule, "groupingKeyNames": ["payeeId"], "when": "payeeId in list('known')"},
        {**rule, "groupingKeyNames": ["paymentType"], "when": "paymentType in list('known')"},
        {"ruleId": 1, "ruleState": "DELETE"},
    ]
    fields = {"payeeId": 1, "beneficiaryId": 1, "paymentType": "CSH", "paymentAmount": "1", "points": 1}
    others = [
        {**rule, "ruleId": 2 + n, "groupingKeyNames": [name]} for n, name in enumerate(["payeeId", "paymentType"])
    ]
    for order in permutations(changes):
        steps = [step for each in order for step in (RuleRecord(9, 0, each), Tx(9, 0, 0, fields, 0))]
        yield _document([*(RuleRecord(0, 0, each) for each in others), *steps])


@st.composite
def warmed_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a document in which most rules request a warm-up, and later batches add the requested histories.

    A job reads only transactions that the detector has read.
    """
    document = draw(documents(past=True))
    rules = [step["rule"] for step in document["steps"] if "rule" in step]
    for rule in rules:
        if "groupingKeyNames" in rule and draw(st.integers(0, 3)):
            rule["warmUp"] = True
    ends: dict[str, int] = {}
    done: set[int] = set()
    for batch in document["batches"]:
        for version in range(batch["pin"]):
            if version not in done and rules[version].get("warmUp") and draw(st.integers(0, 5)):
                done.add(version)
                batch.setdefault("warmUps", []).append({"version": version, "ends": ends})
        ends = batch["offsets"]["transactions"]
    return document


def cuts_only(document: dict[str, Any], ends: Sequence[int]) -> dict[str, Any]:
    """Cut a stream of one partition at these transactions; every batch sees every rule."""
    pin = sum("rule" in step for step in document["steps"])
    last = sum("tx" in step for step in document["steps"])
    bounds = sorted({*(min(end, last) for end in ends), last})
    return {**document, "batches": [{"offsets": {"transactions": {"0": end}}, "pin": pin} for end in bounds]}


def in_order(document: dict[str, Any]) -> dict[str, Any]:
    """Reorder the stream: one partition, each transaction once, with its append time as event time."""
    steps, ids = [], 0
    for step in document["steps"]:
        if "tx" not in step:
            steps.append(step)
            continue
        ids += 1
        steps.append({"at": step["at"], "tx": {**step["tx"], "transactionId": ids, "eventTime": step["at"]}})
    steps.sort(key=lambda step: step["at"])
    return {name: value for name, value in document.items() if name != "batches"} | {"steps": steps}


def _document(steps: Sequence[Step]) -> dict[str, Any]:
    """Lay the steps out in time. Transaction ids count up, unless a step repeats an earlier id."""
    now_ms, ids = START_MS, [1]
    laid: list[dict[str, Any]] = []
    for step in steps:
        if step is None:
            continue
        now_ms += step.after_ms
        if isinstance(step, RuleRecord):
            laid.append({"at": now_ms - step.back_ms, "rule": step.record})
            continue
        ids.append(ids[-step.repeats] if 0 < step.repeats < len(ids) else max(ids) + 1)
        fields = {name: value for name, value in step.fields.items() if value is not None}
        laid.append({"at": now_ms, "tx": {"transactionId": ids[-1], "eventTime": now_ms - step.lag_ms, **fields}})
        if step.partition:
            laid[-1]["partition"] = step.partition
    return {"steps": laid}


def _batches(document: dict[str, Any], cuts: Sequence[Cut], partitions: int) -> list[dict[str, Any]]:
    """Compute the recorded cuts. Offsets and pin only grow; the last batch reads every record and sees every rule."""
    lengths = [sum("tx" in s and s.get("partition", 0) == p for s in document["steps"]) for p in range(partitions)]
    rules_end = sum("rule" in step for step in document["steps"])
    ends, pin = [0] * partitions, 0
    batches: list[dict[str, Any]] = []
    for cut in [*cuts, Cut((99, 99), 99)]:
        ends = [min(end + more, length) for end, more, length in zip(ends, cut.rows, lengths, strict=False)]
        pin = min(pin + cut.rules, rules_end)
        batches.append({"offsets": {"transactions": {str(p): end for p, end in enumerate(ends)}}, "pin": pin})
    return batches
