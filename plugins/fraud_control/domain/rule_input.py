"""Turns a rule input into a rule of `fraud_rules`, or rejects it with all reasons by field.

The control plane overrides some members of the input: the state (from the lifecycle), the source and, for
a new rule, a free id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fraud_control.domain.canonical import document_of
from fraud_control.domain.errors import Invalid
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import Change, Document, RuleInput
from fraud_rules.codec.rules.codec import encode_document, parse_rule_document
from fraud_rules.codec.rules.files import read_rule_text
from fraud_rules.codec.rules.json import decode_object
from fraud_rules.codec.rules.members import REMARKS
from fraud_rules.codec.rules.numbers import with_whole_numbers
from fraud_rules.codec.rules.text import read_text_form
from fraud_rules.errors import InputInvalid, Reason, RuleRejected
from fraud_rules.model.limits import RuleLimits
from fraud_rules.model.rule import Rule
from fraud_rules.model.schema import TransactionSchema

SOURCE: Final = "ui"
"""The `source` member of the control plane's records in the rule log."""

MAX_RULE_ID: Final = 2**53 - 1
"""The largest integer that a browser holds exactly. Rules of other writers may have larger ids."""

_WITHOUT_LINE_FORM: Final = (*REMARKS, "force")


@dataclass(frozen=True, slots=True)
class ManagedMembers:
    """The members that the control plane sets: the id (None: the id of the input, else `free_id`) and the state.

    `known` is the stored document of the rule.
    """

    rule_id: int | None
    state: StateName
    free_id: int | None = None
    known: Document = field(default_factory=dict)

    @property
    def rule_state(self) -> str:
        """The `ruleState` of a document in this state. A draft and a deleted rule have no state in the log, so their
        documents say SHADOW.
        """
        return self.state.value if self.state.in_log else StateName.SHADOW.value


class RuleReader:
    """Reads rules under one schema and one set of limits."""

    def __init__(self, schema: TransactionSchema, limits: RuleLimits) -> None:
        self.schema = schema
        self.limits = limits

    def rule(self, rule_input: RuleInput, managed: ManagedMembers, *, strict: bool = True) -> Rule:
        """Read a rule. With `strict`, a state in the input must be the state of `managed`. Raises Invalid."""
        members, faults = self.members(rule_input)
        if rule_input.text is not None and not rule_input.text.lstrip().startswith("{"):
            members = with_remarks(members, managed.known)
        return self.rule_of(members, faults, managed, strict=strict)

    def members(self, rule_input: RuleInput) -> tuple[dict[str, Any], list[Reason]]:
        """Decode the members of the input. Collect the faults of its text. Raises Invalid for unreadable input."""
        forms = [form for form in (rule_input.document, rule_input.text, rule_input.yaml) if form is not None]
        if len(forms) != 1:
            raise Invalid([Reason("record", "must be given in one form: document, text or yaml")])
        try:
            if rule_input.document is not None:
                return self._members_of_document(rule_input.document), []
            return (
                self.members_of_text(rule_input.text)
                if rule_input.text is not None
                else self._members_of_yaml(rule_input.yaml or "")
            )
        except RuleRejected as rejected:
            raise Invalid(rejected.reasons, rejected.rule_id) from rejected

    def members_of_text(self, text: str) -> tuple[dict[str, Any], list[Reason]]:
        """Decode the members of a text: JSON or the one-line form. Collect the faults. Raises RuleRejected."""
        self._check_size(len(text.encode("utf-8", "replace")))
        stripped = text.strip()
        if not stripped.startswith("{"):
            return read_text_form(stripped), []
        decoded = decode_object(stripped, self.limits)
        return decoded.members, decoded.reasons

    def rule_of(
        self, members: Mapping[str, Any], faults: Sequence[Reason], managed: ManagedMembers, *, strict: bool
    ) -> Rule:
        """Build a rule from decoded members. Raises Invalid."""
        document, reasons = with_whole_numbers(members), list(faults)
        if document.pop("disabled", None) not in (None, False):
            reasons.append(Reason("disabled", "to end a rule, change its state, not its document"))
        reasons += _check_id(document, managed)
        state = document.get("ruleState")
        if strict and state not in (None, "", managed.rule_state, managed.state.value):
            reasons.append(
                Reason("ruleState", f"is {managed.state}; an edit cannot change it: change the rule's state")
            )
        document = {"ruleId": managed.rule_id or managed.free_id, **document}
        document |= {"ruleState": managed.rule_state, "source": SOURCE}
        try:
            change = parse_rule_document(document, self.schema, self.limits)
        except RuleRejected as rejected:
            raise Invalid(_without_repeats([*reasons, *rejected.reasons]), rejected.rule_id) from rejected
        if reasons or not isinstance(change, Rule):
            raise Invalid(_without_repeats(reasons) or [Reason("record", "is not a rule")])
        return change

    def read_stored(self, text: str) -> Rule | None:
        """Read a stored document; None if a change of the schema or the limits has made it invalid."""
        try:
            change = parse_rule_document(document_of(text), self.schema, self.limits)
        except RuleRejected:
            return None
        return change if isinstance(change, Rule) else None

    def _members_of_document(self, document: Document) -> dict[str, Any]:
        """Check that the document fits a record of the rule log. The rule parser rejects floats later."""
        members = dict(document)
        if len(members) > self.limits.max_members:
            raise RuleRejected([Reason("record", f"has {len(members)} members, at most {self.limits.max_members}")])
        try:
            size = len(encode_document(members))
        except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
            raise RuleRejected([Reason("record", "holds a value that JSON cannot express")]) from error
        self._check_size(size)
        return members

    def _members_of_yaml(self, text: str) -> tuple[dict[str, Any], list[Reason]]:
        self._check_size(len(text.encode("utf-8", "replace")))
        try:
            records = read_rule_text(Path("rule.yaml"), text)
        except InputInvalid as error:
            raise RuleRejected([Reason("record", str(error))]) from error
        if len(records) != 1:
            raise RuleRejected([Reason("record", f"has {len(records)} rules; one is expected")])
        return document_of(records[0].value), []

    def _check_size(self, size: int) -> None:
        if size > self.limits.max_record_bytes:
            maximum = self.limits.max_record_bytes
            raise RuleRejected([Reason("record", f"has {size} bytes, at most {maximum} are allowed")])


def encode_rule(rule: Rule) -> str:
    """Encode a rule's document in the form of the store and the rule log."""
    return encode_document(rule.document).decode()


def differences(before: Document, after: Document) -> list[Change]:
    """Compare two documents; the differing members come in the order of the newer document."""
    names = dict.fromkeys([*after, *before])
    return [
        Change(field=name, before=before.get(name), after=after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]


def with_remarks(members: Mapping[str, Any], known: Document) -> dict[str, Any]:
    """Add the stored members that the one-line form cannot express to a rule in that form."""
    return {**{name: known[name] for name in _WITHOUT_LINE_FORM if name in known}, **members}


def _check_id(document: dict[str, Any], managed: ManagedMembers) -> list[Reason]:
    given = document.get("ruleId")
    if given is None or given == "":
        document.pop("ruleId", None)
        return []
    if managed.rule_id is not None and (type(given) is not int or given != managed.rule_id):
        return [Reason("ruleId", f"is {managed.rule_id} and cannot change")]
    if managed.rule_id is None and type(given) is int and given > MAX_RULE_ID:
        return [Reason("ruleId", f"must be at most {MAX_RULE_ID}")]
    return []


def _without_repeats(reasons: list[Reason]) -> list[Reason]:
    """Remove repeated reasons and keep the order."""
    return list(dict.fromkeys(reasons))
