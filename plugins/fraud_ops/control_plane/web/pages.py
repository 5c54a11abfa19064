"""Protects the pages beside the control plane (runbooks, logs, reports) with its roles, limits and headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request

from fraud_ops.control_plane.domain.roles import Role
from fraud_ops.control_plane.web import problems
from fraud_ops.control_plane.web.auth import admit
from fraud_ops.control_plane.web.guard import Guard

__all__ = ["protected"]


def protected(create: Callable[[Callable[..., Any]], FastAPI], control_plane: FastAPI) -> FastAPI:
    """Create pages. They get a dependency that admits viewers of this control plane."""

    async def viewer(request: Request) -> None:
        await admit(request, Role.VIEWER, control_plane)

    pages = create(viewer)
    problems.install(pages)
    pages.add_middleware(Guard)
    return pages
