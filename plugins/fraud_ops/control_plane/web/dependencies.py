"""The dependency that gives routes the parts of the control plane."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from fraud_ops.control_plane.composition import Parts

__all__ = ["CurrentParts"]


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.service()
    return parts


CurrentParts = Annotated[Parts, Depends(_parts)]
"""The parts. Raises Unavailable (503) until they exist."""
