"""Who asks, by Airflow's own login, and what role our bindings give them."""

from __future__ import annotations

from fastapi import Request

__all__ = ["admit"]


async def admit(request: Request, role: str) -> None:
    """Let a request in, or raise."""
