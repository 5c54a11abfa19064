"""A check of concurrent writers that holds for each database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from fraud_control.store.database import Database
from tests.support.control_plane.scene import ADA, Scene, rule_input

_RULES = 8


def opened_at_once(url: str) -> list[Database]:
    """A database that four threads open at once."""
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(Database.open, [url] * 4))


def check_concurrent_edits(edits: int, *scenes: Scene) -> None:
    """Eight threads create a rule and edit it, in these scenes of one store; no edit and no row of the audit log is
    lost."""

    def write(rule_id: int) -> None:
        service = scenes[rule_id % len(scenes)].service
        detail = service.create(ADA, rule_input(ruleId=rule_id))
        for limit in range(1, edits + 1):
            detail = service.edit(ADA, rule_id, detail.row.revision, rule_input(limit=limit))

    with ThreadPoolExecutor(_RULES) as threads:
        list(threads.map(write, range(1, _RULES + 1)))
    verdict = scenes[0].service.verify_audit()
    assert (verdict.whole, verdict.rows) == (True, _RULES * (edits + 1))
