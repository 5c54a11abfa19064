"""Read models: the results of the service, which the HTTP API serialises as they are.

A read model is built from a row or another object by its attributes (`model_validate`). Times are epoch milliseconds;
numbers in documents are `int` or `Decimal`. In JSON, members are in camelCase and times have no unit in their name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import AliasGenerator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as model_dataclass

from fraud_control.domain.canonical import decoded
from fraud_control.domain.item import ItemName
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.roles import Role

T = TypeVar("T")

_ALIASES: Final = AliasGenerator(serialization_alias=to_camel)

Document: TypeAlias = Mapping[str, object]
"""A rule in the form of the rule log. Numbers are `int` or `Decimal`; a float is refused as not a number."""

EpochMs: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]

MarkVerdict: TypeAlias = Literal["FRAUD", "NOT_FRAUD"]
"""An analyst's verdict about an alert."""

ImportEffect: TypeAlias = Literal["added", "changed", "requested", "deleted", "unchanged", "rejected"]
"""The effect of one record of an import. `added` creates a draft; `requested` needs the approval of a second person."""


def _from_text(value: object) -> object:
    """Decode JSON that the store keeps as text."""
    return decoded(value) if isinstance(value, str) else value


JsonValue: TypeAlias = Annotated[Any, BeforeValidator(_from_text)]
JsonDocument: TypeAlias = Annotated[dict[str, Any], BeforeValidator(_from_text)]
JsonRevisions: TypeAlias = Annotated[dict[str, int], BeforeValidator(_from_text)]
JsonNames: TypeAlias = Annotated[list[str], BeforeValidator(_from_text)]


class DecisionName(StrEnum):
    """The decision about a request. WITHDRAWN: by the requesting user, or because the rule has changed since."""

    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    WITHDRAWN = "WITHDRAWN"


class ControlName(StrEnum):
    """The controls, which concern all rules or all state."""

    CLEAR_STATE_ALL = "CLEAR_STATE_ALL"
    CLEAR_STATE_ALL_STOP = "CLEAR_STATE_ALL_STOP"
    DELETE_RULES_ALL = "DELETE_RULES_ALL"
    EXPORT_RULES_CURRENT = "EXPORT_RULES_CURRENT"


class ReadModel(BaseModel):
    """The base of read models."""

    model_config = ConfigDict(from_attributes=True, frozen=True, alias_generator=_ALIASES)


class ProblemReason(ReadModel):
    """A fault of the input: the member, and the reason."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class RuleInput:
    """A rule as a user enters it, in exactly one of three forms. `text` is JSON or the one-line text form."""

    document: Document | None = None
    text: str | None = None
    yaml: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list. `next` is the cursor of the next page, None on the last page."""

    items: tuple[T, ...]
    next: str | None = None


class Change(ReadModel):
    """A member that differs. A value is null if the rule lacks the member."""

    field: str
    before: object
    after: object


class Approval(ReadModel):
    """A request for approval of a change of a rule, a list or a map."""

    id: int
    rule_id: int | None = Field(description="Null for a list or map.")
    list_name: str | None = Field(description="Null for a rule or map.")
    map_name: str | None = Field(description="Null for a rule or list.")
    revision: int
    action: str = Field(description="state, edit or rollback; list or map for a change of one.")
    target: StateName | None
    author: str = Field(description="The user who wrote the document.")
    contributors: JsonNames = Field(
        description="Users who changed the document, or a list or map that it names, since the last approval. With "
        "four eyes, they cannot approve it."
    )
    requested_by: str
    requested_at_ms: EpochMs = Field(serialization_alias="requestedAt")
    comment: str
    decision: Annotated[
        DecisionName | None, BeforeValidator(lambda stored: stored.upper() if isinstance(stored, str) else stored)
    ]
    decided_by: str | None
    decided_at_ms: EpochMs | None = Field(serialization_alias="decidedAt")
    decision_comment: str | None
    document: JsonDocument = Field(
        description="The rule after approval; or the change of the list or map, with its first values and `count`."
    )
    basis: JsonRevisions | None = Field(
        description="The revisions of the rule and of the lists and maps that it names, or of the list or map, by "
        "part: the content that an approval covers. A change of any part withdraws the request."
    )
    says: str = Field(
        "",
        description="The rule after approval in words, in a list of requests. Empty for a list or map, and elsewhere.",
    )


class StoredRule(ReadModel):
    """The newest version of a rule in the store.

    `log_version` is the offset of its record in the rule log, None until the newest change reaches the log, and for
    changes that only the store holds (drafts). `published` is false only in the first case: a record waits in the
    outbox. `pending` is the open request for approval.
    """

    rule_id: int
    name: str | None
    description: str | None
    severity: str | None
    owner: str | None
    state: StateName
    revision: int
    updated_at_ms: EpochMs = Field(serialization_alias="updatedAt")
    updated_by: str
    source: str
    document: JsonDocument
    published: bool = Field(description="False only while the newest change waits for the rule log.")
    log_version: int | None = Field(exclude=True)
    pending: Approval | None = Field(exclude=True)


class RuleUse(ReadModel):
    """A rule that names a list, a map or a rule, or that a rule names."""

    rule_id: int
    name: str | None
    state: StateName


@dataclass(frozen=True, slots=True)
class RuleWithForms:
    """A rule with its text forms. `text` is None if the one-line form cannot express the rule; `says` describes the
    rule in words. `author` wrote the document; another user may have moved the rule since. `cpu_ns` is the estimated
    CPU time that the rule needs for each transaction beside its grouping, None if this version cannot read it.
    `named` are the rules that it names, and `named_by` those that name it, drafts too.
    """

    row: StoredRule
    yaml: str
    text: str | None
    says: str
    author: str
    next_states: tuple[StateName, ...]
    cpu_ns: int | None
    named: Sequence[RuleUse]
    named_by: Sequence[RuleUse]


class Validation(ReadModel):
    """All faults of a rule, or the other forms of a valid rule. `warnings` do not prevent a save."""

    valid: bool
    reasons: list[ProblemReason]
    warnings: list[ProblemReason]
    document: dict[str, Any] | None
    yaml: str | None
    text: str | None
    says: str | None
    changes: list[Change]


class SampleValue(ReadModel):
    """The value of an expression for a payment as text, null if the expression is null. With `reasons` it has none."""

    value: str | None
    reasons: list[ProblemReason]
    payment: str = Field(description="The payment as JSON, or as the client sent it.")


class Revision(ReadModel):
    """A revision of a rule. `log_version` is the offset of its record in the rule log; None before the record arrives,
    and for a revision without a record.
    """

    revision: int
    state: StateName
    document: JsonDocument
    author: str
    at_ms: EpochMs = Field(serialization_alias="at")
    comment: str
    source: str
    log_version: int | None


class RecentChange(ReadModel):
    """A change of a rule: its newest revisions, of all rules."""

    rule_id: int
    name: str
    revision: int
    state: StateName
    author: str
    at_ms: EpochMs = Field(serialization_alias="at")
    comment: str


class ControlResult(ReadModel):
    """A control that waits for the rule log."""

    control: ControlName
    seq: int = Field(description="Its number in the outbox.")


class ImportItem(ReadModel):
    """The effect of one rule of the file."""

    where: str
    rule_id: int | None
    effect: ImportEffect
    reasons: list[ProblemReason]


class ImportResult(ReadModel):
    """The result of an import, rule by rule. If one rule is rejected, or in a dry run, nothing is applied."""

    items: list[ImportItem]
    applied: bool


class Mark(ReadModel):
    """A user's mark on an alert."""

    verdict: MarkVerdict
    who: str
    at_ms: EpochMs = Field(serialization_alias="at")


class ShadowFigures(ReadModel):
    """The alerts of a rule since it became a shadow rule with its present document, and their marks. `by_requester` of
    the marks are by the user who requests the approval.
    """

    since_ms: EpochMs = Field(serialization_alias="since")
    until_ms: EpochMs = Field(serialization_alias="until")
    alerts: int
    fraud: int
    not_fraud: int
    by_requester: int


class PresentFigures(ReadModel):
    """The alerts of an active rule since it has its present content, at most a week back, and their rate."""

    since_ms: EpochMs = Field(serialization_alias="since")
    until_ms: EpochMs = Field(serialization_alias="until")
    alerts: int
    alerts_per_day: float


class ComparedPayments(ReadModel):
    """Payments with alerts. `fraud` and `not_fraud` count those with a mark or a label."""

    payments: int
    fraud: int
    not_fraud: int


class RuleComparison(ReadModel):
    """The payments for which two rules alert, since both have their present content and state."""

    since_ms: EpochMs = Field(serialization_alias="since")
    until_ms: EpochMs = Field(serialization_alias="until")
    both: ComparedPayments
    only_this: ComparedPayments
    only_other: ComparedPayments


class OutcomeDay(ReadModel):
    """The live alerts and the shadow alerts of a rule on a day (UTC). `whole` is false for the present day. `off`: the
    live alerts of a whole day are outside of the prediction, if there is one.
    """

    day: str
    alerts: int
    shadow: int
    whole: bool
    off: bool


class OutcomeSpan(ReadModel):
    """The live alerts of a rule in a time. `amount` is what they stopped: the sum of the amounts of their payments,
    null if the payments have none. `fraud` and `not_fraud` count those with a mark or a label, and `repeated_keys` the
    keys with more than one alert: customers met twice.
    """

    since_ms: EpochMs = Field(serialization_alias="since")
    until_ms: EpochMs = Field(serialization_alias="until")
    alerts: int
    alerts_per_day: float
    amount: str | None
    fraud: int
    not_fraud: int
    repeated_keys: int


class LimitPrediction(ReadModel):
    """The predicted alerts of a day with another limit, and their interval."""

    limit: str
    per_day: float
    low: int
    high: int


class RulePrediction(ReadModel):
    """The predicted alerts of a day: their mean, and bounds that hold with a probability of 90%. `report` is the name
    of the what-if, `predicted_days` the number of its whole days.
    """

    report: str
    predicted_days: int
    per_day: float
    low: int
    high: int
    limits: list[LimitPrediction]


class RuleOutcome(ReadModel):
    """A change of a rule, and what the rule did. `approved_by` and `prediction` are null without an approval or a
    what-if. `shadow_per_day` is the rate of shadow alerts before the change, null for a rule that was no shadow.
    `previous_revision` has the content that was active before, null for a rule that was not. `before` is as long as
    `after`, and at least a day.
    """

    live_ms: EpochMs = Field(serialization_alias="liveSince")
    approved_by: str | None
    previous_revision: int | None
    prediction: RulePrediction | None
    shadow_per_day: float | None
    days: list[OutcomeDay]
    before: OutcomeSpan
    after: OutcomeSpan


class Snooze(ReadModel):
    """A snooze in force."""

    id: int
    rule_id: int
    key: JsonDocument | None
    until_ms: EpochMs = Field(serialization_alias="until")
    who: str
    reason: str
    at_ms: EpochMs = Field(serialization_alias="at")


class Evidence(ReadModel):
    """The transactions of an alert's key that the rule's aggregate or one of its conditions counts, oldest first."""

    transactions: list[dict[str, Any]]
    count: int
    complete: bool
    missing: str | None = Field(description="The reason, if transactions are missing.")


class AuditRow(ReadModel):
    """A row of the audit log. Its hash chains it to the row before. `ruleId`, `listName` and `mapName` are the rule,
    list or map that the row concerns. `program` made the change for the user with a token; null for a person.
    """

    seq: int
    at_ms: EpochMs = Field(serialization_alias="at")
    who: str
    action: str
    subject: str
    rule_id: int | None
    list_name: str | None
    map_name: str | None
    program: str | None
    before: JsonValue
    after: JsonValue
    previous_hash: str
    hash: str


class AuditVerdict(ReadModel):
    """The result of checking the audit chain. `brokenAt` is the first row that does not fit."""

    whole: bool
    rows: int
    broken_at: int | None
    head: str = Field(description="The hash of the last row.")


class AuditState(AuditVerdict):
    """The state of the verification in the background: the rows up to `rows` of `total` were checked, the last time at
    `verifiedAt` (null before the first time)."""

    total: int
    verified_at_ms: EpochMs | None = Field(serialization_alias="verifiedAt")


class Binding(ReadModel):
    """A user's role. `by` is the admin who gave it, null for a role from the settings file."""

    user: str
    role: Role
    by: str | None
    at_ms: EpochMs | None = Field(serialization_alias="at")


class DriftSide(ReadModel):
    """A rule in the store or in the rule log. `version` is the offset of its record in the rule log."""

    version: int | None
    document: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.document.get('ruleState')} of version {self.version}"


class DriftDifference(ReadModel):
    """A rule that differs between the store and the rule log."""

    rule_id: int
    store: DriftSide | None
    log: DriftSide | None


class DriftedCollection(ReadModel):
    """A list or map in the store or in the rule log, with the SHA-256 of its content as sorted JSON, in hex."""

    version: int
    type: str = Field(description="The type of the values; the types of keys and values of a map: `long to decimal`.")
    size: int
    values_sha256: str

    def __str__(self) -> str:
        return f"{self.size} {self.type} values of version {self.version} (SHA-256 {self.values_sha256[:12]})"


class ListDifference(ReadModel):
    """A list that differs between the store and the rule log."""

    list_name: str
    store: DriftedCollection | None
    log: DriftedCollection | None


class MapDifference(ReadModel):
    """A map that differs between the store and the rule log."""

    map_name: str
    store: DriftedCollection | None
    log: DriftedCollection | None


@dataclass(frozen=True, slots=True)
class OutboxState:
    """The changes that wait for the rule log; `oldest_ms` is the time at which the oldest was saved."""

    pending: int
    oldest_ms: int | None


@model_dataclass(frozen=True, slots=True, config=ConfigDict(alias_generator=_ALIASES))
class RuleChanged:
    """A rule, a list or a map was changed. If no member names it, any of them may have changed."""

    rule_id: int | None
    revision: int | None
    list_name: str | None = None
    map_name: str | None = None

    @classmethod
    def of_item(cls, item: ItemName, revision: int | None) -> RuleChanged:
        """A change of this item."""
        return cls(item.rule_id, revision, item.list_name, item.map_name)
