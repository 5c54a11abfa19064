"""JSON responses. Decimals become exact JSON numbers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import msgspec
from fastapi import Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from fraud_control.domain.canonical import decoded
from fraud_control.domain.masking import Mask
from fraud_rules.codec.rules.export import RuleFormat

JSON = "application/json"
_log = logging.getLogger(__name__)
MEDIA_TYPES = {RuleFormat.JSON: JSON, RuleFormat.YAML: "application/yaml", RuleFormat.TEXT: "text/plain"}
"""The media types of exported files."""
NOT_KEPT = {"Cache-Control": "no-store"}
"""The header of an answer with a secret: neither a cache nor the store keeps it."""

_ZIP: Final = "application/zip"
ZIP_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {_ZIP: {"schema": {"type": "string", "format": "binary"}}}}
}
"""The answer of `zip_answer`, for the description of a route."""

encode = msgspec.json.Encoder(decimal_format="number").encode


def answer(schema: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response with the JSON of a model."""
    return json_answer(encode(schema.model_dump(by_alias=True)), status, headers)


def json_answer(content: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Build the response with encoded JSON."""
    return Response(content, status, headers, JSON)


def masked(mask: Mask, call: Callable[[], Response]) -> Response:
    """Build a response, and mask the values in its JSON."""
    response = call()
    if response.media_type == JSON:
        response.body = encode(mask(decoded(bytes(response.body))))
        response.headers["content-length"] = str(len(response.body))
    return response


def file_of(content: str, name: str, form: RuleFormat) -> Response:
    """Build the response with a file to save."""
    suffix = "txt" if form is RuleFormat.TEXT else form.value
    headers = {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}
    return Response(content, 200, headers, f"{MEDIA_TYPES[form]}; charset=utf-8")


def zip_answer(content: bytes, name: str) -> Response:
    """Build the response with a zip to save, which no cache keeps."""
    return Response(content, 200, {"Content-Disposition": f'attachment; filename="{name}"', **NOT_KEPT}, _ZIP)


async def streamed_file(pieces: AsyncIterator[bytes], name: str, media_type: str) -> Response:
    """Build the response with a file to save, which grows. An error before the first piece becomes a problem document;
    a later one ends the response early.
    """
    first = await anext(pieces)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(_joined(first, pieces), 200, headers, media_type)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for piece in rest:
            yield piece
    except Exception:
        _log.exception("an export ended early")
        raise  # the client sees an incomplete response


def nothing() -> Response:
    """Build the response without content (204)."""
    return Response(status_code=204)
