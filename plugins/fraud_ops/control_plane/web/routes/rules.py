"""Rules: reading them, changing them, and what became of the changes."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Header, Path, Query, Response

from fraud_ops.control_plane.web.routing import least, router
from fraud_ops.control_plane.web.shapes import rules as shapes
from fraud_ops.control_plane.web.shapes.base import MAX_ID

__all__ = ["routes"]

routes = router("rules")

Id = Annotated[int, Path(ge=1, le=MAX_ID)]
IfMatch = Annotated[str | None, Header(alias="If-Match", max_length=100, description='`"<revision>"` as last read.')]
Cursor = Annotated[str | None, Query(max_length=200)]
Revision = Annotated[int, Query(ge=1, le=2**53)]


@routes.get("/rules", response_model=shapes.Rules, openapi_extra=least("viewer"))
def list_rules(
    state: shapes.StateName | None = None,
    q: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    cursor: Cursor = None,
) -> Response:
    """Rules by id; `q` looks in id, name, description and owner."""
    raise NotImplementedError


@routes.post("/rules", status_code=201, response_model=shapes.RuleDetail, openapi_extra=least("analyst"))
def create_rule(body: shapes.WriteRequest) -> Response:
    """Save a new rule as a DRAFT; without a `ruleId` it gets the next free one."""
    raise NotImplementedError


@routes.post("/rules/validate", response_model=shapes.Validation, openapi_extra=least("analyst"))
def validate_rule(body: shapes.ValidateRequest) -> Response:
    """Say everything that is wrong with a rule, and save nothing."""
    raise NotImplementedError


@routes.get("/rules/{rule_id}", response_model=shapes.RuleDetail, openapi_extra=least("viewer"))
def get_rule(rule_id: Id) -> Response:
    """One rule, with its revision as the ETag."""
    raise NotImplementedError


@routes.put("/rules/{rule_id}", response_model=shapes.RuleDetail, openapi_extra=least("analyst"))
def edit_rule(rule_id: Id, body: shapes.WriteRequest, if_match: IfMatch = None) -> Response:
    """Save a new revision; of an ACTIVE rule only an approver may, others ask for it (202)."""
    raise NotImplementedError


@routes.get("/rules/{rule_id}/versions", response_model=shapes.Versions, openapi_extra=least("viewer"))
def list_versions(rule_id: Id) -> Response:
    """Every revision, newest first."""
    raise NotImplementedError


@routes.get("/rules/{rule_id}/diff", response_model=shapes.Diff, openapi_extra=least("viewer"))
def diff_versions(
    rule_id: Id, since: Annotated[Revision, Query(alias="from")], until: Annotated[Revision, Query(alias="to")]
) -> Response:
    """What differs between two revisions."""
    raise NotImplementedError


@routes.post("/rules/{rule_id}/state", response_model=shapes.RuleDetail, openapi_extra=least("analyst"))
def change_state(rule_id: Id, body: shapes.StateRequest, if_match: IfMatch = None) -> Response:
    """Move a rule on in its life; 202 where a second person has to agree first."""
    raise NotImplementedError


@routes.post("/rules/{rule_id}/rollback", response_model=shapes.RuleDetail, openapi_extra=least("analyst"))
def roll_back(rule_id: Id, body: shapes.RollbackRequest, if_match: IfMatch = None) -> Response:
    """Make an old revision's document the newest; 202 where a second person has to agree first."""
    raise NotImplementedError


@routes.get("/approvals", response_model=shapes.Approvals, openapi_extra=least("viewer"))
def list_approvals(*, open: bool = True) -> Response:  # noqa: A002 -- the name people use
    """Changes that wait for somebody; with `open=false` also those decided."""
    raise NotImplementedError


@routes.post("/approvals/{approval_id}/approve", response_model=shapes.Approval, openapi_extra=least("approver"))
def approve(approval_id: Id, body: shapes.Decision) -> Response:
    """Agree: the change takes place."""
    raise NotImplementedError


@routes.post("/approvals/{approval_id}/reject", response_model=shapes.Approval, openapi_extra=least("approver"))
def reject(approval_id: Id, body: shapes.Decision) -> Response:
    """Disagree: the change is off."""
    raise NotImplementedError


@routes.post("/controls", status_code=202, response_model=shapes.ControlResult, openapi_extra=least("admin"))
def send_control(body: shapes.ControlRequest) -> Response:
    """Command all rules, or all state; those that destroy need `confirm`."""
    raise NotImplementedError


@routes.get("/export", openapi_extra=least("viewer"))
def export_rules(format: Literal["json", "yaml", "text"] = "yaml") -> Response:  # noqa: A002 -- the name people use
    """Every rule that is not a draft, as a file that `import` takes."""
    raise NotImplementedError


@routes.post("/import", response_model=shapes.ImportResult, openapi_extra=least("analyst"))
def import_rules(body: shapes.ImportRequest, *, dry_run: Annotated[bool, Query(alias="dryRun")] = True) -> Response:
    """Take in a file of rules, all of it or nothing; new ones come in as DRAFT."""
    raise NotImplementedError


@routes.get("/operations", response_model=shapes.Operations, openapi_extra=least("viewer"))
def list_operations(after_version: Annotated[int, Query(alias="afterVersion", ge=-1, le=MAX_ID)] = -1) -> Response:
    """What the detector said of records of the rule log after this one."""
    raise NotImplementedError
