"""A request for approval gets its what-if by itself, beside the request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from fraud_control.domain.lifecycle import StateName
from fraud_control.service.whatif import WhatIfQuestion, WhatIfs, WhatIfStatus
from fraud_control.store.what_if_models import WhatIfRow
from fraud_control.watch.requested_what_ifs import RequestedWhatIfs
from fraud_control.watch.what_if_runner import WhatIfRunner
from fraud_rules.batch.whatif.place import FOLDER
from fraud_rules.configuration.project import Project
from fraud_rules.model.day import Day
from tests.support.conformance import load_schema
from tests.support.control_plane.desk import Desk
from tests.support.control_plane.scene import ANN, PAT, REASON, Scene, rule_input
from tests.support.nightly.archived import Site
from tests.support.waiting import until

DAY = Day.parse("2026-11-18")
SAVES = """
import json, pathlib, sys
rule = json.load(open(sys.argv[1]))
root = next(each.removeprefix("--archive=") for each in sys.argv if each.startswith("--archive="))
folder = pathlib.Path(root, "whatif", f"{len(list(pathlib.Path(root, 'whatif').glob('*')))}-rule-{rule['ruleId']}")
folder.mkdir(parents=True)
(folder / "result.json").write_text(json.dumps({"rule": rule, "fires": 3, "asked": sys.argv[2:]}))
"""

WAITS = """
import pathlib, sys, time
here = pathlib.Path(next(each.removeprefix("--archive=") for each in sys.argv if each.startswith("--archive=")))
(here / "started").touch()
while not (here / "go").exists():
    time.sleep(0.02)
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    payment = {"transactionId": 1, "eventTime": DAY.start_ms, "payeeId": 1, "paymentAmount": 10}
    site = Site.make(tmp_path / "archive", {"steps": [{"at": DAY.start_ms, "tx": payment}]}, load_schema("nullable"))
    site.archive()
    return tmp_path / "archive"


@pytest.fixture
def what_ifs(scene: Scene, archive: Path) -> WhatIfs:
    return WhatIfs(scene.database, archive, scene.clock)


@contextmanager
def running(scene: Scene, what_ifs: WhatIfs, project: Project, archive: Path, script: str) -> Iterator[None]:
    runner = WhatIfRunner(scene.database, what_ifs, project, archive, [sys.executable, "-c", script])
    runner.start()
    yield
    runner.stop()


@pytest.fixture
def service(scene: Scene) -> Desk:
    service = scene.another(four_eyes=True)
    service.create(ANN, rule_input(ruleId=1, limit=20))
    service.change_state(ANN, 1, 1, StateName.SHADOW)
    return service


@pytest.fixture
def requested(service: Desk, what_ifs: WhatIfs) -> Iterator[RequestedWhatIfs]:
    requested = RequestedWhatIfs(service.store, what_ifs)
    requested.start()
    yield requested
    requested.stop()


@pytest.fixture
def saving(scene: Scene, what_ifs: WhatIfs, project: Project, archive: Path) -> Iterator[None]:
    with running(scene, what_ifs, project, archive, SAVES):
        yield


def waiting(scene: Scene) -> list[int]:
    """The rules whose what-ifs wait for a runner."""
    with scene.database.reading() as session:
        rows = select(WhatIfRow.rule_id).where(WhatIfRow.rule_id.is_not(None), WhatIfRow.status == "WAITING")
        return [rule_id for rule_id in session.scalars(rows) if rule_id is not None]


def reports(archive: Path) -> list[dict[str, object]]:
    return [json.loads(each.read_text()) for each in sorted((archive / FOLDER).glob("*/result.json"))]


@pytest.mark.usefixtures("saving")
def test_a_request_gets_its_what_if_once(service: Desk, requested: RequestedWhatIfs, archive: Path) -> None:
    asked = service.change_state(ANN, 1, 2, StateName.ACTIVE, comment=REASON).row.pending
    assert asked is not None
    until(lambda: not requested.awaits(1), "the what-if of the request has ended")
    (report,) = reports(archive)
    assert report["asked"] == ["--days=14", f"--archive={archive}", "--processes=1", "--json", "--no-windows"]
    service.decide(PAT, asked.id, approve=False)
    service.change_state(ANN, 1, 2, StateName.ACTIVE, comment=REASON)
    until(lambda: not requested.awaits(1), "the second request is seen")
    assert len(reports(archive)) == 1, "the evidence of the same rule is there"
    service.edit(ANN, 1, 2, rule_input(ruleId=1, limit=30))
    service.change_state(ANN, 1, 3, StateName.ACTIVE, comment=REASON)
    until(lambda: not requested.awaits(1), "the third request is seen")
    assert len(reports(archive)) == 2


@pytest.mark.usefixtures("saving")
def test_a_request_that_ends_evaluation_gets_none(service: Desk, requested: RequestedWhatIfs, archive: Path) -> None:
    asked = service.change_state(ANN, 1, 2, StateName.ACTIVE, comment=REASON).row.pending
    assert asked is not None
    service.decide(PAT, asked.id, approve=True)
    until(lambda: not requested.awaits(1), "the what-if of the activation has ended")
    before = len(reports(archive))
    service.change_state(ANN, 1, 3, StateName.PAUSE, comment=REASON)
    until(lambda: not requested.awaits(1), "the request to pause is seen")
    assert len(reports(archive)) == before <= 1


def test_a_request_during_the_what_if_of_an_earlier_one_gets_its_own(
    scene: Scene,
    service: Desk,
    requested: RequestedWhatIfs,
    what_ifs: WhatIfs,
    project: Project,
    archive: Path,
) -> None:
    with running(scene, what_ifs, project, archive, WAITS + SAVES):
        first = service.change_state(ANN, 1, 2, StateName.ACTIVE, comment=REASON).row.pending
        assert first is not None
        until((archive / "started").exists, "the what-if of the first request runs")
        service.decide(PAT, first.id, approve=False)
        service.edit(ANN, 1, 2, rule_input(ruleId=1, limit=30))
        service.change_state(ANN, 1, 3, StateName.ACTIVE, comment=REASON)
        until(lambda: len(waiting(scene)) == 1, "the what-if of the second request waits")
        (archive / "go").touch()
        until(lambda: not requested.awaits(1), "both what-ifs have ended")
    assert len(reports(archive)) == 2


def test_a_request_does_not_wait_for_its_what_if(
    scene: Scene,
    service: Desk,
    requested: RequestedWhatIfs,
    what_ifs: WhatIfs,
    project: Project,
    archive: Path,
) -> None:
    """The runner is busy with what-ifs of users that do not end. The request is saved, and its what-if waits."""
    with running(scene, what_ifs, project, archive, "import time; time.sleep(600)"):
        first = what_ifs.start(WhatIfQuestion(b"{}", 7), "ann", 1)
        until(lambda: what_ifs.get(first.id).status is WhatIfStatus.RUNNING, "the first one runs")
        for number in range(10):
            what_ifs.start(WhatIfQuestion(b"{}", 7), f"user {number}", 1)
        assert service.change_state(ANN, 1, 2, StateName.ACTIVE, comment=REASON).row.pending is not None
        assert requested.awaits(1)
        until(lambda: waiting(scene) == [1], "the what-if of the request waits")
    elsewhere = RequestedWhatIfs(service.store, what_ifs)
    assert elsewhere.awaits(1), "another API server knows that it waits"
    assert not reports(archive)
