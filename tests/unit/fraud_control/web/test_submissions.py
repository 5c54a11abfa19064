"""A request that a client repeats under one Idempotency-Key changes nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from fastapi import Response
from sqlalchemy import func, select

from fraud_control.domain.errors import RequestRefused, StoreBusy
from fraud_control.store import submissions
from fraud_control.store.submissions import KEPT_MS, Submission, SubmissionRow
from fraud_control.web.submissions import executed_once
from tests.support.control_plane.scene import ANN, Scene, rule_input

KEY = Submission("ann", "key 1", "content")


@dataclass
class Route:
    """A route that creates a rule. It can fail before or after the change."""

    scene: Scene
    fails: bool = False
    ends_early: bool = False

    def __call__(self) -> Response:
        if self.fails:
            raise StoreBusy("another writer")
        made = self.scene.service.create(ANN, rule_input())
        if self.ends_early:
            raise RuntimeError("the process ends")
        return Response(f"{made.row.rule_id}", 201, {"ETag": '"1"', "Via": "x"}, "application/json")


def rules(scene: Scene) -> int:
    return len(scene.service.rules().items)


def sent(scene: Scene, route: Callable[[], Response], submission: Submission = KEY) -> Response:
    return executed_once(scene.service.store, submission, route)


def kept(scene: Scene) -> int:
    with scene.database.reading() as session:
        return session.scalar(select(func.count()).select_from(SubmissionRow)) or 0


def test_a_repeated_request_gets_the_first_answer_and_creates_nothing(scene: Scene) -> None:
    first, again = sent(scene, Route(scene)), sent(scene, Route(scene))
    assert (again.status_code, again.body) == (first.status_code, first.body) == (201, first.body)
    assert (again.headers["etag"], again.headers["idempotent-replayed"]) == ('"1"', "true")
    assert "via" not in again.headers
    assert rules(scene) == 1
    sent(scene, Route(scene), Submission("abe", KEY.key, KEY.digest))
    sent(scene, Route(scene), Submission("ann", "key 2", KEY.digest))
    assert rules(scene) == 3, "another user or key is another request"


def test_a_key_names_one_request(scene: Scene) -> None:
    sent(scene, Route(scene))
    with pytest.raises(RequestRefused, match="named another request"):
        sent(scene, Route(scene), Submission(KEY.who, KEY.key, "other content"))
    assert rules(scene) == 1


def test_a_request_that_failed_before_its_change_can_be_repeated(scene: Scene) -> None:
    with pytest.raises(StoreBusy):
        sent(scene, Route(scene, fails=True))
    assert sent(scene, Route(scene)).status_code == 201
    assert rules(scene) == 1


def test_a_request_whose_answer_was_lost_is_not_executed_again(scene: Scene) -> None:
    with pytest.raises(RuntimeError):
        sent(scene, Route(scene, ends_early=True))
    with pytest.raises(RequestRefused, match="answer was not kept: reload"):
        sent(scene, Route(scene))
    assert rules(scene) == 1


def test_an_answer_that_is_too_long_is_not_kept(scene: Scene) -> None:
    def long() -> Response:
        return Response(f"{Route(scene)().body!r}" + "x" * 70_000)

    sent(scene, long)
    with pytest.raises(RequestRefused, match="answer was not kept"):
        sent(scene, long)
    assert rules(scene) == 1


def test_work_outside_of_the_store_is_started_once(scene: Scene) -> None:
    started: list[int] = []

    def start() -> Response:
        started.append(len(started))
        return Response(str(started), 202)

    assert sent(scene, start).body == sent(scene, start).body == b"[0]"


def test_a_read_keeps_nothing(scene: Scene) -> None:
    sent(scene, lambda: Response(str(rules(scene))))
    assert kept(scene) == 0


def test_keys_are_forgotten_after_a_day_and_beyond_the_newest_ones(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "MOST_OF_USER", 3)
    for number in range(6):
        scene.clock.now_ms += 1_000
        sent(scene, Route(scene), Submission("ann", f"key {number}", "content"))
    assert kept(scene) == 3
    scene.clock.now_ms += KEPT_MS + 1
    sent(scene, Route(scene), Submission("ann", "key 5", "other content"))
    assert (kept(scene), rules(scene)) == (1, 7)
