"""Labels from marks, files and the topic: the newest one of a transaction counts, and what-ifs read all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from fraud_control.domain.errors import Invalid, RequestRefused
from fraud_control.domain.label_models import LabelUpload
from fraud_control.domain.lifecycle import StateName
from fraud_control.service.labels.payments import KEPT_DAYS
from fraud_control.service.labels.snapshot import LabelFile
from fraud_control.store.label_models import LabelRow
from fraud_control.sync.label_export import LabelExport
from fraud_control.sync.topic_intakes import label_intake
from fraud_rules.batch.whatif.labels import Labels, LabelSource, read_label_lines, source_counts
from fraud_rules.batch.whatif.place import LABELS_FILE
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.kafka.reader import Record
from tests.support.control_plane.alerts import alert
from tests.support.control_plane.hostile import HOSTILE
from tests.support.control_plane.scene import ANN, REASON, VIC, Scene, rule_input
from tests.support.rules import SCHEMA
from tests.support.waiting import until

DAY_MS = 86_400_000


def upload(scene: Scene, *lines: str, name: str = "chargebacks.csv") -> LabelUpload:
    scene.clock.now_ms += 1_000
    return scene.service.labels.upload(ANN, name, "csv", "\n".join(["transactionId,alertId,label", *lines]) + "\n")


def load(scene: Scene, *lines: str) -> LabelUpload:
    """A file with the columns of `fraud labels load`."""
    scene.clock.now_ms += 1_000
    content = "\n".join(["transaction,label,time,source", *lines]) + "\n"
    return scene.service.labels.upload(ANN, "late.csv", "csv", content)


def receive(scene: Scene, *values: bytes | None, start: int = 0) -> None:
    """Records of the topic, appended now."""
    scene.clock.now_ms += 1_000
    intake = label_intake(scene.store, KafkaConnection("nowhere:1"), "labels", SCHEMA)
    records = [Record(start + place, scene.clock(), b"key", value) for place, value in enumerate(values)]
    intake.apply_records(records, start + len(records))


def label(transaction_id: object, verdict: str = "FRAUD") -> bytes:
    return json.dumps({"transactionId": transaction_id, "label": verdict}).encode()


def indexed(scene: Scene, number: int, *, shadow: bool = False) -> str:
    """An alert of the index on the transaction with the same number."""
    found = alert(scene.clock.now_ms // 1_000 + number, 1, shadow=shadow, triggeringEvent={"transactionId": number})
    return scene.index(found)


def mark(scene: Scene, alert_id: str, verdict: Any) -> None:
    scene.clock.now_ms += 1_000
    scene.service.mark(ANN, alert_id, 1, 3, verdict)


def stored(scene: Scene) -> dict[str, tuple[str, str, str]]:
    """Verdict, source and author by transaction."""
    with scene.database.reading() as session:
        return {row.transaction_id: (row.verdict, row.source, row.author) for row in session.scalars(select(LabelRow))}


def test_a_file_has_labels_of_transactions_and_of_alerts(scene: Scene) -> None:
    known = indexed(scene, 7)
    result = upload(scene, "1,,FRAUD", "2,,0", f",{known},fraud", ",alert-of-last-year,FRAUD", "3,,maybe", "x,,FRAUD")
    assert stored(scene) == {
        "1": ("FRAUD", "file", "ann"), "2": ("NOT_FRAUD", "file", "ann"), "7": ("FRAUD", "file", "ann"),
    }  # fmt: skip
    assert (result.fraud, result.not_fraud) == (2, 1)
    assert result.skipped == {"alert unknown or too old": 1, "unknown label": 1, "unreadable transaction id": 1}
    (row,) = [row for row in scene.service.audit_rows().items if row.action == "labels.upload"]
    assert (row.who, row.subject, row.after["fraud"], row.after["notFraud"]) == ("ann", "file chargebacks.csv", 2, 1)
    assert len(row.after["sha256"]) == 64


def test_the_newest_label_of_a_transaction_counts_whatever_its_source(scene: Scene) -> None:
    upload(scene, "1,,NOT_FRAUD", "1,,FRAUD", "2,,FRAUD")
    assert stored(scene)["1"][0] == "FRAUD", "the last line of a file"
    receive(scene, label(2, "NOT_FRAUD"), label(3))
    assert stored(scene)["2"] == ("NOT_FRAUD", "topic", "labels")
    scene.clock.now_ms -= 60_000
    receive(scene, label(2, "FRAUD"), start=2)
    assert stored(scene)["2"][0] == "NOT_FRAUD", "an older record that arrives late"


def test_a_label_has_the_time_and_the_source_of_its_line(scene: Scene) -> None:
    now_ms = scene.clock.now_ms
    upload(scene, "1,,NOT_FRAUD", "2,,FRAUD")
    result = load(
        scene,
        f"1,FRAUD,{now_ms - DAY_MS},chargeback",
        "3,FRAUD,2023-11-01,chargeback",
        "4,FRAUD,2023-11-01T12:00Z,desk",
        "4,NOT_FRAUD,2023-10-31T12:00Z,desk",
        "5,FRAUD,yesterday,desk",
        f"6,FRAUD,{now_ms + 2 * DAY_MS},desk",
        f"7,FRAUD,{now_ms + DAY_MS // 2},desk",
    )
    assert (result.fraud, result.not_fraud) == (4, 0), "of two labels in a file, the newer one"
    assert result.skipped == {"unreadable time": 1, "time in the future": 1}
    assert stored(scene)["1"][0] == "NOT_FRAUD", "the label of the store is newer"
    with scene.database.reading() as session:
        found = {row.transaction_id: (row.origin, row.at_ms) for row in session.scalars(select(LabelRow))}
    assert found["3"] == ("chargeback", 1_698_796_800_000)
    assert found["4"] == ("desk", 1_698_840_000_000)
    assert found["7"] == ("desk", scene.clock()), "a fast clock"
    receive(scene, json.dumps({"transactionId": 8, "label": "FRAUD", "source": "police", "time": 1_000}).encode())
    assert "8" not in stored(scene), "too old for any what-if"
    counts = [(each.source, each.origin, each.fraud, each.not_fraud) for each in scene.service.labels.counts()]
    assert counts[0] == ("mark", "", 0, 0) and counts[-1] == ("topic", "", 0, 0)
    assert sorted(counts[1:-1]) == [("file", "", 1, 1), ("file", "chargeback", 1, 0), ("file", "desk", 2, 0)]


def test_the_file_for_what_ifs_changes_with_a_label_of_an_earlier_time(scene: Scene, tmp_path: Path) -> None:
    file = LabelFile(scene.database, tmp_path)
    load(scene, "1,FRAUD,,", "2,NOT_FRAUD,2023-11-02,")
    path = file.refresh()
    load(scene, "2,FRAUD,2023-11-03,chargeback")
    file.refresh()
    assert path is not None
    assert [each.label for each in read_label_lines(path, SCHEMA).lines] == [1, 1]


def test_a_what_if_reads_all_sources_from_one_file(scene: Scene, tmp_path: Path) -> None:
    file = LabelFile(scene.database, tmp_path)
    assert file.refresh() is None
    ids = [indexed(scene, number) for number in (1, 2, 3)]
    upload(scene, "1,,NOT_FRAUD", "4,,FRAUD")
    for alert_id, verdict in zip(ids, ("FRAUD", "FRAUD", "NOT_FRAUD"), strict=True):
        mark(scene, alert_id, verdict)
    receive(scene, label(2, "NOT_FRAUD"), label(5))
    path = file.refresh()
    assert path == tmp_path / LABELS_FILE
    read = read_label_lines(path, SCHEMA)
    labels, replaced = Labels.of_lines(read.lines, dict(zip(ids, (1, 2, 3), strict=True)))
    found = dict(zip(labels.ids, zip(labels.classes.tolist(), labels.sources.tolist(), strict=True), strict=True))
    marks, files, topic = (tuple(LabelSource).index(each) for each in LabelSource)
    assert found == {1: (1, marks), 2: (2, topic), 3: (2, marks), 4: (1, files), 5: (1, topic)}
    assert replaced == 2
    assert source_counts(labels, labels.classes > 0) == {"mark": 2, "file": 1, "topic": 2}


def test_the_file_changes_with_each_label_and_disappears_with_the_last_one(scene: Scene, tmp_path: Path) -> None:
    file, known = LabelFile(scene.database, tmp_path), indexed(scene, 1)
    mark(scene, known, "FRAUD")
    path = file.refresh()
    assert path is not None and '"FRAUD"' in path.read_text()
    scene.service.mark(ANN, known, 1, 3, "NOT_FRAUD")
    file.refresh()
    assert '"NOT_FRAUD"' in path.read_text(), "also at the same time"
    before = path.stat().st_mtime_ns
    file.refresh()
    assert path.stat().st_mtime_ns == before
    scene.service.unmark(ANN, known)
    assert file.refresh() is None
    assert LabelFile(scene.database, tmp_path / "no-archive").refresh() is None


def test_the_leader_keeps_the_file_current(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fraud_control.sync.label_export._INTERVAL_S", 0.01)
    export = LabelExport(scene.database, LabelFile(scene.database, tmp_path))
    export.start()
    upload(scene, "1,,FRAUD")
    until((tmp_path / LABELS_FILE).exists, "the file")
    export.stop()
    assert export.fault is None


def test_the_file_is_written_once_a_minute_at_most(scene: Scene, tmp_path: Path) -> None:
    file = LabelFile(scene.database, tmp_path)
    export = LabelExport(scene.database, file)
    for number in range(3):
        upload(scene, f"{number},,FRAUD")
        export.step()
    assert file.writes == 1
    file.refresh()
    assert file.writes == 2, "a what-if does not wait"


def test_unreadable_records_are_skipped_and_recorded(scene: Scene) -> None:
    hostile = [each for each in HOSTILE.values() if each is not None]
    unknown = json.dumps({"alertId": "alert-of-last-year", "label": "FRAUD"}).encode()
    receive(scene, None, *hostile, label("y"), label(1, "perhaps"), unknown, label(1) + b" " * 70_000, label(8))
    assert set(stored(scene)) == {"8"}
    refused = [row for row in scene.service.audit_rows().items if row.action == "labels.refused"]
    assert len(refused) == len(hostile) + 4
    assert "alert unknown or too old" in str([row.after for row in refused])


def test_labels_leave_the_store_when_no_what_if_can_need_them(scene: Scene) -> None:
    upload(scene, "1,,FRAUD")
    scene.clock.now_ms += KEPT_DAYS * DAY_MS
    upload(scene, "2,,FRAUD")
    assert set(stored(scene)) == {"2"}


def test_counts_by_source(scene: Scene) -> None:
    upload(scene, "1,,FRAUD", "2,,NOT_FRAUD")
    receive(scene, label(3))
    counts = [(each.source, each.fraud, each.not_fraud) for each in scene.service.labels.counts()]
    assert counts == [("mark", 0, 0), ("file", 1, 1), ("topic", 1, 0)]
    assert scene.service.labels.counts()[2].newest_ms == scene.clock.now_ms


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a/b.csv", "transactionId,label\n1,FRAUD\n", "name"),
        ("a.csv", "payment,fraud\n1,1\n", "has no column"),
        ("a.csv", "", "has no label"),
        ("a.csv", "x" * 5_000_000, "at most"),
    ],
)
def test_a_file_that_is_refused_is_named_without_the_server_s_paths(
    scene: Scene, name: str, content: str, said: str
) -> None:
    with pytest.raises(Invalid, match=said) as refused:
        scene.service.labels.upload(ANN, name, "csv", content)
    assert "/tmp" not in str(refused.value)
    assert stored(scene) == {}


def test_a_viewer_uploads_nothing(scene: Scene) -> None:
    with pytest.raises(RequestRefused):
        scene.service.labels.upload(VIC, "a.csv", "csv", "transactionId,label\n1,FRAUD\n")


def test_an_approver_sees_labels_of_shadow_alerts(scene: Scene) -> None:
    detail = scene.service.create(ANN, rule_input(ruleId=1))
    detail = scene.service.change_state(ANN, 1, detail.row.revision, StateName.SHADOW)
    ids = [indexed(scene, number, shadow=True) for number in (11, 12, 13, 14)]
    mark(scene, ids[0], "NOT_FRAUD")
    upload(scene, "11,,FRAUD", "12,,FRAUD")
    mark(scene, ids[1], "NOT_FRAUD")
    mark(scene, ids[2], "FRAUD")
    scene.another(four_eyes=True).change_state(ANN, 1, detail.row.revision, StateName.ACTIVE, comment=REASON)
    _, shadow, _ = scene.service.approval_figures(scene.service.approvals().items[0].id)
    assert shadow is not None
    assert (shadow.alerts, shadow.fraud, shadow.not_fraud) == (4, 2, 1)
    assert shadow.by_requester == 3, "a label of the requester counts like a mark"
