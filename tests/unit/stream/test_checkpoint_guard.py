"""The conditions on a usable checkpoint, and its agreement with the marker in Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import CheckpointDamaged, CheckpointForeign, Fenced
from fraud_rules.model.schema import Field, FieldType, TextStep, TransactionSchema
from fraud_rules.spark.storage import DiskFolder
from fraud_rules.stream.checkpoint import CheckpointProgress, claim, manifest, read_live_progress, read_progress
from fraud_rules.stream.driver.marker import Beginning, Marker, adopt, check_fits, check_holder
from fraud_rules.stream.pins import NO_PIN, Pin, PinStore

QUERY = "5b8bf551-4353-4c42-9e48-d17a75685ffe"
ENDS = {"transactions": {"0": 5, "1": 6}, "rules": {"0": 1}}
SETTINGS = DetectorSettings()
TOPIC_IDS = {"transactions": "a", "rules": "b"}


@pytest.fixture
def schema(project: Project) -> TransactionSchema:
    return TransactionSchema.load(project.config / "schema.yaml")


@pytest.fixture
def folder(tmp_path: Path) -> DiskFolder:
    return DiskFolder(tmp_path / "checkpoint")


def write_batches(folder: DiskFolder, planned: range, committed: range) -> None:
    """Write the files of Spark and of the pins."""
    folder.create("metadata", json.dumps({"id": QUERY}).encode())
    for batch in planned:
        folder.create(f"offsets/{batch}", f"v1\n{{}}\n{json.dumps(ENDS)}".encode())
        PinStore(folder).create(Pin(batch, 1))
    for batch in committed:
        folder.create(f"commits/{batch}", b"v1\n{}")


def test_an_empty_checkpoint_becomes_ours_and_stays_so(folder: DiskFolder, schema: TransactionSchema) -> None:
    ours = manifest(SETTINGS, schema, TOPIC_IDS)
    claim(folder, ours)
    claim(folder, ours)
    assert read_progress(folder) == CheckpointProgress(None, None, {}, {})


def test_progress_is_read_from_the_logs(folder: DiskFolder) -> None:
    write_batches(folder, range(3, 6), range(3, 5))
    progress = read_progress(folder)
    assert (progress.query_id, progress.committed) == (QUERY, 4)
    assert progress.planned == {3: ENDS, 4: ENDS, 5: ENDS}
    assert progress.pins[5] == Pin(5, 1)


def changed(**members: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda ours: {**ours, **members}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed(detector="other"), "detector"),
        (changed(keyGroups=9), "keyGroups 9, not 8: .*fraud rebuild"),
        (changed(format=2), "format 2, not 3: .*fraud rebuild"),
        (changed(topics={"transactions": "z", "rules": "b"}), "an earlier topic transactions"),
    ],
)
def test_another_detectors_checkpoint_is_foreign(
    change: Callable[[dict[str, Any]], dict[str, Any]], says: str, folder: DiskFolder, schema: TransactionSchema
) -> None:
    ours = manifest(SETTINGS, schema, TOPIC_IDS)
    claim(folder, change(ours))
    with pytest.raises(CheckpointForeign, match=says):
        claim(folder, ours)


def test_a_schema_may_grow_by_nullable_fields_and_change_nothing_else(
    folder: DiskFolder, schema: TransactionSchema
) -> None:
    claim(folder, manifest(SETTINGS, schema, TOPIC_IDS))
    grown = replace(schema, fields=(*schema.fields, Field("channel", FieldType.STRING, nullable=True)))
    claim(folder, manifest(SETTINGS, grown, TOPIC_IDS))

    demanding = replace(grown, fields=(*grown.fields, Field("branch", FieldType.LONG)))
    with pytest.raises(CheckpointForeign, match="branch"):
        claim(folder, manifest(SETTINGS, demanding, TOPIC_IDS))


def test_a_field_in_use_cannot_be_normalized_otherwise(folder: DiskFolder, schema: TransactionSchema) -> None:
    """Its retained texts would be other keys than the new ones."""
    claim(folder, manifest(SETTINGS, schema, TOPIC_IDS))
    fields = [
        replace(each, normalize=(TextStep.NFC,)) if each.type is FieldType.STRING else each for each in schema.fields
    ]
    with pytest.raises(CheckpointForeign, match="a field in use cannot change"):
        claim(folder, manifest(SETTINGS, replace(schema, fields=tuple(fields)), TOPIC_IDS))


def test_the_release_before_a_new_field_can_continue(folder: DiskFolder, schema: TransactionSchema) -> None:
    def with_channel(kind: FieldType) -> dict[str, Any]:
        grown = replace(schema, fields=(*schema.fields, Field("channel", kind, nullable=True)))
        return manifest(SETTINGS, grown, TOPIC_IDS)

    before = manifest(SETTINGS, schema, TOPIC_IDS)
    claim(folder, before)
    claim(folder, with_channel(FieldType.STRING))
    claim(folder, before)
    with pytest.raises(CheckpointForeign, match="channel"):
        claim(folder, with_channel(FieldType.LONG))
    claim(folder, with_channel(FieldType.STRING))

    fewer = replace(schema, fields=tuple(field for field in schema.fields if field.name != "ingestionTimestamp"))
    with pytest.raises(CheckpointForeign, match="ingestionTimestamp"):
        claim(folder, manifest(SETTINGS, fewer, TOPIC_IDS))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("detector.json", None),
        ("detector.json", b""),
        ("metadata", None),
        ("metadata", b""),
        ("metadata", b"{}"),
        ("offsets/4", None),
        ("offsets/4", b""),
        ("offsets/4", b"v1\n{}\n"),
        ("offsets/4", b'v1\n{}\n{"transactions"'),
        ("commits/3", b""),
        ("commits/4", b"v9\n{}"),
        ("pins/4", None),
        ("pins/4", b"{"),
    ],
)
def test_damage_is_named(name: str, content: bytes | None, folder: DiskFolder, schema: TransactionSchema) -> None:
    ours = manifest(SETTINGS, schema, TOPIC_IDS)
    claim(folder, ours)
    write_batches(folder, range(3, 6), range(3, 6))
    if content is None:
        folder.delete(name)
    else:
        folder.create(name, content, replace=True)
    with pytest.raises(CheckpointDamaged, match="restore"):
        guard_progress(folder, ours)


def test_a_gap_between_plans_and_commits_is_damage(folder: DiskFolder) -> None:
    write_batches(folder, range(3, 6), range(3, 4))
    with pytest.raises(CheckpointDamaged, match="plans up to batch 5, but finished 3"):
        read_progress(folder)


class Purging(DiskFolder):
    """As under a detector at work: `times` times the oldest batch is purged right after the commits were listed."""

    def __init__(self, path: Path, times: int) -> None:
        super().__init__(path)
        self.times = times

    def names(self, folder: str = "") -> list[str]:
        found = super().names(folder)
        if folder == "commits" and self.times:
            self.times -= 1
            for log in ("commits", "offsets", "pins"):
                self.delete(f"{log}/{found[0]}")
        return found


@pytest.mark.parametrize("times", [1, 3])
def test_a_batch_purged_between_two_reads_is_no_damage(tmp_path: Path, times: int) -> None:
    write_batches(DiskFolder(tmp_path), range(3, 9), range(3, 9))
    progress = read_live_progress(Purging(tmp_path, times))
    assert sorted(progress.planned) == list(range(3 + times, 9))


def test_damage_that_lasts_is_named_on_a_live_checkpoint_too(folder: DiskFolder) -> None:
    write_batches(folder, range(3, 6), range(3, 6))
    folder.create("commits/4", b"v1", replace=True)
    with pytest.raises(CheckpointDamaged, match="commits/4 is truncated"):
        read_live_progress(folder)


def guard_progress(folder: DiskFolder, ours: dict[str, Any]) -> CheckpointProgress:
    claim(folder, ours)
    return read_progress(folder)


EMPTY = CheckpointProgress(None, None, {}, {})
AT_5 = CheckpointProgress(QUERY, 5, {4: ENDS, 5: ENDS, 6: ENDS}, {4: Pin(4, 1), 5: Pin(5, 1), 6: Pin(6, 1)})


def marker(batch: int, query: str = QUERY, ends: dict[str, dict[str, int]] = ENDS, rules_end: int = 1) -> Marker:
    return Marker(query, batch, ends, Pin(batch, rules_end))


@pytest.mark.parametrize(
    ("written", "progress"),
    [(None, EMPTY), (None, replace(AT_5, committed=None)), (marker(5), AT_5), (marker(6), AT_5)],
    ids=["nothing yet", "died in the first batch", "died before the next", "died between writing and committing"],
)
def test_a_marker_that_fits(written: Marker | None, progress: CheckpointProgress) -> None:
    check_fits(written, progress, "here")


@pytest.mark.parametrize(
    ("written", "progress", "error", "says"),
    [
        (None, AT_5, CheckpointForeign, "no marker"),
        (marker(5), EMPTY, CheckpointForeign, "is empty"),
        (marker(5, query="other"), AT_5, CheckpointForeign, "to query"),
        (marker(4), AT_5, CheckpointForeign, "outputs"),
        (marker(7), AT_5, CheckpointDamaged, "is an older copy"),
        (marker(5, ends={"transactions": {"0": 9}}), AT_5, CheckpointForeign, "other end offsets"),
        (marker(5, rules_end=2), AT_5, CheckpointForeign, "another pin"),
    ],
)
def test_a_marker_that_does_not_fit(
    written: Marker | None, progress: CheckpointProgress, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        check_fits(written, progress, "here")


def test_an_empty_checkpoint_can_continue_after_the_outputs(folder: DiskFolder) -> None:
    written = marker(5)
    assert adopt(folder, written, EMPTY, wanted=False) is None
    assert adopt(folder, None, EMPTY, wanted=True) is None
    assert adopt(folder, written, AT_5, wanted=True) is None

    assert adopt(folder, written, EMPTY, wanted=True) == Beginning(written)
    assert adopt(folder, marker(9), EMPTY, wanted=False) == Beginning(written)
    assert PinStore(folder).read(NO_PIN.batch_id) == replace_pin(written)


def replace_pin(written: Marker) -> Pin:
    return Pin(NO_PIN.batch_id, written.pin.rules_end, written.pin.refused)


OURS, NEXT, OTHER = Marker("q", 7, {}, Pin(7, 0)), Marker("q", 8, {}, Pin(8, 0)), Marker("other", 3, {}, Pin(3, 0))


@pytest.mark.parametrize(
    ("newest", "own"), [(None, None), (OURS, OURS), (OTHER, None)], ids=["none yet", "ours", "adopted"]
)
def test_a_process_holds_its_name_if_it_wrote_the_newest_marker(newest: Marker | None, own: Marker | None) -> None:
    check_holder(newest, own, "q")


@pytest.mark.parametrize(
    ("newest", "own"), [(OURS, None), (NEXT, OURS), (OTHER, OURS)], ids=["first batch", "next batch", "another query"]
)
def test_a_process_is_fenced_if_another_one_wrote_the_newest_marker(newest: Marker, own: Marker | None) -> None:
    with pytest.raises(Fenced, match=f"another process has written batch {newest.batch_id}"):
        check_holder(newest, own, "q")


def test_a_marker_survives_its_encoding() -> None:
    written = Marker(QUERY, 5, ENDS, Pin(5, 3, {"1": [("limit", "is too large")]}))
    assert Marker.decode(written.encode()) == written
    with pytest.raises(CheckpointForeign):
        Marker.decode(b"{}")
