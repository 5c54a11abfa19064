"""The folder of the views, and the removal of old views."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from fraud_rules.configuration.settings import DetectorSettings
from fraud_rules.errors import ConfigError, StorageFull
from fraud_rules.kafka.connection import KafkaConnection
from fraud_rules.stream.worker.context import WorkerContext
from fraud_rules.stream.worker.views import OWNER, check_views_disk, sweep_views, touch_views, view_folder
from tests.support.conformance import load_schema
from tests.support.small_disk import small_disk


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a temporary folder of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_views_in_use_stay(host: Path) -> None:
    kept = [view_folder("cards/a"), view_folder("cards/b"), view_folder("transfers/a")]
    sweep_views()
    assert all(folder.is_dir() for folder in kept)
    assert len(set(kept)) == len(kept)


def test_results_of_warm_ups_with_the_same_rows_are_prepared_in_folders_of_their_own(host: Path) -> None:
    """While a batch moves the arrays of one of them, a task may write those of the other."""
    kafka = KafkaConnection("localhost:9092")
    context = WorkerContext(load_schema("default"), DetectorSettings(), kafka, state_partitions=1, history="h")
    folders = [context.prepared_folder(offset, "digest", key_group) for offset in (3, 5) for key_group in (0, 1)]
    assert len(set(folders)) == len(folders)


def test_views_that_no_task_has_used_for_a_week_are_removed(host: Path) -> None:
    unused, used = view_folder("cards/a"), view_folder("cards/b")
    week_ago_s = time.time() - 8 * 86_400
    for folder in (unused, used):
        os.utime(folder / OWNER, (week_ago_s, week_ago_s))
    touch_views("cards/b", "")
    sweep_views()
    assert (unused.exists(), used.exists()) == (False, True)


def test_views_of_an_earlier_boot_are_removed(host: Path) -> None:
    folder = view_folder(str(host))
    (folder / OWNER).write_text(f"an earlier boot\n{host}\n", encoding="utf-8")
    sweep_views()
    assert not folder.exists()


def test_a_folder_without_an_owner_file_stays(host: Path) -> None:
    folder = view_folder(str(host))
    (folder / OWNER).unlink()
    sweep_views()
    assert folder.is_dir()


def test_views_are_kept_where_the_setting_says(host: Path) -> None:
    assert view_folder("cards/a", str(host / "fast")).parent.parent == host / "fast"


def test_only_their_user_can_read_views(host: Path) -> None:
    root = host / f"fraud-rules-views-{os.getuid()}"
    root.mkdir(mode=0o755)
    folder = view_folder("cards/a")
    assert folder.parent == root
    assert root.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_folder_that_another_user_made_is_refused(host: Path, kind: str) -> None:
    """Its name is known in advance, and every user may write to the temporary folder."""
    root, elsewhere = host / f"fraud-rules-views-{os.getuid()}", host / "elsewhere"
    elsewhere.mkdir()
    if kind == "link":
        root.symlink_to(elsewhere)
    else:
        root.mkdir()
        os.chown(root, 65_534, 65_534)
    for use in (lambda: view_folder("cards/a"), lambda: check_views_disk("cards", "")):
        with pytest.raises(ConfigError, match="belongs to another user"):
            use()
    assert list(elsewhere.iterdir()) == []


def test_a_read_only_disk_is_named(tmp_path: Path) -> None:
    root = str(tmp_path / "disk")
    with small_disk(tmp_path / "disk", "65m"):
        check_views_disk("cards", root)
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        with pytest.raises(ConfigError, match=r"views_folder: .* is not writable"):
            check_views_disk("cards", root)


def test_a_disk_without_room_for_views_is_named(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m", enlarged="65m") as enlarge:
        root = str(tmp_path / "disk")
        with pytest.raises(StorageFull, match=f"No space left for the views: the disk of {root}.*views_folder"):
            check_views_disk("cards", root)
        enlarge()
        (view_folder("cards/a", root) / "cell").write_bytes(bytes(2**21))
        check_views_disk("cards", root)
    with pytest.raises(ConfigError, match="views_folder: /proc/none"):
        check_views_disk("cards", "/proc/none")
