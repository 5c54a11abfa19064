"""The files of earlier releases, which this release reads (tests/corpus/releases), and files of later formats, which it
refuses by name. docs/upgrade.md has the table of formats."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest

from fraud_control.domain.roles import Role
from fraud_control.settings import ControlPlaneSettings
from fraud_control.store import migrations
from fraud_control.store.database import Database
from fraud_rules.batch.archive import manifest
from fraud_rules.batch.archive.manifest import Manifest
from fraud_rules.batch.archive.store import ArchiveStore
from fraud_rules.batch.reevaluation import basis
from fraud_rules.engine.state.store import LAYOUT
from fraud_rules.errors import ArchiveDamaged, ProofInvalid
from fraud_rules.proof.document import FORMAT, read_file, write_file
from fraud_rules.stream.checkpoint import marker
from fraud_rules.stream.checkpoint.marker import Marker
from tests.support.control_plane.scene import ANN, Scene, rule_input
from tests.support.places import ROOT
from tests.support.proofs import check_file
from tests.support.release_files import RELEASES, evaluated

releases = pytest.mark.parametrize("release", sorted(RELEASES.iterdir()), ids=lambda folder: folder.name)


def test_this_release_has_left_its_files() -> None:
    """Write them before a release, with `python -m tests.support.release_files`."""
    assert (RELEASES / version("fraud-rules")).is_dir()


@releases
def test_a_detector_continues_from_the_state_of_a_release(release: Path) -> None:
    document = json.loads((release / "recording.json").read_text(encoding="utf-8"))
    continued, _ = evaluated(document, (release / "state.bin").read_bytes())
    assert continued == evaluated(document)[0] != []


@releases
def test_the_marker_of_a_release_keeps_its_members(release: Path) -> None:
    text = (release / "marker.json").read_bytes()
    assert json.loads(Marker.decode(text).encode()).items() >= json.loads(text).items()


@releases
def test_the_archive_of_a_release_is_open_for_the_next_run(release: Path, tmp_path: Path) -> None:
    archive = ArchiveStore(shutil.copytree(release / "archive", tmp_path / "archive"))
    found = archive.latest()
    (text,) = (path.read_bytes() for path in (release / "archive").rglob("*.json"))
    assert json.loads(msgspec.json.encode(found)).items() >= json.loads(text).items()
    archive.commit(msgspec.structs.replace(found, version=found.version + 1))
    assert archive.latest().files == found.files


@releases
def test_a_proof_of_a_release_still_holds(release: Path) -> None:
    _, _, verdict = check_file((release / "proof.zip").read_bytes())
    assert verdict.holds
    assert "alert" in verdict.checked


@releases
def test_the_store_of_a_release_is_migrated_and_edited(release: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "control.db")) as connection:
        connection.executescript((release / "store.sql").read_text(encoding="utf-8"))
    url = f"sqlite:///{tmp_path / 'control.db'}"
    database = Database.open(url)
    scene = Scene(database, ControlPlaneSettings(database=url, bindings={"ada": Role.ADMIN}))
    scene.service.create(ANN, rule_input(name="a rule of the next release"))
    assert [each.name for each in scene.service.rules().items] == [
        "a rule of this release",
        "a rule of the next release",
    ]
    assert scene.service.verify_audit().whole
    database.close()


def test_the_page_has_the_present_versions() -> None:
    rows = [line.split("|") for line in (ROOT / "docs" / "upgrade.md").read_text(encoding="utf-8").splitlines()]
    stated = {row[1].split()[0]: row[2] for row in rows if len(row) == 6}
    assert stated["checkpoint"].endswith(f", {marker.FORMAT} ")
    assert f"layout, {LAYOUT}," in stated["views"]
    assert stated["store"].endswith(f", {max(revisions(), key=int)} ")
    assert stated["archive"].endswith(f", {manifest.FORMAT} ")
    assert stated["saved"].endswith(f", {basis.FORMAT} ")
    assert stated["proofs"].endswith(f", {FORMAT} ")


def revisions() -> list[str]:
    return [
        path.name.partition("_")[0].removeprefix("v") for path in Path(migrations.__path__[0]).glob("versions/v*.py")
    ]


def test_a_proof_of_a_later_format_is_rejected_by_name() -> None:
    proof = read_file((max(RELEASES.iterdir()) / "proof.zip").read_bytes())
    later = msgspec.structs.replace(proof, statement=msgspec.structs.replace(proof.statement, format=FORMAT + 1))
    with pytest.raises(ProofInvalid, match=f"has format {FORMAT + 1}, but this version reads {FORMAT}"):
        check_file(write_file(later))


def test_an_archive_of_a_later_format_is_refused_by_name(tmp_path: Path) -> None:
    ArchiveStore(tmp_path).commit(Manifest(version=1, format=99))
    with pytest.raises(ArchiveDamaged, match=r"has format 99, but this version reads \d"):
        ArchiveStore(tmp_path).latest()
