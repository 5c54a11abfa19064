"""Routes of the tokens with which programs log in."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response

from fraud_control.service import program_tokens
from fraud_control.web.answer import NOT_KEPT, answer, nothing
from fraud_control.web.auth import CurrentActor
from fraud_control.web.dependencies import CurrentPlane
from fraud_control.web.routing import least, router
from fraud_control.web.schemas import admin as schemas

routes = router("administration")

TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]


@routes.get("/tokens", response_model=schemas.ProgramTokens, openapi_extra=least("viewer"))
def list_tokens(plane: CurrentPlane, who: CurrentActor) -> Response:
    """List your tokens for programs; an admin sees all. Expired ones stay for 30 days."""
    with plane.store.reading() as work:
        found = program_tokens.tokens(work.session, who)
    return answer(schemas.ProgramTokens(items=list(found)))


@routes.post("/tokens", response_model=schemas.NewProgramToken, status_code=201, openapi_extra=least("viewer"))
def create_token(plane: CurrentPlane, who: CurrentActor, body: schemas.ProgramTokenRequest) -> Response:
    """Create a token for a program, which then acts as you with at most this role. Only this answer has the secret."""
    with plane.store.change(who) as work:
        token, secret = program_tokens.create(work, who, body.name, body.role, body.expires_in_days)
    return answer(schemas.NewProgramToken(token=token, secret=secret), 201, NOT_KEPT)


@routes.delete("/tokens/{token_id}", status_code=204, openapi_extra=least("viewer"))
def revoke_token(plane: CurrentPlane, who: CurrentActor, token_id: TokenId) -> Response:
    """Revoke one of your tokens; an admin can revoke any. Other servers accept it for at most five seconds more."""
    with plane.store.change(who) as work:
        program_tokens.revoke(work, who, token_id)
    plane.programs.forget()
    return nothing()
