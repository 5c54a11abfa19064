"""Compresses large answers in the thread that builds them.

Airflow compresses each answer for each client. Here equal reads share an answer, so its compression runs once, and at
a level that needs a quarter of the time.
"""

from __future__ import annotations

import gzip
from typing import Final

from fastapi import Response
from starlette.datastructures import Headers

__all__ = ["accepts_gzip", "compressed"]

_LEAST_BYTES: Final = 1_024
_LEVEL: Final = 1


def accepts_gzip(headers: Headers) -> bool:
    """Whether a client accepts compressed answers."""
    return "gzip" in headers.get("accept-encoding", "")


def compressed(response: Response) -> Response:
    """Compress the body of a response. Leave a small body, or one without a content in memory, as it is."""
    body = getattr(response, "body", None)
    if not isinstance(body, bytes) or len(body) < _LEAST_BYTES or "content-encoding" in response.headers:
        return response
    response.body = gzip.compress(body, _LEVEL, mtime=0)
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(response.body))
    response.headers.add_vary_header("Accept-Encoding")
    return response
