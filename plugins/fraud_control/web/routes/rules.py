"""Routes of rules: reads, changes, approvals, controls, import and export."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from fraud_control.domain import read_models
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.read_models import RuleInput
from fraud_control.service.items.approvals import decide
from fraud_control.service.reading.approval_figures import approval_figures
from fraud_control.service.rules import imports, queries, transitions
from fraud_control.service.rules.approved_content import approved_contents
from fraud_control.service.rules.comparison import compare
from fraud_control.service.rules.outcomes import outcome_of
from fraud_control.service.rules.sample_value import Sample, sample_value
from fraud_control.service.rules.validation import validate
from fraud_control.web import rows
from fraud_control.web.answer import answer, file_of
from fraud_control.web.auth import CurrentActor
from fraud_control.web.convert import activation_of, saved_what_if_of
from fraud_control.web.dependencies import CurrentPlane, IfMatch, revision_read
from fraud_control.web.load.lanes import LaneName
from fraud_control.web.problems import WebError
from fraud_control.web.routing import Before, DryRun, FileForm, Limit, change_of, file_of_items, least, router
from fraud_control.web.schemas import rules as schemas
from fraud_control.web.schemas.base import MAX_ID
from fraud_ops.paths import report_path
from fraud_rules.codec.rules.export import RuleFormat

routes = router("rules")

Id = Annotated[int, Path(ge=1, le=MAX_ID)]
Cursor = Annotated[str | None, Query(max_length=200)]
Revision = Annotated[int, Query(ge=1, le=2**53)]
_CHANGE = change_of(schemas.RuleDetail)


@routes.get("/rules", response_model=schemas.Rules, openapi_extra=least("viewer"))
def list_rules(
    plane: CurrentPlane,
    state: StateName | None = None,
    q: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    cursor: Cursor = None,
) -> Response:
    """List rules by id. `q` searches id, name, description and owner. Deleted rules appear only with `state=DELETE`."""
    with plane.store.reading() as work:
        page = queries.rows(work, state=state, query=q, limit=limit, cursor=cursor)
    return answer(schemas.Rules(items=rows.rows(plane, page.items), next=page.next))


@routes.get("/rules/names", response_model=schemas.RuleNames, openapi_extra=least("viewer"))
def list_rule_names(plane: CurrentPlane) -> Response:
    """List the ids and names of all rules by id, without deleted ones. This is much shorter than the list of rules."""
    with plane.store.reading() as work:
        names = queries.names(work)
    return answer(schemas.RuleNames(items=[schemas.RuleName(rule_id=rule_id, name=name) for rule_id, name in names]))


@routes.post("/rules", status_code=201, response_model=schemas.RuleDetail, openapi_extra=least("analyst"))
def create_rule(plane: CurrentPlane, actor: CurrentActor, body: schemas.WriteRequest) -> Response:
    """Save a new rule as a draft. A rule without a `ruleId` gets a free id."""
    with plane.store.change(actor, body.comment) as work:
        head = transitions.create(work, actor, _rule_input(body), body.comment)
        created = queries.detail(work, int(head.item_key))
    return rows.detail(plane, created, 201)


@routes.post("/rules/validate", response_model=read_models.Validation, openapi_extra=least("analyst", LaneName.READS))
def validate_rule(plane: CurrentPlane, body: schemas.ValidateRequest) -> Response:
    """Validate a rule and list all faults. This saves nothing."""
    with plane.store.reading() as work:
        return answer(validate(work, _rule_input(body), body.rule_id))


@routes.post("/rules/sample", response_model=read_models.SampleValue, openapi_extra=least("analyst", LaneName.READS))
def evaluate_sample(plane: CurrentPlane, body: schemas.SampleRequest) -> Response:
    """Evaluate an expression of a rule for one payment, with the lists and maps in force. This saves nothing."""
    newest = plane.memory.newest_payment() if body.payment is None else None
    with plane.store.reading() as work:
        return answer(sample_value(work, body.member, body.text, Sample(body.payment, body.previous), newest))


@routes.get("/refused-records", response_model=schemas.RejectedRecords, openapi_extra=least("viewer"))
def list_rejected_records(plane: CurrentPlane) -> Response:
    """List the newest 50 records of the rule log that the detector rejected, with its reasons, newest first."""
    return answer(schemas.RejectedRecords(items=[activation_of(each) for each in plane.memory.rejected()]))


@routes.get("/rules/{rule_id}", response_model=schemas.RuleDetail, openapi_extra=least("viewer"))
def get_rule(plane: CurrentPlane, rule_id: Id) -> Response:
    """Read a rule, with its revision as the ETag."""
    with plane.store.reading() as work:
        found = queries.detail(work, rule_id)
    return rows.detail(plane, found)


@routes.put("/rules/{rule_id}", **_CHANGE)
def edit_rule(
    plane: CurrentPlane, actor: CurrentActor, rule_id: Id, body: schemas.WriteRequest, if_match: IfMatch = None
) -> Response:
    """Save a new revision, or request it if it needs approval (202)."""
    revision = revision_read(if_match)
    with plane.store.change(actor, body.comment) as work:
        transitions.edit(work, actor, rule_id, revision, _rule_input(body), body.comment)
        rule = queries.detail(work, rule_id)
    return rows.detail(plane, rule, 200 if rule.row.pending is None else 202)


@routes.get(
    "/rules/{rule_id}/outcome", response_model=schemas.OutcomeShown, openapi_extra=least("viewer", LaneName.READS)
)
def get_outcome(plane: CurrentPlane, rule_id: Id) -> Response:
    """Compare what a changed rule does with its prediction and with the time before. Null 30 days after the change."""
    with plane.store.reading() as work:
        found = outcome_of(work.session, rule_id, work.now_ms)
    prediction = None if found is None else found.prediction
    report = None if prediction is None else report_path("whatif", prediction.report)
    return answer(schemas.OutcomeShown(outcome=found, report=report))


@routes.get(
    "/rules/{rule_id}/comparison", response_model=schemas.ComparisonShown, openapi_extra=least("viewer", LaneName.READS)
)
def compare_rules(
    plane: CurrentPlane, rule_id: Id, other: Annotated[int, Query(alias="with", ge=1, le=MAX_ID)]
) -> Response:
    """Compare the alerts of two rules by payment. Null unless both alert, live or as a shadow."""
    days = plane.settings.bounds.alert_days
    with plane.store.reading() as work:
        found = compare(work.session, rule_id, other, work.now_ms, days)
    return answer(schemas.ComparisonShown(comparison=found))


@routes.get("/rules/{rule_id}/versions", response_model=schemas.Versions, openapi_extra=least("viewer"))
def list_versions(plane: CurrentPlane, rule_id: Id, before: Before = None, limit: Limit = 100) -> Response:
    """List the revisions, newest first."""
    with plane.store.reading() as work:
        page = queries.revisions(work, rule_id, limit=limit, before=before)
        approved = approved_contents(work.session, rule_id, work.seeds)
    return answer(schemas.Versions(items=rows.revisions(plane, rule_id, page.items, approved), next=page.next))


@routes.get("/rules/{rule_id}/diff", response_model=schemas.Diff, openapi_extra=least("viewer"))
def diff_versions(
    plane: CurrentPlane,
    rule_id: Id,
    since: Annotated[Revision, Query(alias="from")],
    until: Annotated[Revision, Query(alias="to")],
) -> Response:
    """Compare two revisions."""
    with plane.store.reading() as work:
        return answer(schemas.Diff(changes=queries.diff(work, rule_id, since, until)))


@routes.post("/rules/{rule_id}/state", **_CHANGE)
def change_state(
    plane: CurrentPlane, actor: CurrentActor, rule_id: Id, body: schemas.StateRequest, if_match: IfMatch = None
) -> Response:
    """Change the state of a rule, or request the change if it needs approval (202)."""
    revision = revision_read(if_match)
    with plane.store.change(actor, body.comment) as work:
        transitions.change_state(work, actor, rule_id, revision, body.state, body.comment)
        rule = queries.detail(work, rule_id)
    return rows.detail(plane, rule, 200 if rule.row.pending is None else 202)


@routes.post("/rules/{rule_id}/rollback", **_CHANGE)
def roll_back(
    plane: CurrentPlane,
    actor: CurrentActor,
    rule_id: Id,
    body: schemas.RollbackRequest,
    if_match: IfMatch = None,
) -> Response:
    """Save an old revision's document as a new revision, or request it if it needs approval (202).

    Content that was approved before takes effect at once if an approver restores it.
    """
    revision = revision_read(if_match)
    with plane.store.change(actor, body.comment) as work:
        transitions.rollback(work, actor, rule_id, revision, body.revision, body.comment)
        rule = queries.detail(work, rule_id)
    return rows.detail(plane, rule, 200 if rule.row.pending is None else 202)


@routes.get("/approvals", response_model=schemas.Approvals, openapi_extra=least("viewer"))
def list_approvals(
    plane: CurrentPlane,
    *,
    open_only: Annotated[bool, Query(alias="open")] = True,
    before: Before = None,
    limit: Limit = 100,
) -> Response:
    """List the requests for approval that are open; with `open=false`, also those that are decided."""
    with plane.store.reading() as work:
        page = queries.approvals(work, open_only=open_only, limit=limit, before=before)
    return answer(schemas.Approvals(items=list(page.items), next=page.next))


@routes.get(
    "/approvals/{approval_id}/figures",
    response_model=schemas.ApprovalFigures,
    openapi_extra=least("viewer", LaneName.READS),
)
def get_approval_figures(plane: CurrentPlane, approval_id: Id) -> Response:
    """Read the shadow alerts and the newest what-if of the rule that awaits approval, and its present rate."""
    with plane.store.reading() as work:
        document, shadow, present = approval_figures(work, approval_id)
    found = plane.what_ifs.saved(document)
    return answer(
        schemas.ApprovalFigures(
            shadow=shadow,
            present=present,
            what_if=None if found is None else saved_what_if_of(*found),
            running=found is None and plane.requested_what_ifs.awaits(document["ruleId"]),
        )
    )


@routes.post("/approvals/{approval_id}/approve", response_model=read_models.Approval, openapi_extra=least("approver"))
def approve(plane: CurrentPlane, actor: CurrentActor, approval_id: Id, body: schemas.Approve) -> Response:
    """Approve a request: the change takes effect."""
    with plane.store.change(actor, body.comment) as work:
        decided = decide(work, actor, approval_id, body.comment, approve=True, shown=body.basis)
    return answer(decided)


@routes.post("/approvals/{approval_id}/reject", response_model=read_models.Approval, openapi_extra=least("analyst"))
def reject(plane: CurrentPlane, actor: CurrentActor, approval_id: Id, body: schemas.Decision) -> Response:
    """Reject a request. Users who are not approvers may only withdraw their own requests."""
    with plane.store.change(actor, body.comment) as work:
        decided = decide(work, actor, approval_id, body.comment, approve=False)
    return answer(decided)


@routes.post("/controls", status_code=202, response_model=read_models.ControlResult, openapi_extra=least("admin"))
def send_control(plane: CurrentPlane, actor: CurrentActor, body: schemas.ControlRequest) -> Response:
    """Send a control for all rules or all state. Destructive controls need `confirm`."""
    with plane.store.change(actor, body.comment) as work:
        sent = transitions.control(work, actor, body.control.value, body.confirm, body.comment)
    return answer(sent, 202)


@routes.get("/export", **file_of_items())
def export_rules(plane: CurrentPlane, form: FileForm = "yaml") -> Response:
    """Export all rules but drafts and deleted rules, as a file for `import`."""
    with plane.store.reading() as work:
        return file_of(queries.export(work, RuleFormat(form)), "rules", RuleFormat(form))


@routes.post("/import", response_model=read_models.ImportResult, openapi_extra=least("analyst", LaneName.FILES))
def import_rules(
    plane: CurrentPlane, actor: CurrentActor, body: schemas.ImportRequest, *, dry_run: DryRun = True
) -> Response:
    """Import a file of rules, all of it or nothing. New rules become drafts."""
    form = None if body.format is None else RuleFormat(body.format)
    return answer(imports.import_rules(plane.store, actor, body.content, form, body.comment, dry_run=dry_run))


@routes.get("/operations", response_model=schemas.Operations, openapi_extra=least("viewer"))
def list_operations(
    plane: CurrentPlane, after_version: Annotated[int, Query(alias="afterVersion", ge=-1, le=MAX_ID)] = -1
) -> Response:
    """List the detector's reports about records of the rule log after this version; at most a thousand."""
    found = plane.memory.operations_after(after_version)
    return answer(schemas.Operations(items=[activation_of(each) for each in found]))


def _rule_input(body: schemas.WriteRequest | schemas.ValidateRequest) -> RuleInput:
    if sum(each is not None for each in (body.document, body.text, body.yaml)) != 1:
        raise WebError(422, "send the rule in one form: document, text or yaml")
    return RuleInput(document=body.document, text=body.text, yaml=body.yaml)
