"""What-ifs in the store: any API server answers, one evaluates them one at a time, and a failed one has a reason."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import update

from fraud_control.domain.errors import LimitReached, NotFound, RequestRefused
from fraud_control.service.whatif import WhatIfQuestion, WhatIfRun, WhatIfs, WhatIfStatus
from fraud_control.store.database import Database
from fraud_control.store.what_if_models import WhatIfRow
from fraud_control.watch.what_if_runner import WhatIfRunner
from fraud_rules.configuration.project import Project
from tests.support.control_plane.scene import Clock, Scene
from tests.support.waiting import until

QUESTION = WhatIfQuestion(b'{"ruleId": 1}', 7)
SLEEPS = "import time; time.sleep(600)"


class Queue:
    """The what-ifs of a store, and runners that evaluate them with a script."""

    def __init__(self, scene: Scene, project: Project, folder: Path) -> None:
        self._project = project
        self._archive = folder / "archive"
        self.url = scene.settings.database
        self.clock = Clock()
        self.what_ifs = WhatIfs(scene.database, self._archive, self.clock)
        self._database = scene.database

    @contextmanager
    def runner(
        self, script: str | None, labels: Path | None = None, database: Database | None = None
    ) -> Iterator[WhatIfRunner]:
        """A runner, by default of this process. None: the real command."""
        command = [] if script is None else [sys.executable, "-c", script]
        database = database or self._database
        what_ifs = WhatIfs(database, self._archive, self.clock)
        runner = WhatIfRunner(database, what_ifs, self._project, self._archive, command, lambda: labels)
        runner.start()
        yield runner
        runner.stop()

    def ended(self, run: WhatIfRun) -> WhatIfRun:
        return until(
            lambda: found if (found := self.what_ifs.get(run.id)).ended else None, "the what-if has ended", 120
        )

    def runs(self, run: WhatIfRun) -> None:
        until(lambda: self.what_ifs.get(run.id).status is WhatIfStatus.RUNNING, "the what-if runs")


@pytest.fixture
def queue(scene: Scene, project: Project, tmp_path: Path) -> Queue:
    return Queue(scene, project, tmp_path)


def test_the_result_is_the_output_of_the_command(queue: Queue, tmp_path: Path) -> None:
    with queue.runner("import sys; print(open(sys.argv[1]).read() + ' '.join(sys.argv[2:]))"):
        run = queue.ended(queue.what_ifs.start(QUESTION, "ann", 20))
    assert run.status is WhatIfStatus.DONE
    expected = f'{{"ruleId": 1}}--days=7 --archive={tmp_path / "archive"} --processes=1 --json\n'
    assert run.result == expected.encode()


def test_limits_and_a_fixed_window_become_options_of_the_command(queue: Queue) -> None:
    asked = WhatIfQuestion(b"{}", 7, (Decimal("1E+3"), Decimal("2.5")), windows=False)
    with queue.runner("import sys; print(' '.join(sys.argv[-2:]))"):
        run = queue.ended(queue.what_ifs.start(asked, "ann", 2))
    assert run.result == b"--limits=1000,2.5 --no-windows\n"


def test_labels_and_wishes_become_options_of_the_command(queue: Queue, tmp_path: Path) -> None:
    script = "import sys; print(sys.argv[-3:-1], open(sys.argv[-1].removeprefix('--labels=')).read())"
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"alertId":"alert-1","label":"FRAUD"}\n{"alertId":"alert-2","label":"NOT_FRAUD"}\n')
    with queue.runner(script, labels):
        asked = WhatIfQuestion(b"{}", 7, alerts_per_day=20.0, precision=0.9)
        run = queue.ended(queue.what_ifs.start(asked, "ann", 2))
    assert run.result is not None and run.result.decode().splitlines() == [
        "['--alerts-per-day=20.0', '--precision=0.9'] " + '{"alertId":"alert-1","label":"FRAUD"}',
        '{"alertId":"alert-2","label":"NOT_FRAUD"}',
        "",
    ]


def test_the_reason_is_the_last_line_of_the_error(queue: Queue) -> None:
    with queue.runner("import sys; sys.exit('first\\nthe archive holds no transaction yet')"):
        run = queue.ended(queue.what_ifs.start(QUESTION, "ann", 2))
    assert (run.status, run.said) == (WhatIfStatus.FAILED, "the archive holds no transaction yet")


def test_an_unexpected_error_fails_one_what_if_and_not_the_next(queue: Queue) -> None:
    first = queue.what_ifs.start(WhatIfQuestion(b'{"\xff": 1}', 7), "ann", 20)
    second = queue.what_ifs.start(QUESTION, "ann", 20)
    with queue.runner("import json, sys; json.load(open(sys.argv[1])); print(7)"):
        first, second = queue.ended(first), queue.ended(second)
    assert first.status is WhatIfStatus.FAILED and "UnicodeDecodeError" in str(first.said)
    assert (second.status, second.result) == (WhatIfStatus.DONE, b"7\n")


def test_the_number_of_waiting_what_ifs_is_limited(queue: Queue) -> None:
    with queue.runner(SLEEPS):
        first = queue.what_ifs.start(QUESTION, "ann", 20)
        queue.runs(first)
        for _ in range(10):
            queue.what_ifs.start(QUESTION, "ann", 20)
        with pytest.raises(RequestRefused, match="10 what-ifs are already waiting"):
            queue.what_ifs.start(QUESTION, "ann", 20)
    stopped = queue.what_ifs.get(first.id)
    assert (stopped.status, stopped.said) == (WhatIfStatus.FAILED, "the control plane stops: start it again")
    with pytest.raises(NotFound):
        queue.what_ifs.get("0123456789ab")


def test_a_user_has_few_what_ifs_at_a_time_in_all_servers(queue: Queue) -> None:
    with queue.runner("print(7)"):
        for _ in range(3):
            queue.ended(queue.what_ifs.start(QUESTION, "ann", 1))
    other = Database.open(queue.url)
    elsewhere = WhatIfs(other, Path("unused"), queue.clock)
    for server in (queue.what_ifs, elsewhere):
        server.start(QUESTION, "ann", 2)
    with pytest.raises(LimitReached, match="2 what-ifs of yours"):
        elsewhere.start(QUESTION, "ann", 2)
    elsewhere.start(QUESTION, "abe", 2)
    other.close()


def test_another_server_answers_and_fails_what_a_dead_one_was_evaluating(queue: Queue) -> None:
    """The leader's process died: its leadership has ended and its row still says RUNNING."""
    run, waits = (queue.what_ifs.start(QUESTION, "ann", 20) for _ in range(2))
    dead = queue.what_ifs.next_run()
    assert dead is not None and dead.id == run.id
    other = Database.open(queue.url)
    elsewhere = WhatIfs(other, Path("unused"), queue.clock)
    assert elsewhere.get(run.id).status is WhatIfStatus.RUNNING
    with queue.runner("print(7)", database=other):
        failed = queue.ended(run)
        assert failed.status is WhatIfStatus.FAILED and "stopped or lost the store" in str(failed.said)
        assert queue.ended(waits).result == b"7\n", "one that waited starts at the next server"
    queue.what_ifs.end(dead, b"late", None)
    assert queue.what_ifs.get(run.id).result is None, "the dead server's result comes too late"
    other.close()


def test_ended_what_ifs_are_kept_for_a_day_and_at_most_a_hundred(queue: Queue, scene: Scene) -> None:
    runs = [queue.what_ifs.start(QUESTION, f"user {number // 9}", 10) for number in range(9)]
    with scene.database.writing() as session:
        session.execute(update(WhatIfRow).values(status=WhatIfStatus.DONE))
        session.add_all(
            WhatIfRow(id=f"{number:012x}", who="abe", question=b"{}", status=WhatIfStatus.DONE, at_ms=queue.clock())
            for number in range(95)
        )
    queue.what_ifs.start(QUESTION, "ann", 2)
    with pytest.raises(NotFound):
        queue.what_ifs.get(runs[3].id)
    assert queue.what_ifs.get(runs[4].id).ended
    queue.clock.now_ms += 86_400_001
    queue.what_ifs.start(QUESTION, "ann", 2)
    with pytest.raises(NotFound):
        queue.what_ifs.get(runs[4].id)


def test_requests_wait_for_the_what_ifs_of_users(queue: Queue) -> None:
    other = WhatIfQuestion(b'{"ruleId": 1, "limit": 2}', 7)
    queue.what_ifs.request(1, QUESTION)
    queue.what_ifs.request(1, other)
    queue.what_ifs.request(2, QUESTION)
    user = queue.what_ifs.start(QUESTION, "ann", 2)
    order = [queue.what_ifs.next_run() for _ in range(4)]
    assert [None if run is None else (run.id == user.id, run.question) for run in order] == [
        (True, QUESTION),
        (False, other),
        (False, QUESTION),
        None,
    ]
    assert queue.what_ifs.is_requested(1)
    assert order[1] is not None
    queue.what_ifs.end(order[1], b"{}", None)
    assert not queue.what_ifs.is_requested(1)
    queue.what_ifs.request(3, QUESTION)
    queue.what_ifs.withdraw(3)
    assert queue.what_ifs.next_run() is None


def test_the_real_command_reports_a_missing_archive(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    # Beside a detector a what-if waits for idle cores. A run of all tests has none for minutes.
    monkeypatch.setattr("fraud_control.watch.what_if_runner._NICE", 0)
    asked = WhatIfQuestion(b'{"ruleId": 1}', 7, (Decimal(5),), windows=False)
    with queue.runner(None):
        run = queue.ended(queue.what_ifs.start(asked, "ann", 2))
    assert run.status is WhatIfStatus.FAILED and "fraud archive run" in str(run.said)
