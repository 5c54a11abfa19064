"""Protects the pages beside the control plane (runbooks, logs, reports) with its roles, limits and headers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import FastAPI, Request

from fraud_control.domain.roles import Role
from fraud_control.web import problems
from fraud_control.web.auth import admit
from fraud_control.web.guard import Guard

__all__ = ["admission", "guarded"]


def admission(control_plane: FastAPI, least: Role | None) -> Callable[[Request], Coroutine[Any, Any, None]]:
    """A dependency that admits users of this control plane with at least this role; None stands for any login."""

    async def admitted(request: Request) -> None:
        await admit(request, least, control_plane)

    return admitted


def guarded(pages: FastAPI) -> FastAPI:
    """Give pages the error responses, limits and headers of the control plane."""
    problems.install(pages)
    pages.add_middleware(Guard)
    return pages
