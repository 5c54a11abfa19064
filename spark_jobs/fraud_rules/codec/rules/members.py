"""Reads the members of a rule, checks each against its type and bounds, and collects the reasons for a rejection."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import TypeVar

from fraud_rules.codec.rules.collections.records import SOURCE_NAME
from fraud_rules.codec.rules.filter import parse_filter, parse_number
from fraud_rules.codec.rules.json import UnusableNumber
from fraud_rules.codec.rules.numbers import MAX_RULE_ID, decimal_of, digits_of
from fraud_rules.errors import Reason, RuleRejected
from fraud_rules.model.aggregate import LEVELS, SUMMABLE, AggregateFunction, AggregateInput
from fraud_rules.model.decision import MAX_WEIGHT, weight_of
from fraud_rules.model.documents.rules import RuleDocument, members_of
from fraud_rules.model.expressions.expression import NO_DIGITS, Digits, Expression, FieldRef
from fraud_rules.model.expressions.local_time import UTC_ZONE
from fraud_rules.model.expressions.own import own_digits
from fraud_rules.model.expressions.predicate import Predicate
from fraud_rules.model.expressions.rollout import ALL_KEYS, Rollout
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Operator, RuleAction
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.model.window import Calendar, Window
from fraud_rules.runtime.safe_text import describe_value, quote
from fraud_rules.runtime.zones import is_zone

T = TypeVar("T")

MEMBERS = (*members_of(RuleDocument), "controlType")
"""The members that a record may have: those of a rule, and that of a control."""

REMARKS = ("name", "description", "severity", "owner")
"""The members for display. They do not affect the evaluation; `severity` sets the default of `weight`."""

_OPERATORS = {key: operator for operator in Operator for key in (operator.value, operator.name)}
_FUNCTIONS = {function.value: function for function in AggregateFunction}
_OF_UNIQUE = tuple(each for each in AggregateFunction if each.traits.input is AggregateInput.UNIQUE)
_CALENDARS = {calendar.value: calendar for calendar in Calendar}
_ACTIONS = {action.value: action for action in RuleAction}
_REQUIRED = ("all", "any", "none")
_COUNT_FIELDS = {"COUNT_FLINK": AggregateFunction.COUNT, "COUNT_WITH_RESET_FLINK": AggregateFunction.COUNT_WITH_RESET}
_MAX_RESOLUTION_SECONDS = 86_400
_MAX_REASONS = 50
_MAX_SUGGESTIONS = 5


class MemberReader:
    """Typed access to a document's members. For an invalid member, a method records a reason, and returns None or the
    value of an absent member."""

    def __init__(
        self,
        document: Mapping[str, object],
        schema: TransactionSchema,
        limits: RuleLimits,
        reasons: list[Reason],
        within: str = "",
        inherited: Collection[str] = (),
        of_expressions: TransactionSchema | None = None,
    ) -> None:
        """`of_expressions` has the fields that expressions may name; the grouping of the document determines it."""
        self._document = document
        self._schema = schema
        self._of_expressions = of_expressions or schema.of_expressions(_texts(document.get("groupingKeyNames")))
        self._limits = limits
        self._reasons = reasons
        self._within = within
        self._inherited = inherited

    @property
    def reasons(self) -> list[Reason]:
        """The reasons for a rejection in order, each once. Their number is bounded."""
        return list(dict.fromkeys(self._reasons))[:_MAX_REASONS]

    def nested(self, name: str, inherited: Collection[str]) -> MemberReader | None:
        """The reader of a member that is an object; None if it is absent or no object.

        The object inherits the `inherited` members that it does not have. The reader has its own reasons.
        """
        value = self._document.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.reject(name, f"must be an object, not {describe_value(value)}")
            return None
        return self._within_member(name, value, inherited)

    def conditions(self, inherited: Collection[str]) -> list[MemberReader]:
        """The readers of `conditions`, a list of objects, as `nested` gives them; empty if it is absent or invalid."""
        name, most = "conditions", self._limits.max_conditions
        values = self._document.get(name)
        if values is None:
            return []
        if not isinstance(values, list) or not 1 <= len(values) <= most:
            self.reject(name, f"must be a list of 1 to {most} objects")
            return []
        for i, value in enumerate(values):
            if not isinstance(value, dict):
                self.reject(f"{name}[{i}]", f"must be an object, not {describe_value(value)}")
        objects = [(i, value) for i, value in enumerate(values) if isinstance(value, dict)]
        return [self._within_member(f"{name}[{i}]", value, inherited) for i, value in objects]

    def _within_member(self, name: str, members: Mapping[str, object], inherited: Collection[str]) -> MemberReader:
        given = {each: value for each, value in members.items() if value is not None}
        found = {each: self._document[each] for each in inherited if each in self._document and each not in given}
        document, within = {**found, **given}, f"{name}."
        return MemberReader(document, self._schema, self._limits, [], within, found.keys(), self._of_expressions)

    def has(self, name: str) -> bool:
        """Whether the document has a member, also with an empty value."""
        return name in self._document

    def has_any(self, names: Collection[str]) -> bool:
        """Whether the document has one of the members, with more than an empty list."""
        return any(self._document.get(name, []) != [] for name in names)

    def add_reasons(self, nested: MemberReader) -> None:
        """Add the reasons of a nested reader, except those of inherited members that this reader has rejected."""
        for reason in nested.reasons:
            name = reason.field.removeprefix(nested._within)
            if name not in nested._inherited or not self.has_reason(name):
                self._reasons.append(reason)

    def has_reason(self, name: str) -> bool:
        """Whether a member has been rejected."""
        return any(reason.field == self._within + name for reason in self._reasons)

    def reject_unknown(self, known: Collection[str] = MEMBERS) -> None:
        """Reject unknown members, and suggest the member with the most similar name."""
        unknown = [name for name in self._document if name not in known]
        for position, name in enumerate(unknown):
            similar = difflib.get_close_matches(name[:40], known, n=1) if position < _MAX_SUGGESTIONS else []
            suggestion = f"; did you mean {similar[0]}?" if similar else ""
            kind = self._within.partition("[")[0].rstrip(".s") or "rule"
            self.reject(quote(name).strip("'"), f"is not a member of a {kind}{suggestion}")

    def reject_beside(self, name: str) -> None:
        """Reject a member if the document has others, apart from inherited ones."""
        others = [each for each in self._document if each != name and each not in self._inherited]
        if others:
            self.reject(name, f"cannot be beside {quote(others[0])}")

    def rule_id(self) -> int | None:
        """`ruleId`, a positive 64-bit integer."""
        return self.integer("ruleId", 1, MAX_RULE_ID, required=True)

    def grouping(self) -> tuple[str, ...] | None:
        """`groupingKeyNames` as sorted canonical names. An empty grouping has one key that all transactions share."""
        if "groupingKeyNames" not in self._document:
            self.reject("groupingKeyNames", "is required: declared fields, or [] for one key for all transactions")
            return None
        entities = [each.name for each in self._schema.entities]
        names = self._names("groupingKeyNames", self._schema.key_name, entities)
        named = [name for name in names if name in entities]
        if len(named) > 1:
            self.reject("groupingKeyNames", f"has the entities {' and '.join(named)}; one is allowed")
        return None if self.has_reason("groupingKeyNames") else names

    def aggregate_function(self) -> AggregateFunction | None:
        """`aggregatorFunctionType`, or the count that `aggregateFieldName` names.

        A level, such as AVG, treats COUNT_FLINK as a field that is 1 in every row.
        """
        field = self._document.get("aggregateFieldName")
        named = self.choice("aggregatorFunctionType", _FUNCTIONS, required=True)
        counted = _COUNT_FIELDS.get(field) if isinstance(field, str) else None
        if counted is None or named is None or not named.needs_field:
            return named
        if counted is AggregateFunction.COUNT and named in LEVELS:
            return named
        if named is not AggregateFunction.SUM:
            *others, last = AggregateFunction.SUM, *(LEVELS if counted is AggregateFunction.COUNT else ())
            allowed = f"{', '.join(others)} or {last}".removeprefix(" or ")
            self.reject("aggregatorFunctionType", f"must be {allowed} if aggregateFieldName is {field}")
        return counted

    def aggregate_field(self, function: AggregateFunction | None) -> str | None:
        """`aggregateFieldName` as a canonical name; None for the counts, which ignore it, and for COUNT_FLINK."""
        value = self._document.get("aggregateFieldName")
        if value is not None and not isinstance(value, str):
            self.reject("aggregateFieldName", f"must be a field's name, not {describe_value(value)}")
        if function is None or not function.needs_field or not isinstance(value, str | None):
            return None
        if value in _COUNT_FIELDS:
            return None
        numeric = [field.name for field in self._schema.fields if field.numeric]
        field = None if value is None else self._schema.field(value)
        if field is None or not field.numeric:
            got = "is required" if value is None else f"is {describe_value(value)}"
            self.reject("aggregateFieldName", f"{got}; {function} needs a number: one of {', '.join(numeric)}")
            return None
        return field.name

    def own_digits(self, function: AggregateFunction | None, name: str | None) -> Digits:
        """The digits of an aggregate of a field."""
        field = None if name is None else self._schema.field(name)
        one = Digits(1, 0) if field is None else FieldRef(field.name, field.type, field.scale, field.precision).digits
        return NO_DIGITS if function is None else own_digits(function, one)

    def unique(self, function: AggregateFunction | None) -> tuple[str, ...]:
        """`unique` as sorted canonical names; required for COUNT_DISTINCT, otherwise empty."""
        names = self._names("unique", self._field_name)
        if function in _OF_UNIQUE:
            if not names and not self.has_reason("unique"):
                self.reject("unique", f"is required with {function}: the fields whose distinct values are counted")
        elif names and function is not None:
            self.reject("unique", f"is for {', '.join(_OF_UNIQUE)} only; leave it empty with {function}")
        return names

    def operator(self) -> Operator | None:
        """`limitOperatorType`, by symbol or name."""
        return self.choice("limitOperatorType", _OPERATORS, required=True)

    def limit(self, own: Digits | None = None) -> Decimal | Expression | None:
        """`limit` as an exact number without an exponent and without a negative zero, which may be text; or the
        expression of a text that is no number. `own` has the digits of the rule's own aggregate, if the expression may
        read it."""
        value = self._document.get("limit")
        if value is None:
            self.reject("limit", "is required")
            return None
        number = decimal_of(value)
        if number is None and isinstance(value, str) and value.strip():
            return self._parsed("limit", value, partial(parse_number, own=own))
        if number is None:
            self.reject("limit", f"must be a decimal number or an expression, not {describe_value(value)}")
        elif digits_of(number) > self._limits.max_limit_digits:
            self.reject("limit", f"has more than {self._limits.max_limit_digits} digits")
        else:
            return Decimal(format(number, "f")) if number else Decimal(0)
        return None

    def window(self) -> Window | None:
        """`windowCalendar`, or else `window_ms`, with the steps of `resolutionSeconds`."""
        if "windowCalendar" not in self._document:
            if "zone" in self._document:
                self.reject("zone", "is for windowCalendar only")
            step_ms, length_ms = self.step_ms(), self.window_ms(self.longest_minutes)
            return None if length_ms is None or step_ms is None else Window(length_ms, step_ms=step_ms)
        if "resolutionSeconds" in self._document:
            self.reject("resolutionSeconds", "is for windowMinutes and windowSeconds only")
        others = [name for name in ("windowMinutes", "windowSeconds") if name in self._document]
        if others:
            self.reject("windowCalendar", f"is given beside {others[0]}; give one of the two")
        calendar, zone = self.choice("windowCalendar", _CALENDARS), self._text("zone")
        longest = Calendar(self._limits.max_calendar_window)
        if calendar is not None and calendar.reach_ms > longest.reach_ms:
            self.reject("windowCalendar", f"must be at most {longest}, not {calendar}")
        if zone is not None and not is_zone(zone):
            self.reject("zone", f"must be a time zone such as Europe/Berlin, not {quote(zone)}")
            return None
        return None if calendar is None else Window.of_calendar(calendar, zone or UTC_ZONE)

    def step_ms(self) -> int | None:
        """`resolutionSeconds`: the steps of a long window, 1 ms for any other window."""
        if "resolutionSeconds" not in self._document:
            return 1
        seconds = self.integer("resolutionSeconds", 1, _MAX_RESOLUTION_SECONDS)
        return None if seconds is None else seconds * 1_000

    @property
    def longest_minutes(self) -> int:
        """The longest window, which depends on `resolutionSeconds`."""
        is_long = "resolutionSeconds" in self._document
        return self._limits.max_long_window_minutes if is_long else self._limits.max_window_minutes

    def window_ms(self, longest: int) -> int | None:
        """`windowMinutes` or `windowSeconds`, of at most `longest` minutes; exactly one of the two."""
        minutes = self.integer("windowMinutes", 1, longest)
        seconds = self.integer("windowSeconds", 1, longest * 60)
        present = [name for name in ("windowMinutes", "windowSeconds") if name in self._document]
        if len(present) == 2:
            self.reject("windowSeconds", "is given beside windowMinutes; give one of the two")
        elif not present:
            others = "windowSeconds" if self._within == "baseline." else "windowSeconds or windowCalendar"
            self.reject("windowMinutes", f"is required (or {others})")
        if minutes is not None:
            return minutes * 60_000
        return None if seconds is None else seconds * 1_000

    def cooldown_ms(self) -> int | None:
        """`cooldownSeconds`, or None for no cool-down."""
        seconds = self.integer("cooldownSeconds", 1, self._limits.max_cooldown_seconds)
        return None if seconds is None else seconds * 1_000

    def action(self) -> RuleAction:
        """`action`; the default is `ALERT`."""
        return self.choice("action", _ACTIONS) or RuleAction.ALERT

    def weight(self) -> int:
        """`weight`, from 0 to 1000; the default depends on `severity`."""
        return weight_of(self.integer("weight", 0, MAX_WEIGHT), self._document.get("severity"))

    def filter(self) -> Predicate | None:
        """`filter` as a typed tree; None without a filter. An empty text is none, also in an object whose rule has a
        filter."""
        return None if self._document.get("filter") == "" else self._predicate("filter")

    def when(self) -> Predicate | None:
        """`when` as a typed tree; None for a rule that evaluates the transactions that pass its filter."""
        return self._predicate("when")

    def _predicate(self, name: str) -> Predicate | None:
        text = self._text(name)
        return None if text is None else self._parsed(name, text, parse_filter)

    def _parsed(self, name: str, text: str, parse: Callable[[str, TransactionSchema, RuleLimits, str], T]) -> T | None:
        try:
            return parse(text, self._of_expressions, self._limits, self._within + name)
        except RuleRejected as rejected:
            self._reasons.extend(rejected.reasons)
            return None

    def rollout(self, rule_id: int | None, grouping: tuple[str, ...] | None) -> Rollout | None:
        """`rolloutPercent`, from 1 to 100, for the keys of a rule; None for all keys."""
        percent = self.integer("rolloutPercent", 1, ALL_KEYS)
        if percent is None or rule_id is None or grouping is None:
            return None
        if not grouping:
            self.reject("rolloutPercent", "needs groupingKeyNames, because it selects a share of the keys")
        rows = self._schema.of_rows(grouping)
        fields = [field for name in grouping if (field := rows.field(name))]
        key = tuple(FieldRef(each.name, each.type, each.scale, each.precision) for each in fields)
        return None if percent == ALL_KEYS else Rollout(rule_id, percent, key)

    def roles(self, grouping: tuple[str, ...]) -> int:
        """The largest number of rows that a transaction has in the grouping."""
        entity = self._schema.entity_of(grouping)
        return 1 if entity is None else len(entity.roles)

    def check_reach(self, reach_ms: int) -> None:
        """Check that window and baseline together are not longer than the longest window."""
        longest = self.longest_minutes
        if reach_ms > longest * 60_000:
            self.reject("baseline", f"and the window are longer than {longest} minutes together")

    def required(self, conditions: int) -> int:
        """`require` as the least number of the `conditions` that must hold; 0 if none may hold."""
        value = self._document.get("require", "all")
        if not self.has("conditions"):
            if self.has("require"):
                self.reject("require", "is for a rule with conditions only")
            return 0
        if isinstance(value, str) and value in _REQUIRED:
            return {"all": conditions, "any": 1, "none": 0}[value]
        if type(value) is int and 1 <= value <= conditions:
            return value
        if conditions:
            allowed = f"{', '.join(_REQUIRED)}, or a number from 1 to {conditions}"
            self.reject("require", f"must be {allowed}, not {describe_value(value)}")
        return conditions

    def check_steps(self, function: AggregateFunction, window: Window, reach_ms: int) -> None:
        """Check what a long window says about the function, and the number of its steps, those of a baseline among
        them."""
        if not window.is_long:
            return
        if function not in SUMMABLE:
            self.reject("resolutionSeconds", f"needs one of {', '.join(SUMMABLE)}, not {function}")
        if window.step_ms > window.reach_ms:
            self.reject("resolutionSeconds", "is longer than the window")
        if reach_ms > self._limits.max_steps * window.step_ms:
            self.reject("resolutionSeconds", f"divides the window into more than {self._limits.max_steps} steps")

    @property
    def detail_ms(self) -> int:
        """How long a rule with a long window keeps single rows."""
        return self._limits.detail_minutes * 60_000

    def source(self) -> str | None:
        """`source`, the name of the tool that wrote the record."""
        text = self._text("source")
        if text is not None and not SOURCE_NAME.fullmatch(text):
            self.reject("source", f"must be a short lower-case word such as seed, ui, cli or cdc, not {quote(text)}")
        return text

    def check_remarks(self) -> None:
        """Check the members that the detector does not use: those for display, and `controlType`, which must be
        absent."""
        for name in REMARKS:
            text = self._text(name)
            if text is not None and len(text) > self._limits.max_text_chars:
                self.reject(name, f"has {len(text)} characters, at most {self._limits.max_text_chars} are allowed")
        if "controlType" in self._document:
            self.reject("controlType", "is for ruleState CONTROL only")

    def flag(self, name: str) -> bool:
        """A member that is true, false or absent (false)."""
        value = self._document.get(name, False)
        if not isinstance(value, bool):
            self.reject(name, f"must be true or false, not {describe_value(value)}")
            return False
        return value

    def choice(self, name: str, choices: Mapping[str, T], *, required: bool = False) -> T | None:
        """A member with a fixed set of values; None if it is absent or has another value."""
        value = self._document.get(name)
        if value is None:
            if required:
                self.reject(name, f"is required: one of {', '.join(choices)}")
            return None
        found = choices.get(value) if isinstance(value, str) else None
        if found is None:
            self.reject(name, f"must be one of {', '.join(choices)}, not {describe_value(value)}")
        return found

    def _text(self, name: str) -> str | None:
        value = self._document.get(name)
        if value is None or isinstance(value, str):
            return value
        self.reject(name, f"must be text, not {describe_value(value)}")
        return None

    def integer(self, name: str, low: int, high: int, *, required: bool = False) -> int | None:
        """A whole number within bounds; None if it is absent or invalid."""
        value = self._document.get(name)
        if value is None:
            if required:
                self.reject(name, "is required")
            return None
        if type(value) is int and low <= value <= high:
            return value
        self.reject(name, f"must be a whole number from {low} to {high}, not {describe_value(value)}")
        return None

    def _field_name(self, name: str) -> str | None:
        field = self._schema.field(name)
        return None if field is None else field.name

    def _names(
        self, name: str, canonical_name: Callable[[str], str | None], entities: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """A list of distinct declared fields, and of `entities`, as sorted canonical names; empty if the list is absent
        or invalid."""
        value = self._document.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.reject(name, "must be a list of field names")
            return ()
        if len(value) > self._limits.max_fields:
            self.reject(name, f"has {len(value)} fields, at most {self._limits.max_fields} are allowed")
            return ()
        canonical: set[str] = set()
        for item in value:
            found = canonical_name(item)
            if found is None:
                declared = ", ".join((*self._schema.names, *entities))
                self.reject(name, f"{quote(item)} is not a declared field; the declared fields are {declared}")
            elif found in canonical:
                self.reject(name, f"{quote(item)} names the field {found} a second time")
            else:
                canonical.add(found)
        return tuple(sorted(canonical))

    def reject(self, name: str, message: str) -> None:
        """Record a reason. Skip a member with an unusable number, because its decoding has already added a reason."""
        if isinstance(self._document.get(name), UnusableNumber):
            return
        self._reasons.append(Reason(self._within + name, message))


def _texts(value: object) -> list[str]:
    """The texts of a list; none of any other value."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
