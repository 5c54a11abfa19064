"""The files that a release leaves behind, one of each format.

`python -m tests.support.release_files` writes those of this release to tests/corpus/releases/VERSION. The tests of
later releases read them.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fraud_control.domain.roles import Role
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store.database import Database
from fraud_rules.batch.archive.manifest import FileEntry, Manifest, Table
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.engine.statelog import StateVersion
from fraud_rules.model.lost_records import LossReason, LostRecords
from fraud_rules.proof.document import write_file
from fraud_rules.replay.recording import Recording
from fraud_rules.replay.replay import Replay, batch_inputs, settings_of_recording
from fraud_rules.stream.checkpoint.identity import declared_fields
from fraud_rules.stream.checkpoint.marker import Marker
from fraud_rules.stream.pins import Pin
from fraud_rules.stream.state_position import StatePosition
from tests.support.conformance import load_schema
from tests.support.control_plane.scene import ANN, Scene, rule_input
from tests.support.places import CORPUS
from tests.support.proofs import MADE_AT_MS, proofs_of

__all__ = ["RELEASES", "evaluated", "write"]

RELEASES = CORPUS / "releases"
_START_MS = 1_700_000_000_000
_PAYMENTS = 24


def _recording() -> dict[str, Any]:
    """Rules with every part of a state: rows, marks of cool-downs and resets, sums by step. Two thirds of the payments
    come in batches of one, so that later batches add earlier rows to the sums."""
    common = {"ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "limitOperatorType": ">", "windowMinutes": 4}
    amount = {"aggregateFieldName": "paymentAmount"}
    rules = [
        {"ruleId": 1, "aggregatorFunctionType": "SUM", "limit": 5, "cooldownSeconds": 300, **common, **amount},
        {"ruleId": 2, "aggregatorFunctionType": "COUNT_WITH_RESET", "limit": 3, **common},
        {"ruleId": 3, "aggregatorFunctionType": "MAX", "limit": 2, **common, **amount, "windowMinutes": 60,
         "resolutionSeconds": 60},
    ]  # fmt: skip
    steps: list[dict[str, Any]] = [{"at": _START_MS, "rule": rule} for rule in rules]
    for number in range(_PAYMENTS):
        at_ms = _START_MS + 61_000 * (number + 1)
        tx = {
            "transactionId": number,
            "eventTime": at_ms - 500 * (number % 3),
            "payeeId": number % 2,
            "beneficiaryId": 7,
        }
        steps.append({"at": at_ms, "tx": {**tx, "paymentType": "CSH", "paymentAmount": f"{number % 5}.50"}})
    ends = range(1, _PAYMENTS * 2 // 3 + 1)
    batches = [{"offsets": {"transactions": {"0": end}}, "pin": len(rules)} for end in ends]
    settings = {"detailMinutes": 0, "maxOutOfOrdernessMs": 1_000}
    return {"keyGroups": 1, "steps": steps, "batches": batches, "settings": settings}


def evaluated(document: dict[str, Any], state: bytes | None = None) -> tuple[list[bytes], bytes]:
    """The alerts of the last batch of a recording as JSON, and the state before it. With a `state`, the batch continues
    from it."""
    schema, recording = load_schema("default"), Recording.of_document(document)
    settings = settings_of_recording(recording, DetectorSettings())
    run = Replay(schema, settings)
    *earlier, last = batch_inputs(recording, schema, settings)
    if state is None:
        for batch in earlier:
            run.evaluate(batch.records, batch.timeline, MADE_AT_MS)
        (state,) = run.images().values()
    else:
        run.restore({0: state})
    result = run.evaluate(last.records, last.timeline, MADE_AT_MS)
    return [alert.json for output in result.outputs for alert in output.alerts], state


def write(folder: Path) -> None:
    """Write the files of this release."""
    folder.mkdir(parents=True)
    document = _recording()
    (folder / "recording.json").write_text(json.dumps(document) + "\n", encoding="utf-8")
    (folder / "state.bin").write_bytes(evaluated(document)[1])
    proof = next(each for each in proofs_of(document, load_schema("default")) if each.statement.rule_id == 1)
    (folder / "proof.zip").write_bytes(write_file(proof))
    (folder / "marker.json").write_bytes(_marker().encode() + b"\n")
    ArchiveStore(folder / "archive").commit(_manifest())
    (folder / "store.sql").write_text(_store(), encoding="utf-8")


def _marker() -> Marker:
    return Marker(
        query_id="q",
        batch_id=7,
        end_offsets={"transactions": {"0": 16}},
        pin=Pin(7, 3, {"1": [("limit", "is too large")]}, digest="d", live_end=3, time_zones="2026a"),
        topics={"transactions": "a", "rules": "b"},
        state=StatePosition("c", [0], [9], [StateVersion(1, 2)]),
        rebuild="order",
        fields=declared_fields(load_schema("default")),
        resumed_at=2,
        lost=[LostRecords("transactions", 0, 5, 9, LossReason.REMOVED, 4)],
    )


def _manifest() -> Manifest:
    file = FileEntry(Table.TRANSACTIONS, 19_675, "data/transactions/day=2023-11-14/a.parquet", 16, 900, 1, 2, {"0": 16})
    return Manifest(
        version=1, ends={"transactions": {"0": 16}}, complete_until_ms=_START_MS, transactions=16, files=(file,)
    )


def _store() -> str:
    """The tables with a rule, its revisions and the audit log, as SQL."""
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{name}/control.db"
        database = Database.open(url)
        scene = Scene(database, ControlPlaneSettings(database=url, bindings={"ada": Role.ADMIN}))
        scene.service.create(ANN, rule_input(name="a rule of this release"))
        database.close()
        with closing(sqlite3.connect(f"{name}/control.db")) as connection:
            return "\n".join(connection.iterdump()) + "\n"


if __name__ == "__main__":
    write(RELEASES / version("fraud-rules"))
