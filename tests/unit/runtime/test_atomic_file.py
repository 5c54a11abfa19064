from __future__ import annotations

from pathlib import Path

import pytest

from fraud_rules.runtime.atomic_file import Durability, create_file, replaced_file, write_file


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("durability", list(Durability))
def test_a_written_file_replaces_the_older_one(tmp_path: Path, durability: Durability) -> None:
    path = tmp_path / "state.json"
    for content in (b"first", b"second"):
        write_file(path, content, durability)
        assert path.read_bytes() == content
    assert names(tmp_path) == ["state.json"]


@pytest.mark.parametrize("durability", list(Durability))
def test_a_file_is_created_once(tmp_path: Path, durability: Durability) -> None:
    path = tmp_path / "1.json"
    assert create_file(path, b"first", durability)
    assert not create_file(path, b"second", durability)
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["1.json"]


def test_an_error_while_writing_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_file(path, b"before")
    with pytest.raises(ZeroDivisionError), replaced_file(path) as partial:
        partial.write_bytes(b"%d" % (1 // 0))
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["state.json"]


def test_a_reader_that_lists_the_folder_can_skip_unfinished_files(tmp_path: Path) -> None:
    with replaced_file(tmp_path / "part.parquet") as partial:
        partial.write_bytes(b"new")
        assert partial.parent == tmp_path
        assert partial.name.startswith(".part.parquet.")
        assert partial.name.endswith(".tmp")


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "none" / "state.json", b"")
    with pytest.raises(FileNotFoundError):
        create_file(tmp_path / "none" / "state.json", b"")
