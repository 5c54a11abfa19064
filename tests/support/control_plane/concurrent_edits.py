"""A check of concurrent writers that holds for each database."""

from __future__ import annotations

import threading

from tests.support.control_plane.scene import ADA, Scene, rule_input

_RULES = 8


def check_concurrent_edits(scene: Scene, edits: int) -> None:
    """Eight threads create a rule and edit it; no edit and no row of the audit log is lost."""

    def write(rule_id: int) -> None:
        detail = scene.service.create(ADA, rule_input(ruleId=rule_id))
        for limit in range(1, edits + 1):
            detail = scene.service.edit(ADA, rule_id, detail.row.revision, rule_input(limit=limit))

    threads = [threading.Thread(target=write, args=(rule_id,)) for rule_id in range(1, _RULES + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = scene.service.verify_audit()
    assert (verdict.whole, verdict.rows) == (True, _RULES * (edits + 1))
