"""What-ifs that a user starts on the page: one runs at a time, and a failed one has a reason."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path

import pytest

from fraud_ops.control_plane.domain.errors import LimitReached, NotFound, RequestRefused
from fraud_ops.control_plane.service.whatif import WhatIfQuestion, WhatIfRun, WhatIfRunner, WhatIfStatus
from fraud_rules.configuration.project import Project
from tests.support.waiting import until

QUESTION = WhatIfQuestion(b'{"ruleId": 1}', 7)


def service(project: Project, tmp_path: Path, script: str) -> WhatIfRunner:
    return WhatIfRunner(project, tmp_path / "archive", [sys.executable, "-c", script])


def test_the_result_is_the_output_of_the_command(project: Project, tmp_path: Path) -> None:
    script = "import sys; print(open(sys.argv[1]).read() + ' '.join(sys.argv[2:]))"
    run = service(project, tmp_path, script).start(QUESTION, "ann", 20)
    assert run.ended.wait(60)
    assert run.status is WhatIfStatus.DONE
    expected = f'{{"ruleId": 1}}--days=7 --archive={tmp_path / "archive"} --processes=1 --json\n'
    assert run.result == expected.encode()


def test_limits_and_a_fixed_window_become_options_of_the_command(project: Project, tmp_path: Path) -> None:
    what_ifs = service(project, tmp_path, "import sys; print(' '.join(sys.argv[-2:]))")
    run = what_ifs.start(WhatIfQuestion(b"{}", 7, (Decimal("1E+3"), Decimal("2.5")), windows=False), "ann", 2)
    assert run.ended.wait(60)
    assert run.result == b"--limits=1000,2.5 --no-windows\n"


def test_labels_and_wishes_become_options_of_the_command(project: Project, tmp_path: Path) -> None:
    script = "import sys; print(sys.argv[-3:-1], open(sys.argv[-1].removeprefix('--labels=')).read())"
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"alertId":"alert-1","label":"FRAUD"}\n{"alertId":"alert-2","label":"NOT_FRAUD"}\n')
    what_ifs = WhatIfRunner(project, tmp_path / "archive", [sys.executable, "-c", script], lambda: labels)
    run = what_ifs.start(WhatIfQuestion(b"{}", 7, alerts_per_day=20.0, precision=0.9), "ann", 2)
    assert run.ended.wait(60)
    assert run.result is not None and run.result.decode().splitlines() == [
        "['--alerts-per-day=20.0', '--precision=0.9'] " + '{"alertId":"alert-1","label":"FRAUD"}',
        '{"alertId":"alert-2","label":"NOT_FRAUD"}',
        "",
    ]


def test_the_reason_is_the_last_line_of_the_error(project: Project, tmp_path: Path) -> None:
    run = service(project, tmp_path, "import sys; sys.exit('first\\nthe archive holds no transaction yet')").start(
        QUESTION, "ann", 2
    )
    assert run.ended.wait(60)
    assert (run.status, run.said) == (WhatIfStatus.FAILED, "the archive holds no transaction yet")


def test_an_unexpected_error_fails_one_what_if_and_not_the_next(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what_ifs = service(project, tmp_path, "print(7)")
    evaluate, failing = what_ifs._evaluate, [True]

    def fails(run: WhatIfRun) -> None:
        if failing.pop() if failing else False:
            raise ZeroDivisionError
        evaluate(run)

    monkeypatch.setattr(what_ifs, "_evaluate", fails)
    first, second = what_ifs.start(QUESTION, "ann", 20), what_ifs.start(QUESTION, "ann", 20)
    assert first.ended.wait(60) and second.ended.wait(60)
    assert (first.status, first.said) == (WhatIfStatus.FAILED, "ZeroDivisionError: see the API server's log")
    assert (second.status, second.result) == (WhatIfStatus.DONE, b"7\n")


def test_the_number_of_waiting_what_ifs_is_limited(project: Project, tmp_path: Path) -> None:
    what_ifs = service(project, tmp_path, "import time; time.sleep(600)")
    first = what_ifs.start(QUESTION, "ann", 20)
    until(lambda: first.status is WhatIfStatus.RUNNING, "the first runs")
    for _ in range(10):
        what_ifs.start(QUESTION, "ann", 20)
    with pytest.raises(RequestRefused):
        what_ifs.start(QUESTION, "ann", 20)
    what_ifs.close()
    assert first.ended.wait(60) and first.status is WhatIfStatus.FAILED, (
        "a running what-if is ended, also during its start"
    )
    with pytest.raises(NotFound):
        what_ifs.get("0123456789ab")


def test_a_user_has_few_what_ifs_at_a_time(project: Project, tmp_path: Path) -> None:
    what_ifs = service(project, tmp_path, "print(7)")
    for _ in range(3):
        run = what_ifs.start(QUESTION, "ann", 1)
        assert run.ended.wait(60), "a finished what-if does not count"
    what_ifs = service(project, tmp_path, "import time; time.sleep(600)")
    for _ in range(2):
        what_ifs.start(QUESTION, "ann", 2)
    with pytest.raises(LimitReached, match="2 what-ifs of yours"):
        what_ifs.start(QUESTION, "ann", 2)
    what_ifs.start(QUESTION, "abe", 2)
    what_ifs.close()


def test_the_real_command_reports_a_missing_archive(project: Project, tmp_path: Path) -> None:
    asked = WhatIfQuestion(b'{"ruleId": 1}', 7, (Decimal(5),), windows=False)
    run = WhatIfRunner(project, tmp_path / "archive").start(asked, "ann", 2)
    assert run.ended.wait(120)
    assert run.status is WhatIfStatus.FAILED and "fraud archive" in str(run.said)
