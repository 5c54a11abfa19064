"""The parts of the control plane, for routes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from fraud_ops.control_plane.composition import Parts

__all__ = ["Wired"]


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.service()
    return parts


Wired = Annotated[Parts, Depends(_parts)]
"""Raises Unavailable (503) until they are there."""
