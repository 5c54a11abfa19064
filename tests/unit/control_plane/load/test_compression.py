"""Large answers are compressed once, in the thread that builds them."""

from __future__ import annotations

import gzip

import pytest
from fastapi import Response
from fastapi.responses import FileResponse, StreamingResponse
from starlette.datastructures import Headers

from fraud_ops.control_plane.web.load.compression import accepts_gzip, compressed

LARGE = b'{"a":1}' * 1_000


def test_a_large_answer_is_compressed() -> None:
    found = compressed(Response(LARGE, headers={"ETag": '"7"'}, media_type="application/json"))
    assert gzip.decompress(found.body) == LARGE
    assert found.headers["content-length"] == str(len(found.body))
    assert {found.headers[name] for name in ("content-encoding", "vary", "etag")} == {"gzip", "Accept-Encoding", '"7"'}


@pytest.mark.parametrize(
    "response",
    [
        Response(b"{}"),
        Response(status_code=204),
        Response(LARGE, headers={"Content-Encoding": "br"}),
        StreamingResponse(iter([LARGE])),
        FileResponse(__file__),
    ],
)
def test_other_answers_stay_as_they_are(response: Response) -> None:
    before = list(response.raw_headers)
    assert compressed(response).raw_headers == before


@pytest.mark.parametrize(("value", "accepted"), [("gzip, br", True), ("br", False), (None, False)])
def test_only_a_client_that_accepts_it_gets_it(value: str | None, accepted: bool) -> None:
    headers = Headers({} if value is None else {"accept-encoding": value})
    assert accepts_gzip(headers) is accepted
