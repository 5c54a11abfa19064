"""Who one is, what rules may be made of, who may do what, what was done, and whether store and log agree."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response

from fraud_ops.control_plane.web.routing import least, router
from fraud_ops.control_plane.web.shapes import admin as shapes
from fraud_ops.control_plane.web.shapes.base import MAX_ID

__all__ = ["routes"]

routes = router("administration")

User = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f/]+$")]


@routes.get("/me", response_model=shapes.Me, openapi_extra=least(None))
def me() -> Response:
    """Who asks, and what they may do."""
    raise NotImplementedError


@routes.get("/schema", response_model=shapes.SchemaShown, openapi_extra=least("viewer"))
def schema() -> Response:
    """What rules may be made of."""
    raise NotImplementedError


@routes.get("/drift", response_model=shapes.Drift, openapi_extra=least("viewer"))
def drift() -> Response:
    """Whether store and rule log agree."""
    raise NotImplementedError


@routes.get("/audit", response_model=shapes.Audits, openapi_extra=least("approver"))
def audit(
    before: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    rule_id: Annotated[int | None, Query(alias="ruleId", ge=1, le=MAX_ID)] = None,
) -> Response:
    """What was done, newest first."""
    raise NotImplementedError


@routes.get("/audit/verify", response_model=shapes.AuditVerdict, openapi_extra=least("approver"))
def verify_audit() -> Response:
    """Whether the chain is whole."""
    raise NotImplementedError


@routes.get("/bindings", response_model=shapes.Bindings, openapi_extra=least("admin"))
def list_bindings() -> Response:
    """Every user with a role."""
    raise NotImplementedError


@routes.put("/bindings/{user}", response_model=shapes.Binding, openapi_extra=least("admin"))
def bind(user: User, body: shapes.BindingRequest) -> Response:
    """Give a user a role."""
    raise NotImplementedError


@routes.delete("/bindings/{user}", status_code=204, openapi_extra=least("admin"))
def unbind(user: User) -> Response:
    """Take a user's role away."""
    raise NotImplementedError
