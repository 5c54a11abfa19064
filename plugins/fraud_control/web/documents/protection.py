"""Protects the pages beside the control plane (runbooks, logs, reports) with its roles, limits and headers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import FastAPI, Request

from fraud_control.domain.roles import LEAST_ROLE, Permission, Role
from fraud_control.web import problems
from fraud_control.web.auth import admit
from fraud_control.web.guard import Guard
from fraud_control.web.problems import WebError


def admission(
    control_plane: FastAPI, least: Role | None, *, reads_ids: bool = False
) -> Callable[[Request], Coroutine[Any, Any, None]]:
    """A dependency that admits users of this control plane with at least this role; None stands for any login. With
    `reads_ids`, it admits no role that sees masked values.
    """

    async def admitted(request: Request) -> None:
        await admit(request, least, control_plane)
        if reads_ids and control_plane.state.service().masking.hides_from(request.state.fraud_role):
            raise WebError(403, f"this file has whole ids: it needs the role {LEAST_ROLE[Permission.READ_IDS]}")

    return admitted


def guarded(pages: FastAPI) -> FastAPI:
    """Give pages the error responses, limits and headers of the control plane."""
    problems.install(pages)
    pages.add_middleware(Guard)
    return pages
