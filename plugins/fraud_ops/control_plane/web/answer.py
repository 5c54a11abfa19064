"""JSON responses. Decimals become exact JSON numbers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import Response
from pydantic import BaseModel

__all__ = ["answer", "encode", "json_answer", "nothing"]

JSON = "application/json"

encode = msgspec.json.Encoder(decimal_format="number").encode


def answer(schema: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response with the JSON of a model."""
    return json_answer(encode(schema.model_dump(by_alias=True)), status, headers)


def json_answer(content: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response with encoded JSON."""
    return Response(content, status, headers, JSON)


def nothing() -> Response:
    """Build the response without content (204)."""
    return Response(status_code=204)
