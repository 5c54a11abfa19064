"""Schemas about the data of people."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from fraud_control.web.schemas.base import Request


class EraseRequest(Request):
    """The person to erase. The body has the id, so that no log of addresses has it."""

    value: Annotated[str, Field(min_length=1, max_length=256, description="The id, such as that of a payer.")]


class CertificateRequest(Request):
    """A certificate of `fraud erase` with its seal."""

    certificate: dict[str, Any]
    seal: dict[str, Any]
