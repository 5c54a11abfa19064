"""What many routes depend on: the control plane, and the revision that the client of a change has read."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header, Request

from fraud_control.composition import ControlPlane
from fraud_control.web.problems import WebError


async def _plane(request: Request) -> ControlPlane:
    plane: ControlPlane = request.app.state.service()
    return plane


CurrentPlane = Annotated[ControlPlane, Depends(_plane)]
"""The control plane. Raises Unavailable (503) until it has started."""

IfMatch = Annotated[
    str | None, Header(alias="If-Match", max_length=100, description='The revision as last read: `"<revision>"`.')
]
"""The revision that the client of a change has read."""

_ETAG = re.compile(r'(?:W/)?"([0-9]{1,15})"', re.ASCII)


def revision_read(if_match: str | None) -> int:
    """Parse the revision that the client has read. Raises WebError (428, 412)."""
    if if_match is None:
        raise WebError(
            428, 'send If-Match: "<revision>" with the revision that you have read, to protect the changes of others'
        )
    found = _ETAG.fullmatch(if_match.strip())
    if found is None:
        raise WebError(412, 'If-Match must be one revision in quotes, as in the ETag: "3"')
    return int(found[1])
