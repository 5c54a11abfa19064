"""The folders of the user's cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from fraud_rules.runtime.caches.folder import cache_folder


def test_the_variable_names_the_place_of_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAUD_CACHE_DIR", str(tmp_path / "cache"))
    folder = cache_folder("schemas")
    assert folder == tmp_path / "cache" / "schemas"
    assert folder.stat().st_mode & 0o077 == 0


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    monkeypatch.setenv("FRAUD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 65_534, 65_534)
    assert cache_folder("theirs") == tmp_path / f"fraud-rules-{os.getuid()}" / "theirs"
