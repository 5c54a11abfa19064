"""Posts messages to the addresses that connections name.

A fault names the kind of the error only: an address, an answer or a text of an exception could contain a secret.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

import httpx

from fraud_rules.errors import ConfigError

TIMEOUT_S: Final = 10.0
"""The longest time of one request, from the name lookup to the status of the answer."""

# httpx logs the address of each request, which is the secret of a Slack webhook.
logging.getLogger("httpx").setLevel(logging.WARNING)


def post(url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
    """Post a body, and return the fault if the receiver has not accepted it. Redirects are not followed, so that only
    the connection names the address. Raises ConfigError for an invalid address, httpx.HTTPError.
    """
    try:
        status = asyncio.run(_status(url, body, headers))
    except (TimeoutError, httpx.TimeoutException):
        return f"no answer within {TIMEOUT_S:g} s"
    except (httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise ConfigError("the connection has no valid URL") from None
    return None if httpx.codes.is_success(status) else f"the receiver answered {status}"


async def _status(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """The status of the answer. The limit is for the whole request: a receiver could send its answer byte by byte."""
    async with (
        asyncio.timeout(TIMEOUT_S),
        httpx.AsyncClient(timeout=TIMEOUT_S) as client,
        client.stream("POST", url, content=body, headers=headers) as answer,
    ):
        return answer.status_code
