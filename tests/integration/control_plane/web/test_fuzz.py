"""Valid and invalid requests, generated from the API's OpenAPI document: none causes a server error."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fraud_control.settings import ControlPlaneSettings, Rates
from fraud_rules.configuration.project import Project
from tests.support.control_plane.web.server import Login, Server
from tests.support.kafka.own_topics import OwnTopics

MINUTES = float(os.environ.get("FUZZ_MINUTES", "10"))
ENDLESS = "/api/alerts/stream"


@pytest.mark.long
@pytest.mark.timeout(0)
def test_no_request_causes_a_server_error(
    login: Login, topics: OwnTopics, project: Project, settings: ControlPlaneSettings, tmp_path: Path
) -> None:
    often = replace(settings, rates=Rates(1_000_000, 1_000_000, 1_000_000))
    with Server.running(login, topics, project, often, tmp_path) as server:
        faults, answers = fuzzed(server)
    assert answers > 0
    assert not faults


def fuzzed(server: Server) -> tuple[dict[str, str], int]:
    """The faults by operation, and the number of answers."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings

    for _ in range(3):
        server.rule()
    schema = schemathesis.openapi.from_dict(server.application.openapi())
    operations = [each for each in (found.ok() for found in schema.get_all_operations()) if each.path != ENDLESS]
    faults: dict[str, str] = {}
    answers = 0

    def send(case: Any) -> None:
        nonlocal answers
        sent = _sendable(case, server)
        try:
            answer = server.client.request(**sent)
        except UnicodeEncodeError:
            return  # no client can send it
        answers += 1
        if answer.status_code >= 500:
            faults.setdefault(case.operation.label, f"{answer.status_code} {answer.text[:300]} for {str(sent)[:300]}")

    until_s = time.monotonic() + 60 * MINUTES
    while time.monotonic() < until_s:
        for operation in operations:
            for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
                bounded = settings(
                    max_examples=10,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
                bounded(given(operation.as_strategy(generation_mode=mode))(send))()
    return faults, answers


def _sendable(case: Any, server: Server) -> dict[str, Any]:
    """The case as an admin's request."""
    made = case.as_transport_kwargs(base_url="http://testserver/fraud/control")
    kept = {name: made[name] for name in ("method", "url", "params", "json", "content") if name in made}
    data = made.get("data")
    kept |= {"content" if isinstance(data, bytes | str) else "data": data} if data is not None else {}
    headers = {name: text for name, text in dict(made.get("headers") or {}).items() if text is not None}
    headers.pop("Authorization", None)
    return {**kept, "headers": {**headers, **server.login.headers("admin")}}
