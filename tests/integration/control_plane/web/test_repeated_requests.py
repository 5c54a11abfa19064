"""A POST with an Idempotency-Key that arrives several times is executed once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.support.control_plane.web.server import RULE, Server


def create(server: Server, key: str, encoding: str = "identity", limit: int = 20) -> httpx.Response:
    headers = {"Idempotency-Key": key, "Accept-Encoding": encoding}
    return server.ask("POST", "/rules", "analyst", json={"document": {**RULE, "limit": limit}}, headers=headers)


def test_requests_that_arrive_together_create_one_rule(server: Server) -> None:
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda encoding: create(server, "a-1", encoding), ["gzip", "identity"] * 2))
    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({(answer.text, answer.headers["etag"]) for answer in answers}) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 3
    assert len(server.ask("GET", "/rules").json()["items"]) == 1
    assert create(server, "a-1", limit=21).status_code == 409
    assert create(server, "a-2").json()["ruleId"] != answers[0].json()["ruleId"]
    assert [create(server, key).status_code for key in ("", "a b", "x" * 129)] == [422] * 3
