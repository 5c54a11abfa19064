"""An API server's work in a process that a test can kill: eight writers with one service, and its publisher.

The revisions of each rule follow a fixed sequence, so the number of a revision determines its content. A restarted
process continues after the last revision in the store.
"""

from __future__ import annotations

import os
import sys
import threading

from fraud_control.domain.errors import Conflict, Unavailable
from fraud_control.domain.lifecycle import StateName
from fraud_control.domain.roles import Actor, Role
from fraud_control.domain.rule_input import RuleReader
from fraud_control.service.store_access import StoreAccess
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import Database
from fraud_control.sync.background import Background
from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.model.schema import TransactionSchema
from fraud_rules.runtime.clock import now_ms
from tests.support.control_plane.desk import Desk
from tests.support.control_plane.scene import rule_input

WRITERS = 8
SHARED = 1_000


def rules_of(writer: int, count: int) -> list[int]:
    """The rules that a writer changes: its own rules, and one that all writers share."""
    return [*(writer * 100 + place for place in range(1, count + 1)), SHARED]


def step(service: Desk, who: Actor, rule_id: int, revision: int) -> None:
    """Save the given revision of a rule, which must be its next one."""
    if revision == 1:
        service.create(who, rule_input(ruleId=rule_id, description="1"))
    elif revision <= 3 or revision % 4 == 0:
        state = {2: StateName.SHADOW, 3: StateName.ACTIVE}.get(
            revision, (StateName.PAUSE, StateName.ACTIVE)[revision // 4 % 2 == 0]
        )
        service.change_state(who, rule_id, revision - 1, state)
    else:
        service.edit(who, rule_id, revision - 1, rule_input(ruleId=rule_id, description=str(revision)))


def write(service: Desk, writer: int, rules: int, revisions: int) -> None:
    who = Actor(f"writer-{writer}", Role.ADMIN)
    unfinished = set(rules_of(writer, rules))
    while unfinished:
        for rule_id in sorted(unfinished):
            known = [each.revision for each in service.rules(query=str(rule_id)).items if each.rule_id == rule_id]
            revision = known[0] if known else 0
            if revision >= revisions:
                unfinished.discard(rule_id)
                continue
            try:
                step(service, who, rule_id, revision + 1)
            except (Conflict, Unavailable):
                continue


def main() -> None:
    rules, revisions = map(int, sys.argv[1:])
    project = Project.find()
    settings = ControlPlaneSettings.load(project)
    detector = DetectorSettings.load(project.config / "detector.yaml")
    schema = TransactionSchema.load(project.config / "schema.yaml")
    database = Database.open(settings.database)
    store = StoreAccess(database, settings, RuleReader(schema, detector.limits), now_ms)
    kafka = KafkaConnection(os.environ["FRAUD_BOOTSTRAP"])
    Background(store, kafka, detector).start()
    service = Desk(store)
    writers = [
        threading.Thread(target=write, args=(service, writer, rules, revisions)) for writer in range(1, WRITERS + 1)
    ]
    for thread in writers:
        thread.start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
