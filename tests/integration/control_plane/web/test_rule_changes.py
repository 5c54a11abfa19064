"""Readers of the stream receive every change of a rule, made in any process."""

from __future__ import annotations

from collections.abc import Sequence

from fraud_control.domain.read_models import RuleInput
from fraud_control.domain.roles import Role
from fraud_control.feed.events import Event, FeedRuleChange
from fraud_control.watch.rule_changes import ChangesWatch
from tests.support.control_plane.scene import ADA, RULE, Scene
from tests.support.waiting import until


def test_changes_in_this_and_other_processes_are_reported(scene: Scene) -> None:
    received: list[Event] = []

    def receive(events: Sequence[Event]) -> None:
        received.extend(events)

    def rules() -> list[int | None]:
        return [each.changed.rule_id for each in received if isinstance(each, FeedRuleChange)]

    here, elsewhere = scene.service, scene.another()
    watch = ChangesWatch(here.store, receive)
    watch.start()
    try:
        here.bind(ADA, "vic", Role.VIEWER)
        first = here.create(ADA, RuleInput(document=RULE)).row.rule_id
        until(lambda: first in rules(), "a change in this process")
        second = elsewhere.create(ADA, RuleInput(document=RULE)).row.rule_id
        until(lambda: second in rules(), "a change in another process")
        assert set(rules()) == {first, second}
    finally:
        watch.stop()
