"""Two API servers over one store answer alike."""

from __future__ import annotations

from pathlib import Path

from fraud_control.settings import ControlPlaneSettings
from fraud_rules.configuration.project import Project
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.control_plane.web.server import RULE, Login, Server
from tests.support.kafka.own_topics import OwnTopics
from tests.support.nightly.archived import Site
from tests.support.waiting import until

DAY = Day.parse("2026-11-18")


def test_each_server_answers_about_a_what_if_of_the_other_and_the_limits_count_both(
    login: Login, topics: OwnTopics, project: Project, settings: ControlPlaneSettings, tmp_path: Path
) -> None:
    payment = {"transactionId": 1, "eventTime": DAY.start_ms, "payeeId": 1, "paymentAmount": 10}
    site = Site.make(tmp_path / "archive", {"steps": [{"at": DAY.start_ms, "tx": payment}]}, load_schema("nullable"))
    site.archive()
    with (
        Server.running(login, topics, project, settings, tmp_path) as first,
        Server.running(login, topics, project, settings, tmp_path) as second,
    ):
        asked = {"document": {**RULE, "ruleId": 1}}
        answers = [each.ask("POST", "/whatif", "analyst", json=asked) for each in (first, second, first)]
        assert [answer.status_code for answer in answers] == [202, 202, 429]
        for answer in answers[:2]:
            for server in (first, second):
                address = f"/whatif/{answer.json()['id']}"
                assert server.ask("GET", address, "analyst").json()["status"] in ("WAITING", "RUNNING")
        address = f"/whatif/{answers[0].json()['id']}"
        until(lambda: second.ask("GET", address, "analyst").json()["status"] == "DONE", "the what-if has ended")
        assert first.ask("GET", address, "analyst").json()["result"]["rule"]["ruleId"] == 1
