"""The dependency that gives routes the plane of the control plane."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from fraud_control.composition import ControlPlane


async def _plane(request: Request) -> ControlPlane:
    plane: ControlPlane = request.app.state.service()
    return plane


CurrentPlane = Annotated[ControlPlane, Depends(_plane)]
"""The control plane. Raises Unavailable (503) until it has started."""
