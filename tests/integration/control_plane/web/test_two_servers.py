"""Two API servers over one store answer alike.

The test is long: `test_what_if_runner` has the limit and the answers with two queues over one store.
"""

from __future__ import annotations

from itertools import cycle, product
from pathlib import Path

import pytest

from fraud_control.settings import ControlPlaneSettings
from fraud_rules.configuration.project import Project
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.control_plane.web.server import RULE, Login, Server
from tests.support.kafka.own_topics import OwnTopics
from tests.support.nightly.archived import Site
from tests.support.waiting import until

DAY = Day.parse("2026-11-18")


@pytest.mark.long
def test_each_server_answers_about_a_what_if_of_the_other_and_the_limits_count_both(
    login: Login,
    topics: OwnTopics,
    project: Project,
    settings: ControlPlaneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Beside a detector a what-if waits for idle cores. A run of all tests has none for minutes.
    monkeypatch.setattr("fraud_control.watch.what_if_runner._NICE", 0)
    payment = {"transactionId": 1, "eventTime": DAY.start_ms, "payeeId": 1, "paymentAmount": 10}
    site = Site.make(tmp_path / "archive", {"steps": [{"at": DAY.start_ms, "tx": payment}]}, load_schema("nullable"))
    site.archive()
    with (
        Server.running(login, topics, project, settings, tmp_path) as first,
        Server.running(login, topics, project, settings, tmp_path) as second,
    ):
        asked, turns, accepted = {"document": {**RULE, "ruleId": 1}}, cycle((first, second)), list[str]()

        def status(server: Server, id_: str) -> str:
            return str(server.ask("GET", f"/whatif/{id_}", "analyst").json()["status"])

        def is_refused() -> bool:
            answer = next(turns).ask("POST", "/whatif", "analyst", json=asked)
            if answer.status_code == 202:
                accepted.append(answer.json()["id"])
                unfinished = [id_ for id_ in accepted if status(first, id_) != "DONE"]
                assert len(unfinished) <= 2, "the limit counts the what-ifs of both servers"
            return answer.status_code == 429

        until(is_refused, "a what-if is refused while two others run")
        for id_, server in product(accepted[:2], (first, second)):
            assert status(server, id_) in ("WAITING", "RUNNING", "DONE")
        until(lambda: status(second, accepted[0]) == "DONE", "the what-if has ended")
        result = first.ask("GET", f"/whatif/{accepted[0]}", "analyst").json()["result"]
        assert result["rule"]["ruleId"] == 1
